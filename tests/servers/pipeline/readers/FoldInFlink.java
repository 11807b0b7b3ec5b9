import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** FoldInFlink FILE NAME: the bounded CREATE TABLE of that name; prints every change of it as kind, tab, its columns as JSON. */
public class FoldInFlink {
    public static void main(String[] words) throws Exception {
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        tables.getConfig().set("parallelism.default", "1");
        tables.executeSql(Files.readString(Path.of(words[0])));
        String rows = "SELECT JSON_OBJECT(%s) FROM `" + words[1] + "`";
        StringBuilder members = new StringBuilder();
        for (String column : tables.from("`" + words[1] + "`").getResolvedSchema().getColumnNames()) {
            members.append(members.length() == 0 ? "" : ", ").append("KEY '").append(column).append("' VALUE `")
                .append(column).append("`");
        }
        try (CloseableIterator<Row> changes = tables.executeSql(String.format(rows, members)).collect()) {
            while (changes.hasNext()) {
                Row change = changes.next();
                System.out.println(change.getKind().shortString() + "\t" + change.getField(0));
            }
        }
    }
}

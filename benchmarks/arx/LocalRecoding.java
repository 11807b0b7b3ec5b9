import java.io.File;
import java.nio.charset.StandardCharsets;
import org.deidentifier.arx.ARXAnonymizer;
import org.deidentifier.arx.ARXConfiguration;
import org.deidentifier.arx.ARXResult;
import org.deidentifier.arx.AttributeType;
import org.deidentifier.arx.AttributeType.Hierarchy;
import org.deidentifier.arx.Data;
import org.deidentifier.arx.DataHandle;
import org.deidentifier.arx.criteria.DistinctLDiversity;
import org.deidentifier.arx.criteria.EntropyLDiversity;
import org.deidentifier.arx.criteria.EqualDistanceTCloseness;
import org.deidentifier.arx.criteria.KAnonymity;
import org.deidentifier.arx.criteria.PrivacyCriterion;
import org.deidentifier.arx.criteria.RecursiveCLDiversity;
import org.deidentifier.arx.metric.Metric;

/** Local recoding by ARX: arguments are the table, the folder of hierarchies, k, the sensitive column, a model, the
 * output, and the quasi-identifiers as COLUMN=HIERARCHY. */
public class LocalRecoding {
    /** ARX's own steps: in each at least this share of the rows is generalized as finely as possible. */
    private static final double STEP = 0.01;

    public static void main(String[] args) throws Exception {
        Data data = Data.create(new File(args[0]), StandardCharsets.UTF_8, ',');
        for (int i = 6; i < args.length; i++) {
            String[] named = args[i].split("=");
            File levels = new File(args[1], named[1] + ".csv");
            data.getDefinition().setAttributeType(named[0], Hierarchy.create(levels, StandardCharsets.UTF_8, ';'));
        }
        ARXConfiguration asked = ARXConfiguration.create();
        asked.addPrivacyModel(new KAnonymity(Integer.parseInt(args[2])));
        PrivacyCriterion model = model(args[4].split(" "), args[3]);
        if (model != null) {
            data.getDefinition().setAttributeType(args[3], AttributeType.SENSITIVE_ATTRIBUTE);
            asked.addPrivacyModel(model);
        } else {
            data.getDefinition().setAttributeType(args[3], AttributeType.INSENSITIVE_ATTRIBUTE);
        }
        asked.setSuppressionLimit(1 - STEP);
        asked.setQualityModel(Metric.createLossMetric(0));
        ARXResult result = new ARXAnonymizer().anonymize(data, asked);
        DataHandle output = result.getOutput();
        result.optimizeIterativeFast(output, STEP);
        output.save(new File(args[5]), ',');
    }

    private static PrivacyCriterion model(String[] words, String column) {
        switch (words[0]) {
            case "l": return new DistinctLDiversity(column, Integer.parseInt(words[1]));
            case "entropy": return new EntropyLDiversity(column, Double.parseDouble(words[1]));
            case "recursive": return new RecursiveCLDiversity(column, Double.parseDouble(words[1]), Integer.parseInt(words[2]));
            case "t": return new EqualDistanceTCloseness(column, Double.parseDouble(words[1]));
            default: return null;
        }
    }
}

import io.debezium.data.*;
import io.debezium.data.Enum;
import io.debezium.data.Json;
import io.debezium.time.*;
import io.debezium.transforms.ExtractNewRecordState;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.*;
import java.util.*;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/** Rows of every type that Connect and Debezium know, through Connect's own converter and Debezium's own transform. */
public class WriteMessages {
    static final LocalDate BORN = LocalDate.of(1980, 1, 31);
    static final LocalDateTime SEEN = LocalDateTime.of(2018, 6, 20, 13, 37, 3, 123_456_000);
    static final LocalTime WOKE = LocalTime.of(7, 5, 0, 250_000_000);
    static final Map<String, Schema> COLUMNS = new LinkedHashMap<>();
    static final Map<String, Object> VALUES = new HashMap<>();

    static void column(String name, SchemaBuilder type, Object value) {
        COLUMNS.put(name, type.optional().build());
        VALUES.put(name, value);
    }

    static long micros(LocalDateTime moment) {
        Instant instant = moment.toInstant(ZoneOffset.UTC);
        return Math.addExact(Math.multiplyExact(instant.getEpochSecond(), 1_000_000L), instant.getNano() / 1000);
    }

    static java.util.Date date(long millis) {
        return new java.util.Date(millis);
    }

    static void columns() {
        long nanoOfDay = WOKE.toNanoOfDay(), micros = micros(SEEN), days = BORN.toEpochDay();
        column("decimal", Decimal.builder(2).parameter("connect.decimal.precision", "10"), new BigDecimal("-26588.24"));
        column("variable", VariableScaleDecimal.builder(), null);
        VALUES.put("variable", VariableScaleDecimal.fromLogical(COLUMNS.get("variable"), new BigDecimal("12.345")));
        column("connect_date", Date.builder(), date(days * 86_400_000));
        column("connect_time", Time.builder(), date(nanoOfDay / 1_000_000));
        column("connect_timestamp", Timestamp.builder(), date(micros / 1000));
        column("date", io.debezium.time.Date.builder(), (int) days);
        column("time", io.debezium.time.Time.builder(), (int) (nanoOfDay / 1_000_000));
        column("micro_time", MicroTime.builder(), nanoOfDay / 1000);
        column("nano_time", NanoTime.builder(), nanoOfDay);
        column("timestamp", io.debezium.time.Timestamp.builder(), micros / 1000);
        column("micro_timestamp", MicroTimestamp.builder(), micros);
        column("nano_timestamp", NanoTimestamp.builder(), micros * 1000 + 789);
        column("zoned_timestamp", ZonedTimestamp.builder(), ZonedTimestamp.toIsoString(SEEN.atOffset(ZoneOffset.ofHours(2)), null));
        column("zoned_time", ZonedTime.builder(), "07:05:00.25Z");
        column("iso_date", IsoDate.builder(), IsoDate.toIsoString(BORN, null));
        column("iso_time", IsoTime.builder(), IsoTime.toIsoString(Duration.ofNanos(nanoOfDay), false));
        column("iso_timestamp", IsoTimestamp.builder(), IsoTimestamp.toIsoString(SEEN, null));
        column("year", io.debezium.time.Year.builder(), 2018);
        column("interval", Interval.builder(), Interval.toIsoString(1, 2, 3, 4, 5, new BigDecimal("6.78")));
        column("duration", MicroDuration.builder(), 37_091_106_780_000L);
        column("uuid", Uuid.builder(), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
        column("enum", Enum.builder("flu,cold"), "flu");
        column("enum_set", io.debezium.data.EnumSet.builder("a,b,c"), "a,c");
        column("json", Json.builder(), "{\"a\": 1}");
        column("xml", Xml.builder(), "<a/>");
        column("bits", Bits.builder(12), new byte[] {(byte) 0b1000_0001, 0b1010});
        column("bytes", SchemaBuilder.bytes(), "\u00d7m\u00f8".getBytes(StandardCharsets.ISO_8859_1));
        column("toast", SchemaBuilder.bytes(), "__debezium_unavailable_value".getBytes(StandardCharsets.UTF_8));
        column("float32", SchemaBuilder.float32(), 0.1f);
        column("float64", SchemaBuilder.float64(), 0.1);
        column("nan", SchemaBuilder.float64(), Double.NaN);
        column("int8", SchemaBuilder.int8(), (byte) -7);
        column("int64", SchemaBuilder.int64(), Long.MAX_VALUE);
        column("boolean", SchemaBuilder.bool(), true);
        column("text", SchemaBuilder.string(), "12.50");
        column("point", io.debezium.data.geometry.Point.builder(), null);
        VALUES.put("point", io.debezium.data.geometry.Point.createValue(COLUMNS.get("point"), 1, 2));
    }

    static JsonConverter converter(boolean isKey, String schemas, String decimals) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", schemas, "decimal.format", decimals), isKey);
        return converter;
    }

    static String quoted(byte[] bytes) {
        if (bytes == null) return "null";
        return "\"" + new String(bytes, StandardCharsets.UTF_8).replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    static void write(String what, String schemas, String decimals, SourceRecord record) {
        byte[] key = converter(true, schemas, decimals).fromConnectData("t", record.keySchema(), record.key());
        byte[] value = converter(false, schemas, decimals).fromConnectData("t", record.valueSchema(), record.value());
        System.out.println("{\"what\":\"" + what + "\",\"schemas\":" + schemas + ",\"decimals\":\"" + decimals
            + "\",\"key\":" + quoted(key) + ",\"value\":" + quoted(value) + "}");
    }

    static SourceRecord record(Schema keySchema, Object key, Schema schema, Object value) {
        return new SourceRecord(Map.of(), Map.of(), "shop.public.people", keySchema, key, schema, value);
    }

    static Schema keySchema(Schema id) {
        return SchemaBuilder.struct().name("shop.public.people.Key").field("id", id).build();
    }

    static Envelope envelope(Schema row) {
        Schema source = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
            .field("version", Schema.STRING_SCHEMA).field("connector", Schema.STRING_SCHEMA)
            .field("table", Schema.STRING_SCHEMA).field("snapshot", Enum.builder("true,last,false").optional().build()).build();
        return Envelope.defineSchema().withName("shop.public.people.Envelope").withRecord(row).withSource(source).build();
    }

    static Struct source(Envelope envelope) {
        Schema schema = envelope.schema().field("source").schema();
        return new Struct(schema).put("version", "3.3.1.Final").put("connector", "postgresql").put("table", "people");
    }

    /** One row with every type, and the same with nulls, as envelopes and flattened, with schemas and without. */
    static void types() {
        SchemaBuilder builder = SchemaBuilder.struct().optional().name("shop.public.people.Value");
        builder.field("id", Schema.INT32_SCHEMA);
        COLUMNS.forEach(builder::field);
        Schema row = builder.build();
        Struct full = new Struct(row).put("id", 7), empty = new Struct(row).put("id", 8);
        VALUES.forEach(full::put);
        Envelope envelope = envelope(row);
        Schema key = keySchema(Schema.INT32_SCHEMA);
        ExtractNewRecordState<SourceRecord> unwrap = unwrap("tombstone", "");
        for (String schemas : List.of("true", "false")) for (String decimals : List.of("BASE64", "NUMERIC")) {
            for (Struct after : List.of(full, empty)) {
                String filled = after == full ? "filled" : "nulls";
                Struct created = envelope.create(after, source(envelope), Instant.ofEpochMilli(1));
                SourceRecord record = record(key, new Struct(key).put("id", after.get("id")), envelope.schema(), created);
                write("envelope " + filled, schemas, decimals, record);
                write("flattened " + filled, schemas, decimals, unwrap.apply(record));
            }
        }
    }

    static ExtractNewRecordState<SourceRecord> unwrap(String mode, String fields) {
        ExtractNewRecordState<SourceRecord> unwrap = new ExtractNewRecordState<>();
        Map<String, Object> settings = new HashMap<>(Map.of("delete.tombstone.handling.mode", mode));
        if (!fields.isEmpty()) settings.put("add.fields", fields);
        unwrap.configure(settings);
        return unwrap;
    }

    /** A row that is created, changed and deleted, under keys of several types, through every mode of the transform. */
    static void lives() {
        Schema decimal = Decimal.builder(2).build();
        life("int", Schema.INT32_SCHEMA, 7);
        life("decimal", decimal, new BigDecimal("7.50"));
        life("variable", VariableScaleDecimal.schema(), VariableScaleDecimal.fromLogical(VariableScaleDecimal.schema(), new BigDecimal("7.50")));
        life("date", io.debezium.time.Date.schema(), (int) BORN.toEpochDay());
        life("connect_timestamp", Timestamp.SCHEMA, date(micros(SEEN) / 1000));
        life("micro_timestamp", MicroTimestamp.schema(), micros(SEEN));
        life("uuid", Uuid.schema(), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    }

    static void life(String type, Schema id, Object key) {
        Schema row = SchemaBuilder.struct().optional().name("shop.public.people.Value").field("id", id)
            .field("bmi", Decimal.builder(2).optional().build()).build();
        Schema keySchema = keySchema(id);
        Struct own = new Struct(keySchema).put("id", key);
        Envelope envelope = envelope(row);
        Struct before = new Struct(row).put("id", key).put("bmi", new BigDecimal("11.50"));
        Struct after = new Struct(row).put("id", key).put("bmi", new BigDecimal("12.34"));
        Instant now = Instant.ofEpochMilli(1);
        List<SourceRecord> life = List.of(
            record(keySchema, own, envelope.schema(), envelope.create(before, source(envelope), now)),
            record(keySchema, own, envelope.schema(), envelope.update(before, after, source(envelope), now)),
            record(keySchema, own, envelope.schema(), envelope.delete(after, source(envelope), now)),
            record(keySchema, own, null, null));
        for (String schemas : List.of("true", "false")) {
            for (SourceRecord record : life) write("life " + type + " envelopes", schemas, "BASE64", record);
            if (!type.equals("int")) continue;
            for (String mode : List.of("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"))
                for (String fields : List.of("", "op")) for (SourceRecord record : life) {
                    SourceRecord flat = unwrap(mode, fields).apply(record);
                    if (flat != null) write("life " + type + " " + mode + (fields.isEmpty() ? "" : " op"), schemas, "BASE64", flat);
                }
        }
    }

    /** Numbers of every length and sign as Decimal writes them. */
    static void decimals() {
        for (int scale : new int[] {0, 2, 20}) for (String text : List.of("0", "1", "-1", "127", "128", "-128", "-129",
                "255", "256", "32767", "-32768", "-2658824", "9223372036854775808", "-99999999999999999999999999999")) {
            Schema schema = Decimal.schema(scale);
            BigDecimal number = new BigDecimal(new BigInteger(text), scale);
            write("number " + number.toPlainString(), "true", "BASE64", record(schema, number, schema, number));
        }
    }

    public static void main(String[] arguments) {
        columns();
        types();
        lives();
        decimals();
    }
}

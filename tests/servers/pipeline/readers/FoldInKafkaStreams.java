import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/** FoldInKafkaStreams BOOTSTRAP TOPIC STATE: a KTable of the topic; prints key, tab, value of each row once nothing lags. */
public class FoldInKafkaStreams {
    static final String TABLE = "table";

    public static void main(String[] words) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.table(words[1], Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(TABLE)
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(words[0], words[2]));
        streams.start();
        waitUntilRead(streams);
        streams.store(StoreQueryParameters.fromNameAndType(TABLE, QueryableStoreTypes.<String, String>keyValueStore()))
            .all().forEachRemaining(FoldInKafkaStreams::print);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static Properties settings(String bootstrap, String state) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "reader-" + UUID.randomUUID());
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "1");
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        return settings;
    }

    /** All that was written when this began lies below `endOffset`; the last record may be a transaction's mark. */
    static void waitUntilRead(KafkaStreams streams) throws InterruptedException {
        for (int quiet = 0; quiet < 3; Thread.sleep(1000)) {
            boolean running = streams.state() == KafkaStreams.State.RUNNING;
            long lag = streams.metadataForLocalThreads().stream().flatMap(thread -> thread.activeTasks().stream())
                .flatMap(task -> task.endOffsets().entrySet().stream()
                    .map(end -> end.getValue() - task.committedOffsets().getOrDefault(end.getKey(), 0L)))
                .mapToLong(behind -> Math.max(0, behind)).sum();
            quiet = running && lag == 0 ? quiet + 1 : 0;
        }
    }

    static void print(KeyValue<String, String> row) {
        System.out.println(row.key + "\t" + row.value);
    }
}

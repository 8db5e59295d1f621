import java.io.BufferedWriter;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.common.KinesisClientUtil;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
import software.amazon.kinesis.retrieval.RetrievalConfig;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * The Kinesis Client Library for Java as its guide shows it: polling as often as the service allows, or
 * with its default retrieval, enhanced fan-out. Arguments: Kinesis endpoint, stream, folder, application,
 * worker, "detail" or "-", DynamoDB endpoint, failover time in milliseconds, "polling" or "fan-out".
 */
public final class KclReader {
    private static final long CHECKPOINT_NANOS = 5_000_000_000L;
    private static final int STAMP_BYTES = 17;
    private static final int HEADER_BYTES = 36;

    private static final class Processor implements ShardRecordProcessor {
        private final Path folder;
        private final boolean detail;
        private BufferedWriter log;
        private long checkpointedAt = System.nanoTime();

        Processor(Path folder, boolean detail) {
            this.folder = folder;
            this.detail = detail;
        }

        @Override
        public void initialize(InitializationInput input) {
            try {
                Path file = folder.resolve(input.shardId() + ".deliveries");
                log = Files.newBufferedWriter(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (java.io.IOException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            List<KinesisClientRecord> records = input.records();
            if (!records.isEmpty()) {
                write(records);
            }
            if (System.nanoTime() - checkpointedAt > CHECKPOINT_NANOS) {
                checkpoint(input.checkpointer());
                checkpointedAt = System.nanoTime();
            }
        }

        private void write(List<KinesisClientRecord> records) {
            String first = header(records.get(0));
            String last = header(records.get(records.size() - 1));
            StringBuilder line = new StringBuilder();
            line.append(String.format(Locale.ROOT, "%.6f %d %s %s", System.currentTimeMillis() / 1e3,
                    records.size(), first.substring(0, STAMP_BYTES), last.substring(0, STAMP_BYTES)));
            if (detail) {
                for (KinesisClientRecord record : records) {
                    String[] parts = header(record).split(" ");
                    line.append(' ').append(parts[1]).append(':').append(parts[2]);
                }
            }
            try {
                log.write(line.append('\n').toString());
                log.flush();
            } catch (java.io.IOException error) {
                throw new IllegalStateException(error);
            }
        }

        private static String header(KinesisClientRecord record) {
            byte[] start = new byte[HEADER_BYTES];
            record.data().duplicate().get(start);
            return new String(start, StandardCharsets.US_ASCII);
        }

        private static void checkpoint(RecordProcessorCheckpointer checkpointer) {
            try {
                checkpointer.checkpoint();
            } catch (Exception error) {
                System.err.println("checkpoint: " + error);
            }
        }

        @Override
        public void leaseLost(LeaseLostInput input) {}

        @Override
        public void shardEnded(ShardEndedInput input) {
            checkpoint(input.checkpointer());
        }

        @Override
        public void shutdownRequested(ShutdownRequestedInput input) {
            checkpoint(input.checkpointer());
        }
    }

    public static void main(String[] arguments) throws Exception {
        URI kinesisUri = URI.create(arguments[0]);
        String stream = arguments[1];
        Path folder = Path.of(arguments[2]);
        boolean detail = arguments[5].equals("detail");
        URI dynamoUri = URI.create(arguments[6]);
        long failoverMillis = Long.parseLong(arguments[7]);
        StaticCredentialsProvider access =
                StaticCredentialsProvider.create(AwsBasicCredentials.create("local", "local"));
        KinesisAsyncClient kinesis = KinesisClientUtil.createKinesisAsyncClient(KinesisAsyncClient.builder()
                .endpointOverride(kinesisUri).region(Region.US_EAST_1).credentialsProvider(access));
        DynamoDbAsyncClient dynamo = DynamoDbAsyncClient.builder().endpointOverride(dynamoUri)
                .region(Region.US_EAST_1).credentialsProvider(access).build();
        CloudWatchAsyncClient watch = CloudWatchAsyncClient.builder().endpointOverride(dynamoUri)
                .region(Region.US_EAST_1).credentialsProvider(access).build();
        InitialPositionInStreamExtended start = InitialPositionInStreamExtended
                .newInitialPosition(InitialPositionInStream.TRIM_HORIZON);
        ConfigsBuilder configs = new ConfigsBuilder(new SingleStreamTracker(stream, start), arguments[3],
                kinesis, dynamo, watch, arguments[4], () -> new Processor(folder, detail));
        RetrievalConfig retrieval = configs.retrievalConfig();
        if (arguments[8].equals("polling")) {
            retrieval.retrievalSpecificConfig(new PollingConfig(stream, kinesis).maxRecords(10_000)
                    .idleTimeBetweenReadsInMillis(200));
        }
        Scheduler scheduler = new Scheduler(
                configs.checkpointConfig(),
                configs.coordinatorConfig().parentShardPollIntervalMillis(100),
                configs.leaseManagementConfig().failoverTimeMillis(failoverMillis).shardSyncIntervalMillis(1_000),
                configs.lifecycleConfig(),
                configs.metricsConfig().metricsFactory(new NullMetricsFactory()),
                configs.processorConfig(),
                retrieval);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                scheduler.startGracefulShutdown().get(20, TimeUnit.SECONDS);
            } catch (Exception error) {
                System.err.println("shutdown: " + error);
            }
        }));
        scheduler.run();
    }
}

import java.lang.management.ManagementFactory;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.async.SdkAsyncHttpClient;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * The Kinesis Client Library for Java, as its guide shows it, polling as often as it lets itself.
 * Three times are told. From its first shard opened to its last record includes its own waiting and
 * a cold JVM; from its first record to its last leaves out what it had read ahead by then; that of
 * the second half of all records is what it does in full swing. What it does before costs it nothing.
 */
public final class KclReader {
    private static final CountDownLatch DONE = new CountDownLatch(1);
    private static final List<String> DELIVERED = new ArrayList<>();
    private static int count;
    private static long firstNanos;
    private static long lastNanos;
    private static long deliveredNanos;
    private static long halfNanos;
    private static long firstCpu;
    private static long lastCpu;

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    private static synchronized void begin() {
        if (firstNanos == 0) {
            firstNanos = System.nanoTime();
            firstCpu = cpuNanos();
        }
    }

    private static synchronized void take(List<KinesisClientRecord> records) {
        if (deliveredNanos == 0 && !records.isEmpty()) {
            deliveredNanos = System.nanoTime();
        }
        for (KinesisClientRecord record : records) {
            StringBuilder number = new StringBuilder();
            for (int at = 0; record.data().get(at) != ' '; at++) {
                number.append((char) record.data().get(at));
            }
            DELIVERED.add(number.toString());
        }
        if (DELIVERED.size() >= count / 2 && halfNanos == 0) {
            halfNanos = System.nanoTime();
        }
        if (DELIVERED.size() >= count && lastNanos == 0) {
            lastNanos = System.nanoTime();
            lastCpu = cpuNanos();
            DONE.countDown();
        }
    }

    private static final class Processor implements ShardRecordProcessor {
        @Override
        public void initialize(InitializationInput input) {
            begin();
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            take(input.records());
        }

        @Override
        public void leaseLost(LeaseLostInput input) {}

        @Override
        public void shardEnded(ShardEndedInput input) {
            try {
                input.checkpointer().checkpoint();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void shutdownRequested(ShutdownRequestedInput input) {}
    }

    public static void main(String[] arguments) {
        try {
            read(arguments);
            Runtime.getRuntime().halt(0);
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static synchronized List<String> delivered() {
        return new ArrayList<>(DELIVERED);
    }

    private static void read(String[] arguments) throws Exception {
        URI kinesisUri = URI.create(arguments[0]);
        String stream = arguments[1];
        count = Integer.parseInt(arguments[2]);
        Path file = Path.of(arguments[3]);
        URI dynamoUri = URI.create(arguments[4]);
        String application = arguments[5];
        StaticCredentialsProvider access =
                StaticCredentialsProvider.create(AwsBasicCredentials.create("local", "local"));
        // The library would speak HTTP/2 without TLS, which only the real service is asked to do.
        SdkAsyncHttpClient.Builder<?> http =
                NettyNioAsyncHttpClient.builder().protocol(Protocol.HTTP1_1).maxConcurrency(200);
        KinesisAsyncClient kinesis = KinesisAsyncClient.builder().endpointOverride(kinesisUri)
                .region(Region.US_EAST_1).credentialsProvider(access).httpClientBuilder(http).build();
        DynamoDbAsyncClient dynamo = DynamoDbAsyncClient.builder().endpointOverride(dynamoUri)
                .region(Region.US_EAST_1).credentialsProvider(access).build();
        CloudWatchAsyncClient watch = CloudWatchAsyncClient.builder().endpointOverride(dynamoUri)
                .region(Region.US_EAST_1).credentialsProvider(access).build();
        InitialPositionInStreamExtended start = InitialPositionInStreamExtended
                .newInitialPosition(InitialPositionInStream.TRIM_HORIZON);
        ConfigsBuilder configs = new ConfigsBuilder(new SingleStreamTracker(stream, start),
                application, kinesis, dynamo, watch, "worker", Processor::new);
        PollingConfig polling = new PollingConfig(stream, kinesis).maxRecords(10_000)
                .idleTimeBetweenReadsInMillis(200);
        Scheduler scheduler = new Scheduler(
                configs.checkpointConfig(),
                configs.coordinatorConfig().parentShardPollIntervalMillis(100),
                configs.leaseManagementConfig().failoverTimeMillis(10_000)
                        .shardSyncIntervalMillis(1_000),
                configs.lifecycleConfig(),
                configs.metricsConfig().metricsFactory(new NullMetricsFactory()),
                configs.processorConfig(),
                configs.retrievalConfig().retrievalSpecificConfig(polling));
        Thread thread = new Thread(scheduler);
        thread.setDaemon(true);
        thread.start();
        DONE.await();
        Files.write(file, delivered(), StandardCharsets.UTF_8);
        String status = Files.readString(Path.of("/proc/self/status"));
        String peak = status.split("VmHWM:")[1].trim().split("\\s+")[0];
        System.out.printf("{\"wall_seconds\": %.6f, \"cpu_seconds\": %.6f, \"peak_rss_kib\": %s, "
                + "\"delivering_seconds\": %.6f, \"second_half_seconds\": %.6f}%n",
                (lastNanos - firstNanos) / 1e9, (lastCpu - firstCpu) / 1e9, peak,
                (lastNanos - deliveredNanos) / 1e9, (lastNanos - halfNanos) / 1e9);
        System.out.flush();
    }
}

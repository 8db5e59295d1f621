package software.amazon.kinesis.common;

import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClientBuilder;

/**
 * Replaces the class of this name in the library, so that it uses HTTP/1.1. KCLPY has no
 * setting for that, and uses HTTP/2 without TLS, which no local server accepts.
 */
public class KinesisClientUtil {
    public static KinesisAsyncClient createKinesisAsyncClient(KinesisAsyncClientBuilder builder) {
        return adjustKinesisClientBuilder(builder).build();
    }

    public static KinesisAsyncClientBuilder adjustKinesisClientBuilder(KinesisAsyncClientBuilder builder) {
        return builder.httpClientBuilder(
                NettyNioAsyncHttpClient.builder().protocol(Protocol.HTTP1_1).maxConcurrency(200));
    }
}

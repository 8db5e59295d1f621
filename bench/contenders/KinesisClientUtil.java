package software.amazon.kinesis.common;

import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClientBuilder;

/**
 * Stands in for the library's class of this name, so that KCLPY's daemon speaks HTTP/1.1. It has no
 * setting for that, and would speak HTTP/2 without TLS, which only the real service is asked to do.
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

import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.async.SdkAsyncHttpClient;
import software.amazon.awssdk.http.async.SdkAsyncHttpService;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;

/**
 * Lets KCLPY's daemon speak HTTP/1.1, by a system property of the SDK: it has no setting for that,
 * and would speak HTTP/2 without TLS, which nothing but the real service answers.
 */
public final class Http1Service implements SdkAsyncHttpService {
    @Override
    public SdkAsyncHttpClient.Builder<?> createAsyncHttpClientFactory() {
        return NettyNioAsyncHttpClient.builder().protocol(Protocol.HTTP1_1).maxConcurrency(200);
    }
}

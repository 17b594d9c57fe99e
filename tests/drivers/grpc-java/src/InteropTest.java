import io.grpc.ManagedChannelBuilder;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.testing.integration.AbstractInteropTest;
import java.lang.reflect.InvocationTargetException;

/** gRPC's interop tests of a Java client, all in one process, at the door that DOORS names. */
public final class InteropTest extends AbstractInteropTest {
  /**
   * Of AbstractInteropTest: not those that look into a Java server, or want it to send back headers of Java's own, nor
   * deadlineExceeded, which wants words that its client has where a server resets a stream whose time is over; ours says
   * DEADLINE_EXCEEDED, which deadlineExceededServerStreaming and timeoutOnSleepingServer take.
   */
  private static final String[] TESTS = {
    "emptyUnary",
    "emptyUnaryWithRetriableStream",
    "largeUnary",
    "serverCompressedUnary",
    "serverStreaming",
    "clientStreaming",
    "serverCompressedStreaming",
    "pingPong",
    "emptyStream",
    "cancelAfterBegin",
    "cancelAfterFirstResponse",
    "fullDuplexCallShouldSucceed",
    "halfDuplexCallShouldSucceed",
    "serverStreamingShouldBeFlowControlled",
    "veryLargeRequest",
    "veryLargeResponse",
    "deadlineNotExceeded",
    "deadlineExceededServerStreaming",
    "deadlineInPast",
    "maxInboundSize_exact",
    "maxInboundSize_tooBig",
    "maxOutboundSize_exact",
    "maxOutboundSize_tooBig",
    "gracefulShutdown",
    "customMetadata",
    "statusCodeAndMessage",
    "specialStatusMessage",
    "unimplementedMethod",
    "unimplementedService",
    "timeoutOnSleepingServer",
  };

  /** With the probe they first ask for a refusal of what is not compressed. */
  private static final String[] TESTS_WITH_PROBE = {"clientCompressedUnary", "clientCompressedStreaming"};

  @Override
  protected ManagedChannelBuilder<?> createChannelBuilder() {
    return NettyChannelBuilder.forTarget("dns:///" + System.getenv("DOORS"))
        .usePlaintext()
        .maxInboundMessageSize(AbstractInteropTest.MAX_MESSAGE_SIZE)
        .flowControlWindow(AbstractInteropTest.TEST_FLOW_CONTROL_WINDOW);
  }

  /** What is measured inside of a Java server. */
  @Override
  protected boolean metricsExpected() {
    return false;
  }

  /** The door takes messages of 4 MiB, and charges eightfold what is being read. */
  @Override
  protected int unaryPayloadLength() {
    return 2 << 20;
  }

  private interface Body {
    void run(InteropTest test) throws Exception;
  }

  private static boolean passes(String name, Body body) throws Exception {
    InteropTest test = new InteropTest();
    test.setUp();
    try {
      body.run(test);
      System.out.println("ok " + name);
      return true;
    } catch (Throwable thrown) {
      Throwable cause = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
      cause.printStackTrace();
      System.out.println("FAIL " + name + ": " + String.valueOf(cause).replace('\n', ' '));
      return false;
    } finally {
      test.tearDown();
    }
  }

  public static void main(String[] arguments) throws Exception {
    boolean passed = true;
    for (String name : TESTS) {
      passed &= passes(name, test -> AbstractInteropTest.class.getMethod(name).invoke(test));
    }
    for (String name : TESTS_WITH_PROBE) {
      passed &=
          passes(name, test -> AbstractInteropTest.class.getMethod(name, boolean.class).invoke(test, true));
    }
    System.exit(passed ? 0 : 1);
  }
}

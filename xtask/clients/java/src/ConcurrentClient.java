import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.session.Session;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;

/**
 * One driver session shared by many logical workers, each reading the same row again and again by
 * asynchronous executions, the next one when the last one is answered.
 *
 * <p>The driver is configured as it comes, but for the throttle on requests in flight, and its connections where
 * CLIENT_CONNECTIONS says how many. Where REQUESTS_PER_S is set, the reads of all workers together are spread evenly
 * over time; a worker whose last read took longer does the next one at once. Prints one line of JSON.
 */
public final class ConcurrentClient {
  private static final String KEY = "the only row";
  /**
   * Reads that are not measured: a JVM that starts cold answers the first seconds at a tenth of its speed, and 50,000
   * reads that are queued at once would meet the driver's timeout of 2 s whatever the server does.
   */
  private static final int WARM_UP_WORKERS = 500;

  private static final int WARM_UP_QUERIES = 800;
  /** Marks a read that failed among the latencies. */
  private static final int FAILED = -1;

  private final CqlSession session;
  private final PreparedStatement select;
  private final int workers;
  private final int queries;
  /** Microseconds of each read; every worker owns a stretch of it. */
  private final int[] latencies;
  private final Map<String, LongAdder> errors = new ConcurrentHashMap<>();
  private final CountDownLatch running;
  /** Between the intended starts of any two reads; 0 where a read follows the last one at once. */
  private final long gapNanos;
  private final long begin = System.nanoTime();

  private ConcurrentClient(CqlSession session, int workers, int queries, long gapNanos) {
    this.session = session;
    this.select = session.prepare("SELECT v FROM concurrent_client.rows WHERE k = ?");
    this.workers = workers;
    this.queries = queries;
    this.latencies = new int[Math.multiplyExact(workers, queries)];
    this.running = new CountDownLatch(workers);
    this.gapNanos = gapNanos;
  }

  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length != 3) {
      System.err.println("usage: CQL_HOST=.. CQL_PORT=.. java ConcurrentClient WORKERS QUERIES THROTTLE (0 for none)");
      System.exit(2);
    }
    var contact = new InetSocketAddress(System.getenv("CQL_HOST"), Integer.parseInt(System.getenv("CQL_PORT")));
    int workers = Integer.parseInt(arguments[0]);
    int queries = Integer.parseInt(arguments[1]);
    int throttle = Integer.parseInt(arguments[2]);
    String rate = System.getenv("REQUESTS_PER_S");
    long gapNanos = rate == null ? 0 : 1_000_000_000L / Integer.parseInt(rate);
    String datacenter = prepareData(contact);
    try (CqlSession session = connect(contact, datacenter, throttle, workers)) {
      if (gapNanos == 0) {
        new ConcurrentClient(session, Math.min(workers, WARM_UP_WORKERS), WARM_UP_QUERIES, 0).measure(throttle);
      }
      System.out.println(new ConcurrentClient(session, workers, queries, gapNanos).measure(throttle));
    }
  }

  /** Writes the row and returns the server's data center, which the measured session has to name. */
  private static String prepareData(InetSocketAddress contact) {
    DriverConfigLoader config =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.LOAD_BALANCING_POLICY_CLASS, "DcInferringLoadBalancingPolicy")
            .build();
    try (CqlSession session = CqlSession.builder().addContactPoint(contact).withConfigLoader(config).build()) {
      session.execute(
          "CREATE KEYSPACE IF NOT EXISTS concurrent_client "
              + "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("CREATE TABLE IF NOT EXISTS concurrent_client.rows (k text PRIMARY KEY, v text)");
      session.execute("INSERT INTO concurrent_client.rows (k, v) VALUES ('" + KEY + "', 'its value')");
      return session.execute("SELECT data_center FROM system.local").one().getString(0);
    }
  }

  private static CqlSession connect(InetSocketAddress contact, String datacenter, int throttle, int workers) {
    var config = DriverConfigLoader.programmaticBuilder();
    if (throttle > 0) {
      config
          .withString(DefaultDriverOption.REQUEST_THROTTLER_CLASS, "ConcurrencyLimitingRequestThrottler")
          .withInt(DefaultDriverOption.REQUEST_THROTTLER_MAX_CONCURRENT_REQUESTS, throttle)
          // A worker has one read at a time, so the queue never holds more than one for each.
          .withInt(DefaultDriverOption.REQUEST_THROTTLER_MAX_QUEUE_SIZE, workers);
    }
    String connections = System.getenv("CLIENT_CONNECTIONS");
    if (connections != null) {
      config.withInt(DefaultDriverOption.CONNECTION_POOL_LOCAL_SIZE, Integer.parseInt(connections));
    }
    return CqlSession.builder()
        .addContactPoint(contact)
        .withLocalDatacenter(datacenter)
        .withConfigLoader(config.build())
        .build();
  }

  private String measure(int throttle) throws InterruptedException {
    var process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long startCpu = process.getProcessCpuTime();
    long start = System.nanoTime();
    for (int worker = 0; worker < workers; worker++) {
      read(worker * queries, (worker + 1) * queries);
    }
    running.await();
    double elapsedSeconds = (System.nanoTime() - start) / 1e9;
    return report(throttle, elapsedSeconds, (process.getProcessCpuTime() - startCpu) / 1e3);
  }

  /** Reads from query {@code next} on; answers that are there at once are taken in a loop, not by recursion. */
  private void read(int next, int end) {
    for (int query = next; query < end; query++) {
      int current = query;
      long early = early(current);
      if (early > 0) {
        CompletableFuture.delayedExecutor(early, TimeUnit.NANOSECONDS).execute(() -> read(current, end));
        return;
      }
      long start = System.nanoTime();
      CompletableFuture<AsyncResultSet> answer = session.executeAsync(select.bind(KEY)).toCompletableFuture();
      if (!answer.isDone()) {
        answer.whenComplete((rows, error) -> {
          record(current, start, error);
          read(current + 1, end);
        });
        return;
      }
      record(current, start, answer.handle((rows, error) -> error).join());
    }
    running.countDown();
  }

  /** How long it is until a read's intended start. */
  private long early(int query) {
    if (gapNanos == 0) {
      return 0;
    }
    long place = (long) (query % queries) * workers + query / queries;
    return begin + place * gapNanos - System.nanoTime();
  }

  private void record(int query, long start, Throwable error) {
    if (error == null) {
      latencies[query] = (int) Math.min((System.nanoTime() - start) / 1000, Integer.MAX_VALUE);
    } else {
      latencies[query] = FAILED;
      errors.computeIfAbsent(kind(error), unseen -> new LongAdder()).increment();
    }
  }

  /** Names an error by its class; one that tried nodes also by what the first node said. */
  private static String kind(Throwable error) {
    Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    String name = cause.getClass().getSimpleName();
    if (cause instanceof AllNodesFailedException) {
      return ((AllNodesFailedException) cause)
          .getAllErrors().values().stream()
              .flatMap(attempts -> attempts.stream())
              .findFirst()
              .map(first -> name + ": " + first.getClass().getSimpleName())
              .orElse(name);
    }
    return name;
  }

  private String report(int throttle, double elapsedSeconds, double cpuMicroseconds) {
    int[] answered = Arrays.stream(latencies).filter(latency -> latency != FAILED).sorted().toArray();
    String kinds =
        new TreeMap<>(errors)
            .entrySet().stream()
                .map(entry -> "\"" + entry.getKey() + "\": " + entry.getValue().sum())
                .collect(Collectors.joining(", "));
    return String.format(
        Locale.ROOT,
        "{\"client\": \"Java driver %s\", \"throttle\": %d, \"workers\": %d, \"queries\": %d, \"elapsed_s\": %.3f, "
            + "\"ok\": %d, \"errors\": {%s}, \"ops_per_s\": %.1f, "
            + "\"latency_us_p50\": %d, \"latency_us_p99\": %d, \"latency_us_p999\": %d, \"cpu_us_per_op\": %.3f}",
        Session.OSS_DRIVER_COORDINATES.getVersion(),
        throttle, workers, queries, elapsedSeconds,
        answered.length, kinds, answered.length / elapsedSeconds,
        quantile(answered, 0.5), quantile(answered, 0.99), quantile(answered, 0.999),
        cpuMicroseconds / Math.max(answered.length, 1));
  }

  private static int quantile(int[] sorted, double share) {
    return sorted.length == 0 ? 0 : sorted[Math.min((int) (sorted.length * share), sorted.length - 1)];
  }
}

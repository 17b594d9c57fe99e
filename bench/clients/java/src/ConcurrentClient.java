import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.internal.core.session.throttling.ConcurrencyLimitingRequestThrottler;
import java.net.InetSocketAddress;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;

/** Many workers share one session of the Java driver with its throttle and read one row again and again. */
public final class ConcurrentClient {
  /** Buckets of latencies, 1/16 apart. */
  private static final int BUCKETS = 64 * 16;

  private final CqlSession session;
  private final BoundStatement read;
  private final int queries;
  private final CountDownLatch working;
  private final AtomicLong succeeded = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();
  private final AtomicReference<String> firstError = new AtomicReference<>();
  private final AtomicLongArray latencies = new AtomicLongArray(BUCKETS);

  private ConcurrentClient(CqlSession session, int workers, int queries) {
    this.session = session;
    this.read = session.prepare("SELECT v FROM bench.kv WHERE k = ?").bind(1);
    this.queries = queries;
    this.working = new CountDownLatch(workers);
  }

  /** Usage: ConcurrentClient WORKERS QUERIES THROTTLE; a throttle of 0 is none. */
  public static void main(String[] arguments) throws Exception {
    int workers = Integer.parseInt(arguments[0]);
    int queries = Integer.parseInt(arguments[1]);
    try (CqlSession session = connect(Integer.parseInt(arguments[2]))) {
      session.execute(
          "CREATE KEYSPACE IF NOT EXISTS bench WITH replication = "
              + "{'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("CREATE TABLE IF NOT EXISTS bench.kv (k int PRIMARY KEY, v text)");
      session.execute("INSERT INTO bench.kv (k, v) VALUES (1, 'value')");
      new ConcurrentClient(session, workers, queries).run(workers);
    }
  }

  private static CqlSession connect(int throttle) {
    ProgrammaticDriverConfigLoaderBuilder config = DriverConfigLoader.programmaticBuilder();
    if (throttle > 0) {
      config
          .withClass(DefaultDriverOption.REQUEST_THROTTLER_CLASS, ConcurrencyLimitingRequestThrottler.class)
          .withInt(DefaultDriverOption.REQUEST_THROTTLER_MAX_CONCURRENT_REQUESTS, throttle)
          .withInt(DefaultDriverOption.REQUEST_THROTTLER_MAX_QUEUE_SIZE, 10_000_000);
    }
    return CqlSession.builder()
        .addContactPoint(
            new InetSocketAddress(System.getenv("CQL_HOST"), Integer.parseInt(System.getenv("CQL_PORT"))))
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(config.build())
        .build();
  }

  private void run(int workers) throws InterruptedException {
    long start = System.nanoTime();
    for (int worker = 0; worker < workers; worker++) {
      next(queries);
    }
    working.await();
    long elapsedMs = (System.nanoTime() - start) / 1_000_000;
    String error = firstError.get() == null ? "null" : '"' + firstError.get().replaceAll("[\"\\\\\n]", " ") + '"';
    System.out.printf(
        "{\"elapsed_ms\":%d,\"succeeded\":%d,\"failed\":%d,\"latency_us_p50\":%d,\"latency_us_p99\":%d,"
            + "\"latency_us_p999\":%d,\"first_error\":%s}%n",
        elapsedMs, succeeded.get(), failed.get(), quantile(0.5), quantile(0.99), quantile(0.999), error);
  }

  /** A worker's next read, which starts the one after it; always on a thread of its own choice. */
  private void next(int left) {
    if (left == 0) {
      working.countDown();
      return;
    }
    long begin = System.nanoTime();
    session
        .executeAsync(read)
        .whenCompleteAsync(
            (rows, error) -> {
              if (error == null && rows.one() != null) {
                succeeded.incrementAndGet();
                record((System.nanoTime() - begin) / 1000);
              } else {
                failed.incrementAndGet();
                firstError.compareAndSet(null, String.valueOf(error));
              }
              next(left - 1);
            });
  }

  private void record(long microseconds) {
    long value = microseconds | 1;
    int exponent = 63 - Long.numberOfLeadingZeros(value);
    latencies.incrementAndGet(exponent * 16 + (int) (value << (63 - exponent) >>> 59 & 15));
  }

  /** The lower bound, in microseconds, of the bucket that holds the wanted share. */
  private long quantile(double share) {
    long wanted = (long) (share * succeeded.get());
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
      long count = latencies.get(bucket);
      if (count > wanted) {
        int exponent = bucket / 16;
        return (1L << exponent) + ((long) (bucket % 16) << exponent >> 4);
      }
      wanted -= count;
    }
    return 0;
  }
}

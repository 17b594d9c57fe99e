import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.metadata.TokenMap;
import com.datastax.oss.driver.api.core.metadata.schema.KeyspaceMetadata;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.metadata.token.Token;
import com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException;
import com.datastax.oss.driver.api.core.servererrors.InvalidConfigurationInQueryException;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import com.datastax.oss.driver.api.core.uuid.Uuids;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletionStage;
import java.util.function.BooleanSupplier;

/** The Java driver as an application uses it: types, paging, batches, errors, events, protocols, restart. */
public final class DriverTest {
  private static final String KEYSPACE = "java_driver";
  /** How long the driver may take to notice a schema change or a restart. */
  private static final Duration NOTICE_MAX = Duration.ofSeconds(60);

  private interface Check {
    void run(CqlSession session) throws Exception;
  }

  /** Ends a check that cannot be made here. */
  private static final class Skipped extends Exception {
    private static final long serialVersionUID = 1;

    Skipped(String reason) {
      super(reason);
    }
  }

  public static void main(String[] arguments) {
    Map<String, Check> checks = new LinkedHashMap<>();
    checks.put("schema", DriverTest::schema);
    checks.put("metadata", DriverTest::metadata);
    checks.put("native types", DriverTest::nativeTypes);
    checks.put("counters", DriverTest::counters);
    checks.put("collections", DriverTest::collections);
    checks.put("user types", DriverTest::userTypes);
    checks.put("unset values", DriverTest::unsetValues);
    checks.put("paging", DriverTest::paging);
    checks.put("batches", DriverTest::batches);
    checks.put("routing", DriverTest::routing);
    checks.put("request options", DriverTest::requestOptions);
    checks.put("errors", DriverTest::errors);
    checks.put("reprepare", DriverTest::reprepare);
    checks.put("schema events", DriverTest::schemaEvents);
    checks.put("protocols", DriverTest::protocols);
    checks.put("restart", DriverTest::restart);
    boolean failed = false;
    try (CqlSession session = connect("V5", "none")) {
      for (Map.Entry<String, Check> check : checks.entrySet()) {
        try {
          check.getValue().run(session);
          System.out.println("ok " + check.getKey());
        } catch (Skipped reason) {
          System.out.println("skip " + check.getKey() + ": " + reason.getMessage());
        } catch (Exception | AssertionError error) {
          error.printStackTrace();
          System.out.println("FAIL " + check.getKey() + ": " + error);
          failed = true;
        }
      }
    }
    System.exit(failed ? 1 : 0);
  }

  private static CqlSession connect(String version, String compression) {
    ProgrammaticDriverConfigLoaderBuilder config =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.PROTOCOL_VERSION, version)
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
            .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(20))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(20))
            // Sessions are closed often here, and nothing is on its way when they are.
            .withInt(DefaultDriverOption.NETTY_IO_SHUTDOWN_QUIET_PERIOD, 0)
            .withInt(DefaultDriverOption.NETTY_ADMIN_SHUTDOWN_QUIET_PERIOD, 0)
            .withDuration(DefaultDriverOption.RECONNECTION_BASE_DELAY, Duration.ofMillis(200))
            .withDuration(DefaultDriverOption.RECONNECTION_MAX_DELAY, Duration.ofSeconds(2));
    if (!compression.equals("none")) {
      config.withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression);
    }
    CqlSessionBuilder builder =
        CqlSession.builder()
            .addContactPoint(
                new InetSocketAddress(System.getenv("CQL_HOST"), Integer.parseInt(System.getenv("CQL_PORT"))))
            .withLocalDatacenter("datacenter1")
            .withConfigLoader(config.build());
    return builder.build();
  }

  private static void schema(CqlSession session) {
    session.execute("DROP KEYSPACE IF EXISTS java_driver");
    session.execute(
        "CREATE KEYSPACE java_driver WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    session.execute("USE java_driver");
    session.execute("CREATE TYPE address (street text, zip int)");
    session.execute("CREATE TYPE person (name text, home frozen<address>, phones set<text>)");
    session.execute(
        "CREATE TABLE kv (k int, c int, v text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)");
  }

  private static void metadata(CqlSession session) {
    KeyspaceMetadata keyspace = session.refreshSchema().getKeyspace(KEYSPACE).orElseThrow();
    TableMetadata table = keyspace.getTable("kv").orElseThrow();
    equal(table.getPartitionKey().get(0).getName().toString(), "k");
    equal(table.getClusteringColumns().values().toString(), "[DESC]");
    equal(table.getColumns().size(), 3);
    equal(keyspace.getUserDefinedType("address").orElseThrow().getFieldNames().toString(), "[street, zip]");
    equal(session.getMetadata().getNodes().size(), 1);
    session.getMetadata().getNodes().values().forEach(node -> {
      equal(node.getCassandraVersion().getMajor(), 5);
      require(node.getDatacenter() != null && node.getHostId() != null, "a node without data center or id");
    });
    require(session.getMetadata().getTokenMap().isPresent(), "no token map");
    require(session.checkSchemaAgreement(), "one node disagrees with itself about the schema");
  }

  private static void nativeTypes(CqlSession session) throws Exception {
    Map<String, Object> values = new LinkedHashMap<>();
    values.put("ascii", "plain");
    values.put("bigint", Long.MIN_VALUE);
    values.put("blob", ByteBuffer.wrap(new byte[] {0, -1}));
    values.put("boolean", true);
    values.put("date", LocalDate.of(2024, 2, 29));
    values.put("decimal", new BigDecimal("-123.4500"));
    values.put("double", 2.5e-300);
    values.put("duration", CqlDuration.newInstance(1, 2, 3000));
    values.put("float", 0.5f);
    values.put("inet", InetAddress.getByName("2001:db8::1"));
    values.put("int", Integer.MIN_VALUE);
    values.put("smallint", Short.MIN_VALUE);
    values.put("text", "ünï 漢 😀");
    values.put("time", LocalTime.of(23, 59, 59, 999_999_999));
    values.put("timestamp", Instant.ofEpochMilli(1709168523456L));
    values.put("timeuuid", Uuids.timeBased());
    values.put("tinyint", Byte.MIN_VALUE);
    values.put("uuid", UUID.randomUUID());
    values.put("varchar", "");
    values.put("varint", BigInteger.TWO.pow(100).negate());
    List<String> definitions = new ArrayList<>();
    List<String> names = new ArrayList<>();
    values.keySet().forEach(name -> {
      definitions.add("c_" + name + " " + name);
      names.add("c_" + name);
    });
    session.execute("CREATE TABLE natives (id int PRIMARY KEY, " + String.join(", ", definitions) + ")");
    String columns = String.join(", ", names);
    PreparedStatement insert =
        session.prepare(
            "INSERT INTO natives (id, " + columns + ") VALUES (?" + ", ?".repeat(names.size()) + ")");
    List<Object> bound = new ArrayList<>(List.of(1));
    bound.addAll(values.values());
    session.execute(insert.bind(bound.toArray()));
    PreparedStatement select = session.prepare("SELECT " + columns + " FROM natives WHERE id = ?");
    Row row = session.execute(select.bind(1)).one();
    for (String name : values.keySet()) {
      equal(row.getObject("c_" + name), values.get(name));
    }
    session.execute(insert.bind(2));
    Row empty = session.execute(select.bind(2)).one();
    for (String name : names) {
      require(empty.isNull(name), name + " is not null");
    }
  }

  private static void counters(CqlSession session) throws Skipped {
    session.execute("CREATE TABLE visits (page text PRIMARY KEY, seen counter)");
    PreparedStatement add;
    try {
      add = session.prepare("UPDATE visits SET seen = seen + :step WHERE page = :page");
    } catch (InvalidQueryException error) {
      // A server without counters has to say so by an error of its own, and not to count wrongly.
      equal(error.getMessage(), "Counter updates are not supported yet");
      throw new Skipped(error.getMessage());
    }
    for (long step : new long[] {5, -2, 4}) {
      session.execute(add.boundStatementBuilder().setString("page", "home").setLong("step", step).build());
    }
    equal(session.execute("SELECT seen FROM visits WHERE page = 'home'").one().getLong(0), 7L);
  }

  private static void userTypes(CqlSession session) {
    session.execute(
        "CREATE TABLE people (id int PRIMARY KEY, a address, p frozen<person>, l list<frozen<address>>)");
    PreparedStatement insert = session.prepare("INSERT INTO people (id, a, p, l) VALUES (?, ?, ?, ?)");
    UserDefinedType person = (UserDefinedType) insert.getVariableDefinitions().get("p").getType();
    UserDefinedType address = (UserDefinedType) insert.getVariableDefinitions().get("a").getType();
    UdtValue home = address.newValue("Main", null);
    UdtValue ada = person.newValue("Ada", home, Set.of("1", "2"));
    session.execute(insert.bind(1, home, ada, List.of(home, address.newValue(null, 6))));
    session.execute("UPDATE people SET a.zip = 8 WHERE id = 1");
    Row row = session.execute("SELECT a, p, l, p.home FROM people WHERE id = 1").one();
    equal(row.getUdtValue("a").getFormattedContents(), "{street:'Main',zip:8}");
    equal(row.getUdtValue("p").getFormattedContents(), ada.getFormattedContents());
    equal(row.getList("l", UdtValue.class).get(1).getFormattedContents(), "{street:NULL,zip:6}");
    require(row.getUdtValue(3).isNull("zip"), "the field that was never set has a value");
  }

  /** A value that was not bound leaves the column as it is, and makes no tombstone. */
  private static void unsetValues(CqlSession session) {
    PreparedStatement insert = session.prepare("INSERT INTO nested (id, l, s) VALUES (?, ?, ?)");
    session.execute(insert.bind(2, List.of(1), Set.of("x")));
    session.execute(insert.boundStatementBuilder().setInt("id", 2).setToNull("s").build());
    Row row = session.execute("SELECT l, s FROM nested WHERE id = 2").one();
    equal(row.getList("l", Integer.class), List.of(1));
    require(row.isNull("s"), "null did not delete the set");
  }

  private static void collections(CqlSession session) {
    session.execute(
        "CREATE TABLE nested (id int PRIMARY KEY, l list<int>, s set<text>, m map<text, double>, "
            + "t tuple<int, text>, a frozen<address>, fl frozen<list<frozen<set<int>>>>, v vector<float, 3>)");
    UserDefinedType address =
        session.refreshSchema().getKeyspace(KEYSPACE).orElseThrow().getUserDefinedType("address").orElseThrow();
    UdtValue home = address.newValue("Main", 5);
    PreparedStatement insert =
        session.prepare("INSERT INTO nested (id, l, s, m, t, a, fl, v) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    TupleType tupleType = (TupleType) insert.getVariableDefinitions().get("t").getType();
    TupleValue tuple = tupleType.newValue(7, "seven");
    CqlVector<Float> vector = CqlVector.newInstance(1f, 2.5f, -3f);
    session.execute(
        insert.bind(1, List.of(3, 1, 2), Set.of("b", "a"), Map.of("x", 1.5), tuple, home,
            List.of(Set.of(2, 1), Set.of()), vector));
    Row row = session.execute("SELECT * FROM nested WHERE id = 1").one();
    equal(row.getList("l", Integer.class), List.of(3, 1, 2));
    equal(row.getSet("s", String.class), Set.of("a", "b"));
    equal(row.getMap("m", String.class, Double.class), Map.of("x", 1.5));
    equal(row.getTupleValue("t").getString(1), "seven");
    equal(row.getUdtValue("a").getInt("zip"), 5);
    equal(row.getObject("fl"), List.of(Set.of(1, 2), Set.of()));
    equal(row.getVector("v", Float.class), vector);
  }

  private static void paging(CqlSession session) throws Exception {
    PreparedStatement insert = session.prepare("INSERT INTO kv (k, c, v) VALUES (?, ?, ?)");
    List<CompletionStage<AsyncResultSet>> writes = new ArrayList<>();
    for (int c = 0; c < 500; c++) {
      writes.add(session.executeAsync(insert.bind(1, c, "v" + c)));
    }
    for (CompletionStage<AsyncResultSet> write : writes) {
      write.toCompletableFuture().get();
    }
    for (int size : new int[] {7, 100, 500, 5000}) {
      int expected = 499;
      for (Row row : session.execute(SimpleStatement.newInstance("SELECT c FROM kv WHERE k = 1").setPageSize(size))) {
        equal(row.getInt("c"), expected--);
      }
      equal(expected, -1);
    }
    SimpleStatement statement = SimpleStatement.newInstance("SELECT c FROM kv WHERE k = 1").setPageSize(200);
    ResultSet first = session.execute(statement);
    equal(first.getAvailableWithoutFetching(), 200);
    ByteBuffer state = first.getExecutionInfo().getPagingState();
    equal(session.execute(statement.setPagingState(state)).one().getInt("c"), 299);
  }

  private static void batches(CqlSession session) {
    PreparedStatement insert = session.prepare("INSERT INTO kv (k, c, v) VALUES (?, ?, ?)");
    int key = 20;
    for (DefaultBatchType kind : new DefaultBatchType[] {DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED}) {
      BatchStatementBuilder batch = BatchStatement.builder(kind);
      for (int c = 0; c < 10; c++) {
        batch.addStatement(insert.bind(key, c, "batched"));
      }
      batch.addStatement(SimpleStatement.newInstance("DELETE FROM kv WHERE k = ? AND c = 3", key));
      session.execute(batch.build());
      equal(session.execute("SELECT count(*) FROM kv WHERE k = " + key).one().getLong(0), 9L);
      key++;
    }
    ResultSet counted = session.execute("SELECT count(*) FROM kv");
    require(!counted.getExecutionInfo().getWarnings().isEmpty(), "an aggregate without partition key warns");
  }

  /** The driver's idea of a row's token and replicas is the server's. */
  private static void routing(CqlSession session) {
    session.execute("CREATE TABLE routed (a int, b text, v int, PRIMARY KEY ((a, b)))");
    PreparedStatement insert = session.prepare("INSERT INTO routed (v, b, a) VALUES (0, ?, ?)");
    PreparedStatement select = session.prepare("SELECT token(a, b) FROM routed WHERE a = ? AND b = ?");
    for (int a = -20; a < 20; a++) {
      BoundStatement bound = insert.bind("b" + a, a);
      session.execute(bound);
      TokenMap tokens = session.getMetadata().getTokenMap().orElseThrow();
      ByteBuffer key = bound.getRoutingKey();
      // A routing key of two parts is already in the form that is hashed.
      Token token = tokens.newToken(key);
      equal(session.execute(select.bind(a, "b" + a)).one().getToken(0), token);
      equal(tokens.getReplicas(KEYSPACE, token).size(), 1);
    }
  }

  /** What a request may carry besides its values: timestamp, keyspace, time of execution, tracing. */
  private static void requestOptions(CqlSession session) {
    SimpleStatement insert = SimpleStatement.newInstance("INSERT INTO kv (k, c, v) VALUES (50, 1, 'x') USING TTL 1000");
    // 1,000 seconds after this moment of execution are long over, so the row is never seen.
    session.execute(insert.setNowInSeconds(1_000_000_000).setQueryTimestamp(1));
    require(session.execute("SELECT v FROM kv WHERE k = 50").one() == null, "an expired row is seen");
    session.execute(SimpleStatement.newInstance("INSERT INTO kv (k, c, v) VALUES (51, 1, 'x')").setQueryTimestamp(7));
    equal(session.execute("SELECT writetime(v) FROM kv WHERE k = 51").one().getLong(0), 7L);
    SimpleStatement elsewhere = SimpleStatement.newInstance("SELECT cluster_name FROM local");
    require(
        session.execute(elsewhere.setKeyspace("system")).one().getString(0) != null, "no cluster name");
    ResultSet traced = session.execute(SimpleStatement.newInstance("SELECT v FROM kv WHERE k = 51").setTracing(true));
    require(traced.getExecutionInfo().getTracingId() != null, "no trace id");
  }

  private static void errors(CqlSession session) {
    expect(SyntaxError.class, "line 1:0", () -> session.execute("SELEC * FROM kv"));
    expect(InvalidQueryException.class, "Undefined column name nope", () -> session.execute("SELECT nope FROM kv"));
    expect(InvalidQueryException.class, "table nope does not exist", () -> session.execute("SELECT * FROM nope"));
    expect(AlreadyExistsException.class, "already exists", () -> session.execute("CREATE TABLE kv (k int PRIMARY KEY)"));
    expect(InvalidQueryException.class, "ALLOW FILTERING", () -> session.prepare("SELECT * FROM kv WHERE v = ?"));
    expect(InvalidQueryException.class, "nokeyspace", () -> session.execute("USE nokeyspace"));
    expect(InvalidConfigurationInQueryException.class, "NoStrategy", () -> session.execute(
        "CREATE KEYSPACE other WITH replication = {'class': 'NoStrategy', 'replication_factor': 1}"));
    // The driver tries the next node after this error, of which there is none.
    expect(AllNodesFailedException.class, "THREE (3 required but only 1 alive)", () -> session.execute(
        SimpleStatement.newInstance("SELECT * FROM kv").setConsistencyLevel(DefaultConsistencyLevel.THREE)));
  }

  private static void reprepare(CqlSession session) {
    session.execute("CREATE TABLE again (k int PRIMARY KEY, v int)");
    session.execute("INSERT INTO again (k, v) VALUES (1, 1)");
    PreparedStatement select = session.prepare("SELECT * FROM again WHERE k = ?");
    equal(session.execute(select.bind(1)).one().getColumnDefinitions().size(), 2);
    session.execute("ALTER TABLE again ADD w text");
    waitUntil("the added column", () -> session.execute(select.bind(1)).one().getColumnDefinitions().size() == 3);
    session.execute("DROP TABLE again");
    session.execute("CREATE TABLE again (k int PRIMARY KEY, x int)");
    session.execute("INSERT INTO again (k, x) VALUES (1, 5)");
    equal(session.execute(select.bind(1)).one().getInt("x"), 5);
  }

  private static void schemaEvents(CqlSession session) {
    try (CqlSession other = connect("V4", "none")) {
      other.execute("CREATE TABLE java_driver.pushed (k int PRIMARY KEY)");
      waitUntil("the event of CREATE TABLE", () -> columns(session) == 1);
      other.execute("ALTER TABLE java_driver.pushed ADD v int");
      waitUntil("the event of ALTER TABLE", () -> columns(session) == 2);
      other.execute("DROP TABLE java_driver.pushed");
      waitUntil("the event of DROP TABLE", () -> columns(session) == 0);
    }
  }

  /** How many columns the driver knows of the table that another session makes and drops. */
  private static int columns(CqlSession session) {
    return session
        .getMetadata()
        .getKeyspace(KEYSPACE)
        .flatMap(keyspace -> keyspace.getTable("pushed"))
        .map(table -> table.getColumns().size())
        .orElse(0);
  }

  private static void protocols(CqlSession unused) {
    String text = "compressible ".repeat(20_000);
    for (String version : new String[] {"V3", "V4", "V5"}) {
      for (String compression : new String[] {"none", "lz4", "snappy"}) {
        if (version.equals("V5") && compression.equals("snappy")) {
          continue;
        }
        try (CqlSession session = connect(version, compression)) {
          equal(session.getContext().getProtocolVersion().name(), version);
          PreparedStatement insert = session.prepare("INSERT INTO java_driver.kv (k, c, v) VALUES (30, 1, ?)");
          session.execute(insert.bind(text));
          equal(session.execute("SELECT v FROM java_driver.kv WHERE k = 30").one().getString(0), text);
        }
      }
    }
  }

  private static void restart(CqlSession session) throws Exception {
    PreparedStatement select = session.prepare("SELECT v FROM java_driver.kv WHERE k = ? AND c = ?");
    session.execute("INSERT INTO java_driver.kv (k, c, v) VALUES (40, 1, 'before')");
    System.out.println("restart");
    String reply = new BufferedReader(new InputStreamReader(System.in)).readLine();
    if (!"restarted".equals(reply)) {
      throw new Skipped("the server cannot be restarted from here");
    }
    waitUntil("reading after the restart", () -> {
      try {
        return session.execute(select.bind(40, 1)).one().getString(0).equals("before");
      } catch (AllNodesFailedException error) {
        return false;
      } catch (DriverException error) {
        error.printStackTrace();
        return false;
      }
    });
    // The connection that carries events has been made anew too.
    schemaEvents(session);
  }

  private static void waitUntil(String what, BooleanSupplier condition) {
    Instant end = Instant.now().plus(NOTICE_MAX);
    while (Instant.now().isBefore(end)) {
      if (condition.getAsBoolean()) {
        return;
      }
      try {
        Thread.sleep(50);
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
    }
    throw new AssertionError(what + " did not happen");
  }

  private static void expect(Class<? extends Exception> kind, String words, Runnable action) {
    try {
      action.run();
    } catch (Exception error) {
      require(kind.isInstance(error), error + " is no " + kind.getSimpleName());
      require(error.getMessage().contains(words), error.getMessage() + " lacks " + words);
      return;
    }
    throw new AssertionError("no " + kind.getSimpleName());
  }

  private static void equal(Object actual, Object expected) {
    require(Objects.equals(actual, expected), actual + " instead of " + expected);
  }

  private static void require(boolean condition, String reason) {
    if (!condition) {
      throw new AssertionError(reason);
    }
  }
}

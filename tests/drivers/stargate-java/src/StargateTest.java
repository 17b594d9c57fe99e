import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.StreamObserver;
import io.stargate.grpc.StargateBearerToken;
import io.stargate.grpc.Values;
import io.stargate.proto.QueryOuterClass.AlreadyExists;
import io.stargate.proto.QueryOuterClass.Batch;
import io.stargate.proto.QueryOuterClass.BatchQuery;
import io.stargate.proto.QueryOuterClass.Query;
import io.stargate.proto.QueryOuterClass.QueryParameters;
import io.stargate.proto.QueryOuterClass.Response;
import io.stargate.proto.QueryOuterClass.ResultSet;
import io.stargate.proto.QueryOuterClass.StreamingResponse;
import io.stargate.proto.QueryOuterClass.Value;
import io.stargate.proto.StargateGrpc;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Stargate's client for Java as an application uses it: a token, a schema, every type, pages, batches, errors, streams. */
public final class StargateTest {
  static final String KEYSPACE = "stargate_java";
  private static final String ADDRESS = System.getenv("DOORS");

  private interface Body {
    void run() throws Exception;
  }

  private final StargateGrpc.StargateBlockingStub client;
  private final StargateGrpc.StargateStub streaming;
  private final StargateGrpc.StargateBlockingStub anonymous;
  private boolean passed = true;

  private StargateTest(ManagedChannel channel) throws Exception {
    StargateBearerToken token = new StargateBearerToken(token());
    anonymous = StargateGrpc.newBlockingStub(channel).withDeadlineAfter(60, TimeUnit.SECONDS);
    client = anonymous.withCallCredentials(token);
    streaming = StargateGrpc.newStub(channel).withCallCredentials(token);
  }

  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel = ManagedChannelBuilder.forTarget(ADDRESS).usePlaintext().build();
    StargateTest test = new StargateTest(channel);
    test.check("token", test::token_is_asked_for);
    test.check("schema", test::schema);
    test.check("types", () -> new StargateValues(test).everyType());
    test.check("batches_and_pages", test::batches_and_pages);
    test.check("errors", test::errors);
    test.check("streams", test::streams);
    channel.shutdownNow();
    System.exit(test.passed ? 0 : 1);
  }

  private void check(String name, Body body) {
    try {
      body.run();
      System.out.println("ok " + name);
    } catch (Exception | AssertionError error) {
      passed = false;
      error.printStackTrace();
      System.out.println("FAIL " + name + ": " + String.valueOf(error).replace('\n', ' '));
    }
  }

  private static String token() throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://" + ADDRESS + "/v1/auth"))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString("{\"username\": \"cassandra\", \"password\": \"cassandra\"}"))
            .build();
    String body = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
    Matcher found = Pattern.compile("\"authToken\"\\s*:\\s*\"([^\"]+)\"").matcher(body);
    same(true, found.find(), body);
    return found.group(1);
  }

  static void same(Object wanted, Object found, String what) {
    if (!wanted.equals(found)) {
      throw new AssertionError(what + ": " + found + " instead of " + wanted);
    }
  }

  Response execute(String cql, Value... values) {
    return client.executeQuery(query(cql, values).build());
  }

  private static Query.Builder query(String cql, Value... values) {
    Query.Builder query = Query.newBuilder().setCql(cql);
    for (Value value : values) {
      query.getValuesBuilder().addValues(value);
    }
    return query;
  }

  private StatusRuntimeException refused(String cql) {
    try {
      execute(cql);
    } catch (StatusRuntimeException error) {
      return error;
    }
    throw new AssertionError(cql + " did not fail");
  }

  private void token_is_asked_for() {
    try {
      anonymous.executeQuery(query("SELECT key FROM system.local").build());
    } catch (StatusRuntimeException error) {
      same(Status.Code.UNAUTHENTICATED, error.getStatus().getCode(), "without a token");
      return;
    }
    throw new AssertionError("nobody was asked for a token");
  }

  private void schema() {
    String replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    Response made = execute("CREATE KEYSPACE " + KEYSPACE + " WITH replication = " + replication);
    same(KEYSPACE, made.getSchemaChange().getKeyspace(), "the change of the schema");
    execute("CREATE TYPE " + KEYSPACE + ".address (street text, zip int)");
    execute("CREATE TABLE " + KEYSPACE + ".kv (k int, c int, v text, PRIMARY KEY (k, c))");
  }

  private void batches_and_pages() {
    Batch.Builder batch = Batch.newBuilder().setType(Batch.Type.UNLOGGED);
    for (int c = 0; c < 25; c++) {
      BatchQuery.Builder member = batch.addQueriesBuilder();
      member.setCql("INSERT INTO " + KEYSPACE + ".kv (k, c, v) VALUES (?, ?, ?)");
      member.getValuesBuilder().addValues(Values.of(1)).addValues(Values.of(c)).addValues(Values.of("v" + c));
    }
    client.executeBatch(batch.build());
    List<Integer> sizes = new ArrayList<>();
    QueryParameters.Builder parameters = QueryParameters.newBuilder();
    parameters.getPageSizeBuilder().setValue(10);
    while (true) {
      Query.Builder asked = query("SELECT c FROM " + KEYSPACE + ".kv WHERE k = ?", Values.of(1));
      ResultSet page = client.executeQuery(asked.setParameters(parameters).build()).getResultSet();
      sizes.add(page.getRowsCount());
      if (!page.hasPagingState()) {
        break;
      }
      parameters.setPagingState(page.getPagingState());
    }
    same(List.of(10, 10, 5), sizes, "pages");
  }

  private void errors() {
    StatusRuntimeException invalid = refused("SELECT * FROM " + KEYSPACE + ".none");
    same(Status.Code.INVALID_ARGUMENT, invalid.getStatus().getCode(), "a table that is not there");
    same("table none does not exist", invalid.getStatus().getDescription(), "a table that is not there");
    StatusRuntimeException exists = refused("CREATE TABLE " + KEYSPACE + ".kv (k int PRIMARY KEY)");
    same(Status.Code.ALREADY_EXISTS, exists.getStatus().getCode(), "a table that is there");
    Metadata.Key<AlreadyExists> key = ProtoUtils.keyForProto(AlreadyExists.getDefaultInstance());
    same("kv", exists.getTrailers().get(key).getTable(), "what exists");
  }

  /** An error is an answer, and the stream goes on. */
  private void streams() throws Exception {
    List<String> seen = new ArrayList<>();
    CountDownLatch ended = new CountDownLatch(1);
    StreamObserver<Query> asking =
        streaming
            .withDeadlineAfter(60, TimeUnit.SECONDS)
            .executeQueryStream(
                new StreamObserver<StreamingResponse>() {
                  @Override
                  public void onNext(StreamingResponse answer) {
                    seen.add(
                        answer.hasStatus()
                            ? "status " + answer.getStatus().getCode()
                            : "rows " + answer.getResponse().getResultSet().getRowsCount());
                  }

                  @Override
                  public void onError(Throwable error) {
                    seen.add(String.valueOf(error));
                    ended.countDown();
                  }

                  @Override
                  public void onCompleted() {
                    ended.countDown();
                  }
                });
    asking.onNext(query("SELECT c FROM " + KEYSPACE + ".kv LIMIT 1").build());
    asking.onNext(query("SELEC").build());
    asking.onNext(query("SELECT c FROM " + KEYSPACE + ".kv LIMIT 2").build());
    asking.onCompleted();
    same(true, ended.await(60, TimeUnit.SECONDS), "the stream ends");
    same(List.of("rows 1", "status 3", "rows 2"), seen, "the stream's answers");
  }
}

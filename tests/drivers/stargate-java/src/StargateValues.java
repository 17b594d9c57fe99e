import io.stargate.grpc.CqlDuration;
import io.stargate.grpc.Values;
import io.stargate.proto.QueryOuterClass.Value;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;

/** A value of every type, as the client's own conversions make and read them. */
final class StargateValues {
  /** A type, a value of it, and how the client reads it. */
  private record Case(String type, Value given, Object meant, Function<Value, Object> read) {}

  private final StargateTest test;

  StargateValues(StargateTest test) {
    this.test = test;
  }

  private static List<Case> cases() throws Exception {
    UUID random = UUID.fromString("5b6962dd-3f90-4c93-8f61-eabfa4a803e2");
    UUID time = UUID.fromString("d6455256-e7f1-11f1-8258-79ec71bc39a4");
    InetAddress address = InetAddress.getByName("::1");
    BigDecimal decimal = new BigDecimal("-1.25");
    BigInteger varint = BigInteger.ONE.shiftLeft(80).negate();
    LocalDate date = LocalDate.of(1969, 12, 31);
    LocalTime noon = LocalTime.NOON;
    CqlDuration duration = CqlDuration.from("1mo2d3ns");
    Value list = Values.of(List.of(Values.of("x"), Values.of("y")));
    Value map = Values.of(Map.of(Values.of("k"), Values.of(1)));
    Value udt = Values.udtOf(Map.of("street", Values.of("Long Lane"), "zip", Values.NULL));
    Value tuple = Values.of(Values.of(1), Values.NULL);
    return List.of(
        new Case("ascii", Values.of("a"), "a", Values::string),
        new Case("bigint", Values.of(Long.MIN_VALUE), Long.MIN_VALUE, Values::bigint),
        new Case("blob", Values.of(new byte[] {0, -1}), "[0, -1]", value -> java.util.Arrays.toString(Values.bytes(value))),
        new Case("boolean", Values.of(true), true, Values::bool),
        new Case("date", Values.of(date), date, Values::date),
        new Case("decimal", Values.of(decimal), decimal, Values::decimal),
        new Case("double", Values.of(0.5), 0.5, Values::double_),
        new Case("duration", Values.of(duration), duration, Values::duration),
        new Case("float", Values.of(1.5f), 1.5f, Values::float_),
        new Case("inet", Values.of(address), address, Values::inet),
        new Case("int", Values.of(-7), -7, Values::int_),
        new Case("list<text>", list, list, value -> value),
        new Case("map<text, int>", map, map, value -> value),
        new Case("set<text>", list, list, value -> value),
        new Case("smallint", Values.of((short) -3), (short) -3, Values::smallint),
        new Case("text", Values.of("\u00e9"), "\u00e9", Values::string),
        new Case("time", Values.of(noon), noon, Values::time),
        new Case("timestamp", Values.of(1767225600000L), 1767225600000L, Values::bigint),
        new Case("timeuuid", Values.of(time), time, Values::uuid),
        new Case("tinyint", Values.of((byte) 7), (byte) 7, Values::tinyint),
        new Case("tuple<int, text>", tuple, tuple, value -> value),
        new Case("frozen<" + StargateTest.KEYSPACE + ".address>", udt, udt, value -> value),
        new Case("uuid", Values.of(random), random, Values::uuid),
        new Case("varint", Values.of(varint), varint, Values::varint));
  }

  /** And unset, which leaves what is there. */
  void everyType() throws Exception {
    List<Case> all = cases();
    StringBuilder declared = new StringBuilder();
    StringBuilder columns = new StringBuilder();
    List<Value> values = new ArrayList<>(List.of(Values.of(1)));
    for (int at = 0; at < all.size(); at++) {
      declared.append(", c").append(at).append(' ').append(all.get(at).type());
      columns.append(at == 0 ? "c" : ", c").append(at);
      values.add(all.get(at).given());
    }
    String table = StargateTest.KEYSPACE + ".types";
    test.execute("CREATE TABLE " + table + " (id int PRIMARY KEY" + declared + ")");
    String insert = "INSERT INTO " + table + " (id, " + columns + ") VALUES (?" + ", ?".repeat(all.size()) + ")";
    test.execute(insert, values.toArray(new Value[0]));
    test.execute("UPDATE " + table + " SET c0 = ? WHERE id = ?", Values.UNSET, Values.of(1));
    String select = "SELECT " + columns + " FROM " + table + " WHERE id = ?";
    List<Value> read = test.execute(select, Values.of(1)).getResultSet().getRows(0).getValuesList();
    for (int at = 0; at < all.size(); at++) {
      Case one = all.get(at);
      StargateTest.same(one.meant(), one.read().apply(read.get(at)), one.type());
    }
  }
}

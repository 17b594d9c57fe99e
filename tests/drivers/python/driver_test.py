"""The DataStax and the ScyllaDB Python driver as an application uses them.

Both install a package called `cassandra`, so each runs this file in an environment of its own.
"""

import datetime
import decimal
import os
import sys
import time
import traceback
import uuid

import cassandra
import cassandra.cluster
from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest, ProtocolVersion
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import RoundRobinPolicy
from cassandra.protocol import SyntaxException
from cassandra.query import (BatchStatement, BatchType, SimpleStatement, UNSET_VALUE, dict_factory,
                             named_tuple_factory, tuple_factory)
from cassandra.util import Date, Duration, Time, uuid_from_time

HOST, PORT = os.environ["CQL_HOST"], int(os.environ["CQL_PORT"])
KEYSPACE = "python_driver"
# How long the driver may take to notice a schema change or a restart.
EVENT_SECONDS_MAX = 30


def connect(**options):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=30,
                               row_factory=options.pop("row_factory", named_tuple_factory),
                               consistency_level=ConsistencyLevel.ONE)
    options.setdefault("protocol_version", ProtocolVersion.V5)
    cluster = Cluster([HOST], port=PORT, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=30,
                      **options)
    return cluster, cluster.connect()


def wait_until(condition):
    deadline = time.time() + EVENT_SECONDS_MAX
    while time.time() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def expect_error(kind, action, *words):
    try:
        action()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in {error}"
        return
    raise AssertionError(f"no {kind.__name__}")


def equal(actual, expected):
    assert actual == expected, f"{actual!r} instead of {expected!r}"


def test_schema(session):
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.set_keyspace(KEYSPACE)
    session.execute("CREATE TYPE address (street text, zip int)")
    session.execute("CREATE TABLE kv (k int, c int, v text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)")


def test_metadata(session):
    """The driver reads the schema tables and rebuilds the schema from them."""
    cluster = session.cluster
    cluster.refresh_schema_metadata()
    table = cluster.metadata.keyspaces[KEYSPACE].tables["kv"]
    equal([column.name for column in table.partition_key], ["k"])
    equal([(column.name, column.is_reversed) for column in table.clustering_key], [("c", True)])
    equal(table.columns["v"].cql_type, "text")
    assert "CREATE TABLE python_driver.kv" in table.export_as_string()
    equal(cluster.metadata.keyspaces[KEYSPACE].user_types["address"].field_names, ["street", "zip"])
    assert cluster.metadata.cluster_name and len(cluster.metadata.all_hosts()) == 1
    assert cluster.metadata.token_map is not None
    host = cluster.metadata.all_hosts()[0]
    assert host.release_version.startswith("5.0"), host.release_version
    assert host.datacenter and host.rack and host.host_id


NATIVE_VALUES = {
    "ascii": "plain", "bigint": -(2 ** 63), "blob": b"\x00\xff", "boolean": True, "date": Date(datetime.date(2024, 2, 29)),
    "decimal": decimal.Decimal("-123.4500"), "double": 2.5e-300, "duration": Duration(1, 2, 3000), "float": 0.5,
    "inet": "2001:db8::1", "int": -(2 ** 31), "smallint": -32768, "text": "ünï 漢 😀",
    "time": Time(datetime.time(23, 59, 59, 999999)), "timestamp": datetime.datetime(2024, 2, 29, 1, 2, 3, 456000),
    "timeuuid": uuid_from_time(1700000000.5, 1, 2), "tinyint": -128,
    "uuid": uuid.UUID("8d5ed678-fe57-4f09-a5a4-7d7ef6ddb1c9"), "varchar": "", "varint": 2 ** 100,
}


def test_native_types(session):
    names = sorted(NATIVE_VALUES)
    columns = ", ".join(f"c_{name} {name}" for name in names)
    session.execute(f"CREATE TABLE natives (id int PRIMARY KEY, {columns})")
    fields = ", ".join(f"c_{name}" for name in names)
    insert = session.prepare(f"INSERT INTO natives (id, {fields}) VALUES (?{', ?' * len(names)})")
    session.execute(insert, [1] + [NATIVE_VALUES[name] for name in names])
    session.execute(insert, [2] + [None] * len(names))
    select = session.prepare(f"SELECT {fields} FROM natives WHERE id = ?")
    row = session.execute(select, [1]).one()
    for name, value in zip(names, row):
        equal(value, NATIVE_VALUES[name])
    equal(tuple(session.execute(select, [2]).one()), (None,) * len(names))
    plain = session.execute(f"SELECT {fields} FROM natives WHERE id = 1").one()
    equal(plain, row)


def test_collections(session):
    session.execute("CREATE TABLE nested (id int PRIMARY KEY, l list<int>, s set<text>, m map<text, double>, "
                    "fl frozen<list<frozen<set<int>>>>, t tuple<int, text, uuid>, a frozen<address>, "
                    "la list<frozen<address>>, v vector<float, 3>)")
    session.cluster.refresh_schema_metadata()
    address = session.cluster.metadata.keyspaces[KEYSPACE].user_types["address"]
    equal(address.field_types, ["text", "int"])
    insert = session.prepare("INSERT INTO nested (id, l, s, m, fl, t, la, v) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
    some_uuid = uuid.uuid4()
    values = [1, [3, 1, 2], {"b", "a"}, {"x": 1.5}, [{2, 1}, set()], (7, "seven", some_uuid), [("s", 1), ("t", None)],
              [1.0, 2.5, -3.0]]
    session.execute(insert, values)
    session.execute("INSERT INTO nested (id, a) VALUES (2, {street: 'Main', zip: 5})")
    row = session.execute("SELECT * FROM nested WHERE id = 1").one()
    equal((row.l, set(row.s), dict(row.m), row.t), ([3, 1, 2], {"a", "b"}, {"x": 1.5}, (7, "seven", some_uuid)))
    equal([set(inner) for inner in row.fl], [{1, 2}, set()])
    equal([tuple(item) for item in row.la], [("s", 1), ("t", None)])
    equal(list(row.v), [1.0, 2.5, -3.0])
    equal(tuple(session.execute("SELECT a FROM nested WHERE id = 2").one().a), ("Main", 5))
    session.execute(insert, [3] + [UNSET_VALUE] * 7)
    equal(session.execute("SELECT l, s FROM nested WHERE id = 3").one(), (None, None))


def test_paging(session):
    insert = session.prepare("INSERT INTO kv (k, c, v) VALUES (?, ?, ?)")
    results = execute_concurrent_with_args(session, insert, [(1, c, f"v{c}") for c in range(500)], concurrency=50)
    assert all(result.success for result in results)
    for fetch_size in (7, 100, 500, 5000):
        statement = SimpleStatement("SELECT c FROM kv WHERE k = 1", fetch_size=fetch_size)
        equal([row.c for row in session.execute(statement)], list(range(499, -1, -1)))
    statement = SimpleStatement("SELECT c FROM kv WHERE k = 1 ORDER BY c ASC", fetch_size=200)
    page = session.execute(statement)
    equal((len(page.current_rows), page.has_more_pages), (200, True))
    rest = session.execute(statement, paging_state=page.paging_state)
    equal(rest.current_rows[0].c, 200)


def test_batches(session):
    insert = session.prepare("INSERT INTO kv (k, c, v) VALUES (?, ?, ?)")
    for kind, key in ((BatchType.LOGGED, 20), (BatchType.UNLOGGED, 21)):
        batch = BatchStatement(batch_type=kind)
        for c in range(10):
            batch.add(insert, (key, c, "batched"))
        batch.add("DELETE FROM kv WHERE k = %s AND c = 3", (key,))
        batch.add(SimpleStatement("INSERT INTO kv (k, c, v) VALUES (%s, 100, 'simple')"), (key,))
        session.execute(batch)
        equal(session.execute("SELECT count(*) FROM kv WHERE k = %s", (key,)).one()[0], 10)
    result = session.execute(SimpleStatement("SELECT count(*) FROM kv"))
    assert result.response_future.warnings, "an aggregate without partition key warns"


def test_conditional(session):
    """The driver asks for no metadata of what it has prepared; that of a condition's answer comes all the same."""
    insert = session.prepare("INSERT INTO kv (k, c, v) VALUES (?, ?, ?) IF NOT EXISTS")
    update = session.prepare("UPDATE kv SET v = ? WHERE k = ? AND c = ? IF v = ?")
    assert session.execute(insert, (30, 1, "first")).was_applied
    refused = session.execute(insert, (30, 1, "second"))
    assert not refused.was_applied
    equal((refused.one().k, refused.one().v), (30, "first"))
    refused = session.execute(update, ("third", 30, 1, "another"))
    assert not refused.was_applied
    equal(refused.one().v, "first")
    batch = BatchStatement(serial_consistency_level=ConsistencyLevel.SERIAL)
    batch.add(update, ("third", 30, 1, "first"))
    batch.add(insert, (30, 2, "fourth"))
    assert session.execute(batch).was_applied
    serial = SimpleStatement("SELECT v FROM kv WHERE k = 30", consistency_level=ConsistencyLevel.SERIAL)
    equal(sorted(row.v for row in session.execute(serial)), ["fourth", "third"])


def test_transactions(session):
    """Drivers pass a transaction on as any other text, in every version, and read its answer as rows."""
    session.execute("CREATE TABLE accounts (k int PRIMARY KEY, balance int)")
    session.execute("CREATE TABLE transfers (id int PRIMARY KEY, amount int)")
    for key in range(2):
        session.execute("INSERT INTO accounts (k, balance) VALUES (%s, 100)", (key,))
    transfer = f"""BEGIN TRANSACTION
        LET giver = (SELECT balance FROM {KEYSPACE}.accounts WHERE k = ?);
        LET taker = (SELECT balance FROM {KEYSPACE}.accounts WHERE k = ?);
        SELECT giver.balance, taker.balance;
        IF giver.balance >= ? THEN
            UPDATE {KEYSPACE}.accounts SET balance = giver.balance - 30 WHERE k = ?;
            UPDATE {KEYSPACE}.accounts SET balance = taker.balance + 30 WHERE k = ?;
            INSERT INTO {KEYSPACE}.transfers (id, amount) VALUES (?, 30);
        END IF
    COMMIT TRANSACTION"""
    left = 100
    for version in (ProtocolVersion.V4, ProtocolVersion.V5):
        cluster, other = connect(protocol_version=version, row_factory=tuple_factory)
        try:
            equal(cluster.protocol_version, version)
            prepared = other.prepare(transfer)
            equal(list(other.execute(prepared, (0, 1, 30, 0, 1, version))), [(left, 200 - left)])
            left -= 30
            # The condition is not met: what was read is answered, and nothing is written.
            equal(list(other.execute(prepared, (0, 1, 1000, 0, 1, 99))), [(left, 200 - left)])
            blind = f"BEGIN TRANSACTION UPDATE {KEYSPACE}.accounts SET balance = 7 WHERE k = {version + 10}; COMMIT TRANSACTION"
            equal(list(other.execute(blind)), [])
            expect_error(InvalidRequest, lambda: other.execute("BEGIN TRANSACTION COMMIT TRANSACTION"),
                         "Transaction contains no reads or writes")
        finally:
            cluster.shutdown()
    rows = {row.k: row.balance for row in session.execute("SELECT * FROM accounts")}
    equal(rows, {0: 40, 1: 160, 14: 7, 15: 7})
    equal(sorted(row.id for row in session.execute("SELECT id FROM transfers")), [4, 5])


def test_counters(session):
    session.execute("CREATE TABLE counts (k int PRIMARY KEY, a counter, b counter)")
    count = session.prepare("UPDATE counts SET a = a + ?, b = b - 1 WHERE k = ?")
    execute_concurrent_with_args(session, count, [(2, 1)] * 100)
    batch = BatchStatement(batch_type=BatchType.COUNTER)
    batch.add(count, (5, 1))
    batch.add(count, (7, 2))
    session.execute(batch)
    rows = {row.k: (row.a, row.b) for row in session.execute("SELECT * FROM counts")}
    equal(rows, {1: (205, -101), 2: (7, -1)})


def test_json(session):
    session.execute("INSERT INTO kv JSON %s", ('{"k": 40, "c": 1, "v": "text \\u00e4"}',))
    equal(session.execute("SELECT JSON * FROM kv WHERE k = 40").one().json, '{"k": 40, "c": 1, "v": "text ä"}')


def test_errors(session):
    expect_error(SyntaxException, lambda: session.execute("SELEC * FROM kv"), "line 1:0")
    expect_error(InvalidRequest, lambda: session.execute("SELECT nope FROM kv"), "Undefined column name nope")
    expect_error(InvalidRequest, lambda: session.execute("SELECT * FROM nope"), "table nope does not exist")
    expect_error(AlreadyExists, lambda: session.execute("CREATE TABLE kv (k int PRIMARY KEY)"), "already exist")
    expect_error(AlreadyExists, lambda: session.execute(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"))
    expect_error(InvalidRequest, lambda: session.prepare("SELECT * FROM kv WHERE v = ?"), "ALLOW FILTERING")
    expect_error(InvalidRequest, lambda: session.execute("USE nokeyspace"), "nokeyspace")
    expect_error(cassandra.cluster.NoHostAvailable, lambda: session.execute(
        SimpleStatement("SELECT * FROM kv", consistency_level=ConsistencyLevel.THREE)), "Cannot achieve consistency level THREE")


def test_reprepare(session):
    """A statement whose table was made anew has to be prepared again, which the driver does itself."""
    session.execute("CREATE TABLE again (k int PRIMARY KEY, v int)")
    select = session.prepare("SELECT * FROM again WHERE k = ?")
    session.execute("INSERT INTO again (k, v) VALUES (1, 1)")
    equal(tuple(session.execute(select, [1]).one()), (1, 1))
    session.execute("ALTER TABLE again ADD w text")
    assert wait_until(lambda: len(session.execute(select, [1]).one()) == 3), "the added column does not come"
    session.execute("DROP TABLE again")
    session.execute("CREATE TABLE again (k int PRIMARY KEY, x int)")
    session.execute("INSERT INTO again (k, x) VALUES (1, 5)")
    equal(tuple(session.execute(select, [1]).one()), (1, 5))


def test_schema_events(session):
    """A change that another session makes arrives as an event."""
    other_cluster, other = connect()
    try:
        other.execute(f"CREATE TABLE {KEYSPACE}.pushed (k int PRIMARY KEY)")
        tables = lambda: session.cluster.metadata.keyspaces[KEYSPACE].tables
        assert wait_until(lambda: "pushed" in tables()), "no event for CREATE TABLE"
        other.execute(f"ALTER TABLE {KEYSPACE}.pushed ADD v int")
        assert wait_until(lambda: "v" in tables()["pushed"].columns), "no event for ALTER TABLE"
        other.execute(f"DROP TABLE {KEYSPACE}.pushed")
        assert wait_until(lambda: "pushed" not in tables()), "no event for DROP TABLE"
    finally:
        other_cluster.shutdown()


def test_indexes(session):
    """The driver knows indexes and how they would be made again, and reads by them in pages."""
    session.execute("CREATE TABLE indexed (k int, c int, v int, w text, m map<text, int>, PRIMARY KEY (k, c))")
    session.execute("CREATE INDEX ON indexed (v)")
    session.execute("CREATE CUSTOM INDEX by_text ON indexed (w) USING 'StorageAttachedIndex' "
                    "WITH OPTIONS = {'case_sensitive': 'false'}")
    session.execute("CREATE INDEX by_entry ON indexed (entries(m)) USING 'sai'")
    indexes = lambda: session.cluster.metadata.keyspaces[KEYSPACE].indexes
    assert wait_until(lambda: len(indexes()) == 3), f"no event for CREATE INDEX: {indexes()}"
    equal((indexes()["indexed_v_idx"].kind, indexes()["by_text"].kind), ("COMPOSITES", "CUSTOM"))
    equal(indexes()["indexed_v_idx"].as_cql_query(), f"CREATE INDEX indexed_v_idx ON {KEYSPACE}.indexed (v)")
    assert "USING 'StorageAttachedIndex'" in indexes()["by_text"].as_cql_query()
    assert "CREATE CUSTOM INDEX by_entry" in session.cluster.metadata.keyspaces[KEYSPACE].tables["indexed"].export_as_string()
    insert = session.prepare("INSERT INTO indexed (k, c, v, w, m) VALUES (?, ?, ?, ?, ?)")
    for number in range(60):
        session.execute(insert, [number % 5, number, number % 3, f"Word{number % 4}", {"a": number % 2}])
    select = session.prepare("SELECT c FROM indexed WHERE v = ?")
    select.fetch_size = 7
    equal(sorted(row.c for row in session.execute(select, [1])), list(range(1, 60, 3)))
    found = session.execute("SELECT c FROM indexed WHERE w = 'WORD1' AND m['a'] = 1")
    equal(sorted(row.c for row in found), list(range(1, 60, 4)))
    session.execute("DROP INDEX by_text")
    assert wait_until(lambda: "by_text" not in indexes()), "no event for DROP INDEX"


def test_protocols(session):
    for version in (ProtocolVersion.V3, ProtocolVersion.V4, ProtocolVersion.V5):
        for compression in (False, "lz4", "snappy"):
            if version == ProtocolVersion.V5 and compression == "snappy":
                continue
            cluster, other = connect(protocol_version=version, compression=compression, row_factory=dict_factory)
            try:
                equal(cluster.protocol_version, version)
                insert = other.prepare(f"INSERT INTO {KEYSPACE}.kv (k, c, v) VALUES (?, ?, ?)")
                text = "compressible " * 20000
                other.execute(insert, [30, version, text])
                row = other.execute(f"SELECT v FROM {KEYSPACE}.kv WHERE k = 30 AND c = {version}").one()
                assert row["v"] == text, f"v{version} {compression}"
            finally:
                cluster.shutdown()


def test_trace(session):
    """A traced request is answered like any other and names its trace."""
    result = session.execute("SELECT * FROM kv LIMIT 1", trace=True)
    assert result.response_future._query_traces, "no trace id"


def test_restart(session):
    """The session lives on over a restart of the server, with its prepared statements."""
    select = session.prepare("SELECT v FROM kv WHERE k = ? AND c = ?")
    session.execute("INSERT INTO kv (k, c, v) VALUES (40, 1, 'before')")
    print("restart", flush=True)
    if sys.stdin.readline().strip() != "restarted":
        print("skip restart: the server cannot be restarted from here")
        return

    def reads():
        try:
            return session.execute(select, [40, 1]).one().v == "before"
        except (cassandra.cluster.NoHostAvailable, cassandra.OperationTimedOut, OSError):
            return False
        except cassandra.protocol.ErrorMessage:
            return False
    assert wait_until(reads), "the row is not readable after the restart"
    assert wait_until(lambda: session.cluster.control_connection._connection is not None)
    test_schema_events(session)


TESTS = [test_schema, test_metadata, test_native_types, test_collections, test_paging, test_batches, test_conditional,
         test_transactions, test_counters, test_json, test_errors,
         test_reprepare, test_schema_events, test_indexes, test_protocols, test_trace, test_restart]


def main():
    failed = False
    cluster, session = connect()
    for test in TESTS:
        name = test.__name__.removeprefix("test_")
        try:
            test(session)
            print(f"ok {name}", flush=True)
        except Exception as error:
            traceback.print_exc()
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
            failed = True
    session.execute(f"DROP KEYSPACE {KEYSPACE}")
    cluster.shutdown()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

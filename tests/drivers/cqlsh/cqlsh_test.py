"""cqlsh as people and scripts use it: statements, its own commands, COPY, an interactive terminal."""

import csv
import importlib.util
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
import traceback

CQLSH, HOST, PORT = os.environ["CQLSH"], os.environ["CQL_HOST"], os.environ["CQL_PORT"]
COMMAND = [sys.executable, CQLSH, "--no-color", "--connect-timeout=30", "--request-timeout=60"]
# An interactive answer takes milliseconds; the start of cqlsh some seconds.
TERMINAL_SECONDS_MAX = 60
ROWS = 1000


def cqlsh(script, *options, fails=False):
    """Runs a script through cqlsh's standard input and returns what it printed."""
    result = subprocess.run([*COMMAND, *options, HOST, PORT], input=script, capture_output=True, text=True,
                            timeout=180, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    text = result.stdout + result.stderr
    assert fails == (result.returncode != 0), f"exit {result.returncode}: {text}"
    return text


def contains(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is missing in:\n{text}"


def test_schema(_):
    cqlsh("""
        DROP KEYSPACE IF EXISTS cqlsh_test;
        CREATE KEYSPACE cqlsh_test WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        USE cqlsh_test;
        CREATE TYPE address (street text, zip int);
        CREATE TABLE people (id int PRIMARY KEY, name text, born date, home frozen<address>, tags set<text>,
            scores map<text, double>, history list<int>, pair tuple<int, text>);
        CREATE TABLE completion_target (k int, c int, v text, PRIMARY KEY (k, c)) WITH comment = 'wide';
        INSERT INTO people (id, name, born, home, tags, scores, history, pair)
            VALUES (1, 'Ann ünï', '1980-02-29', {street: 'Main', zip: 5}, {'b', 'a'}, {'x': 1.5}, [3, 1], (7, 'seven'));
        INSERT INTO people (id, name) VALUES (2, 'it''s, "quoted"');
        INSERT INTO people (id) VALUES (3);
    """)


def test_select(_):
    text = cqlsh("SELECT * FROM cqlsh_test.people;")
    contains(text, "Ann ünï", "1980-02-29", "{street: 'Main', zip: 5}", "{'a', 'b'}", "{'x': 1.5}", "[3, 1]",
             "(7, 'seven')", "it's, \"quoted\"", "null", "(3 rows)")


def test_types(_):
    contains(cqlsh("""
        CREATE TABLE cqlsh_test.all_types (k int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e decimal, f double,
            g duration, h float, i inet, j smallint, l time, m timestamp, n timeuuid, o tinyint, p uuid, q varint, r vector<float, 2>);
        INSERT INTO cqlsh_test.all_types (k, a, b, c, d, e, f, g, h, i, j, l, m, n, o, p, q, r) VALUES (1, 'asc', -9, 0x00ff,
            true, 1.50, 2.5, 1mo2d3h, 0.5, '2001:db8::1', 7, '13:14:15.123456789', '2024-02-29T01:02:03.456Z',
            50554d6e-29bb-11e5-b345-feff819cdc9f, 3, 8d5ed678-fe57-4f09-a5a4-7d7ef6ddb1c9, 123456789012345678901234567890, [1, 2.5]);
        SELECT * FROM cqlsh_test.all_types;
    """), "0x00ff", "1.50", "1mo2d3h", "2001:db8::1", "13:14:15.123456789", "2024-02-29 01:02:03.456000+0000",
             "123456789012345678901234567890", "[1, 2.5]")


def test_commands(folder):
    text = cqlsh("SHOW VERSION; SHOW HOST; CONSISTENCY QUORUM; CONSISTENCY; SERIAL CONSISTENCY; PAGING 2; PAGING; EXPAND ON; "
                 "SELECT id, name FROM cqlsh_test.people WHERE id = 1;")
    contains(text, "Cassandra 5.0", "Native protocol v5", f"{HOST}:{PORT}", "Consistency level set to QUORUM", "Page size: 2",
             "@ Row 1")
    path = os.path.join(folder, "script.cql")
    with open(path, "w") as file:
        file.write("INSERT INTO cqlsh_test.completion_target (k, c, v) VALUES (1, 1, 'sourced');\n"
                   "SELECT v FROM cqlsh_test.completion_target;\n")
    contains(cqlsh(f"SOURCE '{path}';"), "sourced")
    contains(cqlsh("", "-f", path), "sourced")
    contains(cqlsh("", "-e", "SELECT v FROM cqlsh_test.completion_target"), "sourced")
    contains(cqlsh("SELECT * FROM people WHERE id = 2;", "-k", "cqlsh_test"), "quoted")
    captured = os.path.join(folder, "captured")
    cqlsh(f"CAPTURE '{captured}'; SELECT v FROM cqlsh_test.completion_target; CAPTURE OFF;")
    contains(open(captured).read(), "sourced")


def test_paging(_):
    inserts = "".join(f"INSERT INTO cqlsh_test.completion_target (k, c, v) VALUES (9, {c}, 'v{c}');" for c in range(250))
    text = cqlsh(inserts + "PAGING 100; SELECT c FROM cqlsh_test.completion_target WHERE k = 9;")
    contains(text, "(250 rows)")
    equal = [int(number) for number in re.findall(r"^\s+(\d+)$", text, re.MULTILINE)]
    assert sorted(set(equal)) == list(range(250)), equal


def test_describe(_):
    text = cqlsh("USE cqlsh_test; DESCRIBE KEYSPACES; DESCRIBE CLUSTER; DESCRIBE TABLES; DESCRIBE TYPES; DESCRIBE TYPE address; "
                 "DESCRIBE TABLE people; DESCRIBE KEYSPACE cqlsh_test; DESC completion_target; DESCRIBE FUNCTIONS; "
                 "DESCRIBE AGGREGATES; DESCRIBE SCHEMA; DESCRIBE FULL SCHEMA;")
    contains(text, "system_schema", "Partitioner: Murmur3Partitioner", "completion_target", "CREATE TYPE cqlsh_test.address",
             "CREATE TABLE cqlsh_test.people", "home frozen<address>", "AND comment = 'wide'", "CREATE KEYSPACE cqlsh_test",
             "CREATE KEYSPACE system_schema")
    contains(cqlsh("DESCRIBE TABLE cqlsh_test.nope;", fails=True), "not found")


def test_describe_index(_):
    """What is described makes the index again."""
    created = "CREATE CUSTOM INDEX by_name ON cqlsh_test.people (name) USING 'StorageAttachedIndex' " \
              "WITH OPTIONS = {'case_sensitive': 'false'};"
    cqlsh(f"CREATE INDEX ON cqlsh_test.people (tags); {created}")
    contains(cqlsh("DESCRIBE INDEX cqlsh_test.by_name;"), created)
    legacy = "CREATE INDEX people_tags_idx ON cqlsh_test.people (values(tags));"
    contains(cqlsh("DESCRIBE TABLE cqlsh_test.people;"), "CREATE TABLE cqlsh_test.people", created, legacy)
    contains(cqlsh("SELECT id FROM cqlsh_test.people WHERE name = 'ANN ÜNÏ';"), "(1 rows)")
    cqlsh("DROP INDEX cqlsh_test.by_name; DROP INDEX cqlsh_test.people_tags_idx;")
    cqlsh(f"{created} {legacy}")
    contains(cqlsh("DESCRIBE INDEX cqlsh_test.nope;", fails=True), "not found")
    cqlsh("DROP INDEX cqlsh_test.by_name; DROP INDEX cqlsh_test.people_tags_idx;")


def test_errors(_):
    contains(cqlsh("SELEC;", fails=True), "SyntaxException", "line 1:0")
    contains(cqlsh("SELECT nope FROM cqlsh_test.people;", fails=True), "InvalidRequest", "Undefined column name nope")
    contains(cqlsh("CREATE TABLE cqlsh_test.people (k int PRIMARY KEY);", fails=True), "AlreadyExists")


def test_tracing(_):
    contains(cqlsh("TRACING ON; SELECT id FROM cqlsh_test.people WHERE id = 1; TRACING OFF;"), "(1 rows)", "Tracing session")


def test_copy(folder):
    exported, again = os.path.join(folder, "people.csv"), os.path.join(folder, "again.csv")
    contains(cqlsh(f"COPY cqlsh_test.people TO '{exported}' WITH HEADER = TRUE;"), "3 rows exported")
    contains(cqlsh("CREATE TABLE cqlsh_test.copied (id int PRIMARY KEY, name text, born date, home frozen<address>, "
                   "tags set<text>, scores map<text, double>, history list<int>, pair tuple<int, text>); "
                   f"COPY cqlsh_test.copied FROM '{exported}' WITH HEADER = TRUE;", "-k", "cqlsh_test"), "3 rows imported")
    cqlsh(f"COPY cqlsh_test.copied TO '{again}' WITH HEADER = TRUE;")
    assert sorted(csv.reader(open(exported))) == sorted(csv.reader(open(again))), "the copy differs"


def test_copy_many(folder):
    path, back = os.path.join(folder, "many.csv"), os.path.join(folder, "back.csv")
    with open(path, "w") as file:
        csv.writer(file).writerows([number, number % 7, f"value {number}"] for number in range(ROWS))
    contains(cqlsh("CREATE TABLE cqlsh_test.many (k int, c int, v text, PRIMARY KEY (k, c)); "
                   f"COPY cqlsh_test.many (k, c, v) FROM '{path}' WITH CHUNKSIZE = 50;"), f"{ROWS} rows imported")
    contains(cqlsh("SELECT count(*) FROM cqlsh_test.many;"), str(ROWS))
    contains(cqlsh(f"COPY cqlsh_test.many TO '{back}' WITH PAGESIZE = 100;"), f"{ROWS} rows exported")
    assert sorted(csv.reader(open(path))) == sorted(csv.reader(open(back))), "the rows differ"


def test_completion(_):
    """A terminal, the Tab key, and a name that only the schema tables know."""
    if importlib.util.find_spec("readline") is None:
        print("skip completion: this Python has no readline")
        return
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "dumb"
        os.execv(COMMAND[0], [*COMMAND, HOST, PORT])
    try:
        await_text(terminal, "cqlsh>")
        os.write(terminal, b"SELECT * FROM cqlsh_test.complet\t")
        await_text(terminal, "completion_target")
        os.write(terminal, b" WHERE k = 1;\nexit\n")
        await_text(terminal, "sourced")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def await_text(terminal, wanted):
    seen, deadline = "", time.time() + TERMINAL_SECONDS_MAX
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.time()))
        assert ready, f"{wanted!r} did not come, but {seen!r}"
        seen += os.read(terminal, 4096).decode(errors="replace")


TESTS = [test_schema, test_select, test_types, test_commands, test_paging, test_describe, test_describe_index, test_errors, test_tracing,
         test_copy, test_copy_many, test_completion]


def main():
    failed = False
    for test in TESTS:
        name = test.__name__.removeprefix("test_")
        try:
            with tempfile.TemporaryDirectory() as folder:
                test(folder)
            print(f"ok {name}", flush=True)
        except Exception as error:
            traceback.print_exc()
            first = str(error).splitlines()[:1]
            print(f"FAIL {name}: {type(error).__name__}: {' '.join(first)}", flush=True)
            failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

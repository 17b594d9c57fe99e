"""pyarrow reads what the HTTP door streams as Arrow: every type, nulls, pages, and an answer that ends early."""

import datetime
import http.client
import json
import os
import traceback
import uuid

import pyarrow as pa

DOOR = os.environ["DOORS"]
STREAM = "application/vnd.apache.arrow.stream"
REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}"


def post(query, accept="application/json", **more):
    connection = http.client.HTTPConnection(DOOR, timeout=30)
    body = json.dumps({"query": query, **more})
    connection.request("POST", "/v1/query", body, {"Content-Type": "application/json", "Accept": accept})
    response = connection.getresponse()
    return response.status, response.getheader("Content-Type"), response.read()


def run(query, **more):
    status, _, body = post(query, **more)
    assert status == 200, body


def table(query, **more):
    status, kind, body = post(query, STREAM, **more)
    assert (status, kind) == (200, STREAM), (status, kind, body)
    read = pa.ipc.open_stream(body).read_all()
    read.validate(full=True)
    return read


def set_up():
    run(f"CREATE KEYSPACE arrow WITH replication = {REPLICATION}")
    run("CREATE TYPE arrow.point (x int, y text)")
    run("""CREATE TABLE arrow.all_types (id int PRIMARY KEY, a ascii, bi bigint, bl blob, bo boolean, da date, de decimal,
        do double, du duration, fl float, ine inet, li list<text>, ma map<text, int>, se set<int>, si smallint, te text,
        ti time, ts timestamp, tu timeuuid, ty tinyint, tup tuple<int, text>, ud frozen<point>, uu uuid, va varint,
        ve vector<float, 2>, nest frozen<map<int, frozen<list<frozen<tuple<int, text>>>>>>)""")
    run("""INSERT INTO arrow.all_types (id, a, bi, bl, bo, da, de, do, du, fl, ine, li, ma, se, si, te, ti, ts, tu, ty, tup, ud,
        uu, va, ve, nest) VALUES (1, 'ascii', -9007199254740993, 0x00ff, true, '1969-12-30', 1.250, -0.5, 1mo2d3ns, 2.5,
        '::1', ['x', ''], {'a': 1, 'b': -2}, {1, 2}, -3, 'é', '08:12:54.123456789', '2026-01-01 00:00:00.001Z',
        d6455256-e7f1-11f1-8258-79ec71bc39a4, -7, (1, null), {x: 1, y: 'y'}, 6ab09bec-e68e-48d9-a5f8-97e6fb4c9b47,
        123456789012345678901234567890, [1, -2], {5: [(1, 'p'), (2, null)], 6: []})""")
    run("INSERT INTO arrow.all_types (id) VALUES (2)")
    run("CREATE TABLE arrow.pages (p int, c int, v text, PRIMARY KEY (p, c))")
    for c in range(10):
        run("INSERT INTO arrow.pages (p, c, v) VALUES (1, ?, ?)", values=[c, "v" * c])
    run("CREATE TABLE arrow.numbers (p int, c int, n varint, PRIMARY KEY (p, c))")


WANTED = {
    "id": 1, "a": "ascii", "bi": -9007199254740993, "bl": b"\x00\xff", "bo": True, "da": datetime.date(1969, 12, 30),
    "de": "1.250", "do": -0.5, "du": pa.MonthDayNano([1, 2, 3]), "fl": 2.5, "ine": "0:0:0:0:0:0:0:1", "li": ["x", ""],
    "ma": [("a", 1), ("b", -2)], "se": [1, 2], "si": -3, "te": "é", "ts": datetime.datetime(
        2026, 1, 1, 0, 0, 0, 1000, datetime.timezone.utc), "tu": uuid.UUID("d6455256-e7f1-11f1-8258-79ec71bc39a4"),
    "ty": -7, "tup": {"0": 1, "1": None}, "ud": {"x": 1, "y": "y"}, "uu": uuid.UUID("6ab09bec-e68e-48d9-a5f8-97e6fb4c9b47"),
    "va": "123456789012345678901234567890", "ve": [1.0, -2.0],
    "nest": [(5, [{"0": 1, "1": "p"}, {"0": 2, "1": None}]), (6, [])],
}


def every_type():
    read = table("SELECT * FROM arrow.all_types WHERE id = 1")
    # Python's times have no nanoseconds.
    nanoseconds = read.column("ti").cast(pa.int64()).to_pylist()
    assert nanoseconds == [29574123456789], nanoseconds
    row = read.drop_columns(["ti"]).to_pylist()[0]
    for name, wanted in WANTED.items():
        assert row[name] == wanted, (name, row[name], wanted)
    assert row.keys() == WANTED.keys(), row.keys()


def nulls():
    row = table("SELECT * FROM arrow.all_types WHERE id = 2").to_pylist()[0]
    assert row.pop("id") == 2
    assert all(value is None for value in row.values()), row


def types_are_told():
    schema = table("SELECT ud, ve, uu FROM arrow.all_types").schema
    told = [schema.field(name).metadata[b"cql_type"].decode() for name in ("ve", "uu")]
    assert told == ["vector<float, 2>", "uuid"], told
    assert schema.field("ve").type == pa.list_(pa.float32(), 2), schema


def pages_are_batches():
    _, _, body = post("SELECT c, v FROM arrow.pages WHERE p = 1", STREAM, page_size=3)
    batches = list(pa.ipc.open_stream(body))
    assert [batch.num_rows for batch in batches] == [3, 3, 3, 1], batches
    read = pa.Table.from_batches(batches).to_pylist()
    assert read == [{"c": c, "v": "v" * c} for c in range(10)], read


def no_rows():
    assert table("SELECT c FROM arrow.pages WHERE p = 9").num_rows == 0
    assert table("INSERT INTO arrow.pages (p, c) VALUES (8, 8)").num_columns == 0


def errors_are_problems():
    status, kind, body = post("SELECT nothing FROM arrow.pages", STREAM)
    assert (status, kind) == (400, "application/problem+json"), (status, kind, body)


def what_fails_later_is_not_taken_for_whole():
    for c in range(4):
        digits = "9" * (20_000 if c == 3 else 1)
        run(f"INSERT INTO arrow.numbers (p, c, n) VALUES (1, {c}, {digits})")
    try:
        post("SELECT n FROM arrow.numbers WHERE p = 1", STREAM, page_size=2)
    except http.client.IncompleteRead as broken:
        reader = pa.ipc.open_stream(broken.partial)
        assert reader.read_next_batch().num_rows == 2
        return
    raise AssertionError("the answer seems to be whole")


def main():
    set_up()
    for check in (every_type, nulls, types_are_told, pages_are_batches, no_rows, errors_are_problems,
                  what_fails_later_is_not_taken_for_whole):
        try:
            check()
            print(f"ok {check.__name__}", flush=True)
        except Exception:  # Each check says what went wrong and the others go on.
            print(f"FAIL {check.__name__}: {traceback.format_exc().splitlines()[-1]}", flush=True)


main()

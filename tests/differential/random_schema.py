"""Random tables: types of all kinds, keys of any shape, and few values per column so that they collide."""

import itertools

# Extremes and neighbours of each native type, as CQL literals.
NATIVE_VALUES = {
    "ascii": ["''", "'a'", "'A'", "'zz'"],
    "bigint": ["0", "1", "-1", "9223372036854775807", "-9223372036854775808"],
    "blob": ["0x", "0x00", "0x7f", "0x80", "0xffff"],
    "boolean": ["true", "false"],
    "date": ["'1970-01-01'", "'1969-12-31'", "'2024-02-29'", "'-0001-01-01'"],
    "decimal": ["0", "0.00", "1.0", "1", "-1.5", "1E+10", "1E-10"],
    "double": ["0.0", "-0.0", "1.5", "-1E10", "NaN", "Infinity", "-Infinity"],
    "float": ["0.0", "-0.0", "1.5", "-2.25", "NaN", "Infinity"],
    "inet": ["'127.0.0.1'", "'0.0.0.0'", "'255.255.255.255'", "'::1'", "'2001:db8::1'"],
    "int": ["0", "1", "2", "-1", "2147483647", "-2147483648"],
    "smallint": ["0", "1", "-1", "32767", "-32768"],
    "text": ["''", "'a'", "'ab'", "'B'", "'é'", "'漢'", "'it''s'"],
    "time": ["'00:00:00'", "'12:34:56.789'", "'23:59:59.999999999'"],
    "timestamp": ["0", "-1", "'2024-02-29T12:34:56.789Z'", "'1969-12-31T23:59:59Z'"],
    "timeuuid": ["50554d6e-29bb-11e5-b345-feff819cdc9f", "50554d6e-29bc-11e5-8000-000000000000",
                 "00000000-29bb-11e5-b345-feff819cdc9f"],
    "tinyint": ["0", "1", "-1", "127", "-128"],
    "uuid": ["8d5ed678-fe57-4f09-a5a4-7d7ef6ddb1c9", "00000000-0000-4000-8000-000000000000",
             "50554d6e-29bb-11e5-b345-feff819cdc9f"],
    "varint": ["0", "127", "128", "-128", "-129", "18446744073709551616"],
    "duration": ["0s", "1mo2d3h", "-1d", "90s"],
}
# What counters grow by, and are compared with; of no other column.
COUNTER_VALUES = ["0", "1", "2", "-1", "5", "-7", "9223372036854775807"]
# A duration has no order, so it is never a key.
KEY_TYPES = sorted(set(NATIVE_VALUES) - {"duration"})
NUMBERS = {"bigint", "counter", "decimal", "double", "float", "int", "smallint", "tinyint", "varint"}
UDT = "pair"
UDT_DEFINITION = "CREATE TYPE pair (a int, b text)"


class Type:
    """A type's CQL text, and literals of it."""

    def __init__(self, kind, *parts, frozen=False):
        self.kind, self.parts, self.frozen = kind, parts, frozen

    def cql(self):
        if self.kind == "vector":
            return f"vector<{self.parts[0].cql()}, 2>"
        inner = f"{self.kind}<{', '.join(part.cql() for part in self.parts)}>" if self.parts else self.kind
        return f"frozen<{inner}>" if self.frozen else inner

    def literal(self, random):
        element = lambda part: self.parts[part].literal(random)
        count = random.choice([0, 1, 1, 2, 3])
        if self.kind == "list":
            return "[%s]" % ", ".join(element(0) for _ in range(count))
        if self.kind == "set":
            return "{%s}" % ", ".join(dict.fromkeys(element(0) for _ in range(count)))
        if self.kind == "map":
            return "{%s}" % ", ".join(f"{key}: {element(1)}" for key in dict.fromkeys(element(0) for _ in range(count)))
        if self.kind == "tuple":
            return "(%s)" % ", ".join(element(index) for index in range(len(self.parts)))
        if self.kind == "vector":
            return "[%s, %s]" % (element(0), element(0))
        if self.kind == UDT:
            return "{a: %s, b: %s}" % (random.choice(["1", "null", "-5"]), random.choice(["'x'", "''", "null"]))
        return random.choice(COUNTER_VALUES if self.kind == "counter" else NATIVE_VALUES[self.kind])

    def has(self, kind):
        return self.kind == kind or any(part.has(kind) for part in self.parts)

    def is_collection(self):
        return self.kind in ("list", "set", "map") and not self.frozen


def native(random, names=None):
    return Type(random.choice(names or sorted(NATIVE_VALUES)))


def key_type(random):
    if random.random() < 0.1:
        return Type("list", native(random, ["int", "text"]), frozen=True)
    if random.random() < 0.05:
        return Type("tuple", native(random, KEY_TYPES), native(random, KEY_TYPES), frozen=True)
    return native(random, KEY_TYPES)


def value_type(random):
    kind = random.choice(["native"] * 6 + ["list", "set", "map", "frozen list", "tuple", "vector", UDT, f"frozen {UDT}"])
    if kind == "list":
        return Type("list", native(random))
    if kind == "set":
        return Type("set", native(random, KEY_TYPES))
    if kind == "map":
        return Type("map", native(random, KEY_TYPES), native(random))
    if kind == "frozen list":
        return Type("list", native(random), frozen=True)
    if kind == "tuple":
        return Type("tuple", native(random), native(random))
    if kind == "vector":
        return Type("vector", native(random, ["float", "int", "text"]))
    if kind == UDT:
        return Type(UDT)
    if kind == f"frozen {UDT}":
        return Type(UDT, frozen=True)
    return native(random)


class Column:
    def __init__(self, random, name, kind):
        self.name, self.type = name, kind
        # Keys come from a handful of values, so that statements meet the same rows.
        self.pool = list(itertools.islice(dict.fromkeys(kind.literal(random) for _ in range(12)), 4))

    def value(self, random):
        return random.choice(self.pool)


class Table:
    def __init__(self, random, name="t"):
        self.name = name
        self.counts = random.random() < 0.12
        value = lambda: Type("counter") if self.counts else value_type(random)
        self.partition = [Column(random, f"p{i}", key_type(random)) for i in range(random.choice([1, 1, 1, 2, 3]))]
        self.clustering = [Column(random, f"c{i}", key_type(random)) for i in range(random.choice([0, 1, 1, 2, 2, 3]))]
        self.reversed = [random.random() < 0.4 for _ in self.clustering]
        statics = random.choice([0, 0, 1, 2]) if self.clustering else 0
        self.statics = [Column(random, f"s{i}", value()) for i in range(statics)]
        regular = random.choice([1, 2, 3] if self.counts else [0, 1, 2, 3, 4])
        self.regular = [Column(random, f"v{i}", value()) for i in range(regular)]
        # Column names, and the statements that index them.
        self.indexes = self.random_indexes(random) if random.random() < 0.6 else []

    def keys(self):
        return self.partition + self.clustering

    def values(self):
        return self.statics + self.regular

    def columns(self):
        return self.keys() + self.values()

    def random_indexes(self, random):
        """Of any columns, in both kinds; some are refused."""
        indexes = []
        for column in random.sample(self.columns(), random.randint(1, min(3, len(self.columns())))):
            # Where Helenus answers otherwise on purpose: indexes of vectors, and decimals that legacy indexes tell apart.
            if column.type.has("vector"):
                continue
            kind = " USING 'sai'" if column.type.has("decimal") or random.random() < 0.5 else ""
            target = column.name
            if column.type.is_collection() and column.type.kind == "map":
                target = random.choice(["{}", "keys({})", "entries({})"]).format(target)
            elif column.type.frozen and column.type.kind in ("list", "set", "map"):
                target = f"full({target})"
            indexes.append((column, f"CREATE INDEX ON {self.name} ({target}){kind}"))
        return indexes

    def create(self):
        columns = [f"{column.name} {column.type.cql()}{' STATIC' if column in self.statics else ''}" for column in self.columns()]
        key = ", ".join([f"({', '.join(column.name for column in self.partition)})", *(c.name for c in self.clustering)])
        order = ", ".join(f"{column.name} {'DESC' if descending else 'ASC'}"
                          for column, descending in zip(self.clustering, self.reversed))
        options = f" WITH CLUSTERING ORDER BY ({order})" if order else ""
        return f"CREATE TABLE {self.name} ({', '.join(columns)}, PRIMARY KEY ({key})){options}"

"""Random statements on a random table: mostly sensible, sometimes wrong on purpose."""

from random_schema import NUMBERS, native


class Statements:
    """Statements for one table. With `timestamps`, writes carry small explicit timestamps and so shadow each
    other in any order; without, the order of the statements decides."""

    def __init__(self, random, table):
        self.random, self.table = random, table
        self.timestamps = random.random() < 0.5 and not table.counts

    def next(self):
        """A statement and the page size to read it with, if any."""
        choice = self.random.random()
        if self.table.counts and choice < 0.50:
            return self.count() if self.chance(0.97) else self.insert(), None
        if choice < 0.28:
            return self.insert(), None
        if choice < 0.40:
            return self.update(), None
        if choice < 0.50:
            return self.delete(), None
        if choice < 0.54:
            return self.batch(), None
        statement = self.select()
        if choice > 0.95:
            statement = self.spoil(statement)
        page_size = self.random.choice([None, None, None, 1, 2, 3, 5])
        if " GROUP BY " in statement and not self.table.clustering:
            # Cassandra returns longer pages than asked for, or refuses its own paging state.
            page_size = None
        return statement, page_size

    def chance(self, share):
        return self.random.random() < share

    def using(self, ttl=True):
        parts = []
        if self.timestamps:
            parts.append(f"TIMESTAMP {self.random.randint(1, 8)}")
        if ttl and self.chance(0.05):
            parts.append("TTL 1000000")
        return f" USING {' AND '.join(parts)}" if parts else ""

    def literal(self, column):
        if self.chance(0.03):
            return "null"
        if self.chance(0.02):
            return native(self.random).literal(self.random)
        return column.value(self.random)

    def key(self, columns):
        return [f"{column.name} = {self.literal(column)}" for column in columns]

    def insert(self):
        chosen = [column for column in self.table.values() if self.chance(0.7)]
        keys = self.table.keys()
        if self.table.statics and self.chance(0.1):
            keys, chosen = self.table.partition, [c for c in chosen if c in self.table.statics]
        columns = keys + chosen
        values = ", ".join(self.literal(column) for column in columns)
        return f"INSERT INTO t ({', '.join(column.name for column in columns)}) VALUES ({values}){self.using()}"

    def update(self):
        values = self.table.values()
        if not values:
            return self.insert()
        chosen = self.random.sample(values, self.random.randint(1, min(3, len(values))))
        only_static = all(column in self.table.statics for column in chosen)
        keys = self.table.partition if only_static else self.table.keys()
        assignments = ", ".join(self.assignment(column) for column in chosen)
        return f"UPDATE t{self.using()} SET {assignments} WHERE {' AND '.join(self.where_of_write(keys))}"

    def assignment(self, column):
        name, kind, random = column.name, column.type, self.random
        if kind.is_collection() and self.chance(0.6):
            if kind.kind == "map" and self.chance(0.4):
                return f"{name}[{kind.parts[0].literal(random)}] = {kind.parts[1].literal(random)}"
            if kind.kind == "list" and self.chance(0.3):
                return f"{name}[{random.randint(0, 2)}] = {kind.parts[0].literal(random)}"
            if kind.kind == "list" and self.chance(0.3):
                return f"{name} = {kind.literal(random)} + {name}"
            if kind.kind == "map":
                return f"{name} = {name} + {kind.literal(random)}"
            return f"{name} = {name} {random.choice('+-')} {kind.literal(random)}"
        if kind.kind == "pair" and not kind.frozen and self.chance(0.5):
            return f"{name}.a = {random.choice(['3', 'null'])}"
        return f"{name} = {self.literal(column)}"

    def where_of_write(self, columns):
        where = self.key(columns)
        if self.chance(0.1):
            column = self.random.choice(columns)
            where[columns.index(column)] = f"{column.name} IN ({column.value(self.random)}, {column.value(self.random)})"
        return where

    def delete(self):
        kind = self.random.choice(["row", "row", "partition", "range", "cells", "cells"])
        using = self.using(ttl=False)
        partition, clustering = self.table.partition, self.table.clustering
        if kind == "cells" and self.table.values():
            column = self.random.choice(self.table.values())
            target = column.name
            if column.type.kind == "map" and not column.type.frozen and self.chance(0.5):
                target = f"{column.name}[{column.type.parts[0].literal(self.random)}]"
            keys = partition if column in self.table.statics else self.table.keys()
            return f"DELETE {target} FROM t{using} WHERE {' AND '.join(self.key(keys))}"
        where = self.key(partition)
        if kind == "row":
            where = self.where_of_write(self.table.keys())
        elif kind == "range" and clustering:
            where += self.slice()
        return f"DELETE FROM t{using} WHERE {' AND '.join(where)}"

    def count(self):
        """An increment, or the deletion of a counter. Not of rows: how much is left of a counter then depends on what
        Cassandra's counter cache holds."""
        statics = self.table.statics and self.chance(0.3)
        column = self.random.choice(self.table.statics if statics else self.table.regular)
        where = " AND ".join(self.where_of_write(self.table.partition if statics else self.table.keys()))
        if self.chance(0.08):
            return f"DELETE {column.name} FROM t WHERE {' AND '.join(self.key(self.table.partition if statics else self.table.keys()))}"
        attributes = " USING TIMESTAMP 5" if self.chance(0.02) else ""
        sign = self.random.choice(["+", "+", "-"])
        return f"UPDATE t{attributes} SET {column.name} = {column.name} {sign} {self.literal(column)} WHERE {where}"

    def batch(self):
        if self.table.counts:
            writes = [self.count() for _ in range(self.random.randint(1, 4))]
            kind = self.random.choice(["COUNTER ", "COUNTER ", "UNLOGGED ", ""])
            return f"BEGIN {kind}BATCH {'; '.join(writes)}; APPLY BATCH"
        writes = [self.random.choice([self.insert, self.update, self.delete])() for _ in range(self.random.randint(1, 4))]
        kind = self.random.choice(["", "UNLOGGED "])
        return f"BEGIN {kind}BATCH {'; '.join(writes)}; APPLY BATCH"

    def slice(self):
        """Equalities on some first clustering columns, then perhaps a range on the next ones."""
        clustering = self.table.clustering
        depth = self.random.randint(0, len(clustering) - 1)
        where = self.key(clustering[:depth])
        rest = clustering[depth:]
        if len(rest) > 1 and self.chance(0.3):
            names = ", ".join(column.name for column in rest[:2])
            values = ", ".join(column.value(self.random) for column in rest[:2])
            return where + [f"({names}) {self.random.choice(['>', '>=', '<', '<=', '='])} ({values})"]
        column = rest[0]
        if self.chance(0.2):
            return where + [f"{column.name} IN ({column.value(self.random)}, {column.value(self.random)})"]
        operators = self.random.choice([[">"], [">="], ["<"], ["<="], [">", "<="], [">=", "<"]])
        return where + [f"{column.name} {operator} {column.value(self.random)}" for operator in operators]

    def select(self):
        where, filtering, single = self.restrictions()
        distinct = self.chance(0.08) and not any(column.name in part for part in where
                                                  for column in self.table.clustering + self.table.regular)
        grouping = "" if distinct or not self.chance(0.1) else self.grouping()
        text = f"SELECT {self.selectors(distinct, bool(grouping))} FROM t"
        if where:
            text += f" WHERE {' AND '.join(where)}"
        text += grouping
        if single and self.table.clustering and self.chance(0.3) and not distinct:
            text += self.order()
        if self.chance(0.15) and not distinct:
            text += f" PER PARTITION LIMIT {self.random.randint(1, 3)}"
        if self.chance(0.25):
            text += f" LIMIT {self.random.randint(1, 5)}"
        return text + (" ALLOW FILTERING" if filtering else "")

    def restrictions(self):
        """The relations, whether they need filtering, and whether they name one partition."""
        partition, clustering = self.table.partition, self.table.clustering
        if self.table.indexes and self.chance(0.4):
            return self.indexed()
        choice = self.random.random()
        if choice < 0.2:
            return [], False, False
        if choice < 0.3:
            names = ", ".join(column.name for column in partition)
            values = ", ".join(column.value(self.random) for column in partition)
            return [f"token({names}) {self.random.choice(['>', '>=', '<', '<='])} token({values})"], False, False
        if choice < 0.45 and self.table.columns():
            column = self.random.choice(self.table.columns())
            return [self.filter(column)], self.chance(0.95), False
        where, single = self.key(partition), True
        if self.chance(0.2):
            column = partition[-1]
            where[-1] = f"{column.name} IN ({column.value(self.random)}, {column.value(self.random)})"
            single = False
        if clustering and self.chance(0.7):
            where += self.slice() if self.chance(0.7) else self.key(clustering)
        filtering = False
        if self.table.regular and self.chance(0.1):
            where.append(self.filter(self.random.choice(self.table.regular)))
            filtering = True
        return where, filtering, single

    def indexed(self):
        """By a column that has an index, or two, alone or beside a partition or a range of them."""
        columns = [column for column, _ in self.table.indexes]
        chosen = self.random.sample(columns, min(len(columns), self.random.choice([1, 1, 2])))
        where = [self.filter(column) for column in chosen]
        others = [column for column in self.table.partition if column not in chosen]
        single = len(others) == len(self.table.partition) and self.chance(0.3)
        if single:
            where += self.key(self.table.partition)
        elif self.chance(0.15):
            where.append(self.filter(self.random.choice(self.table.columns())))
        return where, self.chance(0.4), single

    def filter(self, column):
        kind = column.type
        if kind.is_collection():
            if kind.kind == "map" and self.chance(0.3):
                return f"{column.name}[{kind.parts[0].literal(self.random)}] = {kind.parts[1].literal(self.random)}"
            if kind.kind == "map" and self.chance(0.5):
                return f"{column.name} CONTAINS KEY {kind.parts[0].literal(self.random)}"
            return f"{column.name} CONTAINS {kind.parts[-1].literal(self.random)}"
        operator = self.random.choice(["=", "=", ">", "<=", "IN"])
        if operator == "IN":
            return f"{column.name} IN ({column.value(self.random)}, {column.value(self.random)})"
        return f"{column.name} {operator} {column.value(self.random)}"

    def grouping(self):
        columns = self.table.keys()
        return f" GROUP BY {', '.join(column.name for column in columns[:self.random.randint(1, len(columns))])}"

    def order(self):
        flip = self.chance(0.6)
        parts = [f"{column.name} {'DESC' if descending != flip else 'ASC'}"
                 for column, descending in zip(self.table.clustering, self.table.reversed)]
        return f" ORDER BY {', '.join(parts[:self.random.randint(1, len(parts))])}"

    def selectors(self, distinct, grouped):
        if distinct:
            return "DISTINCT " + ", ".join(column.name for column in self.table.partition + self.table.statics)
        if self.chance(0.4) and not grouped:
            return "*"
        selectors = [self.selector(column) for column in self.table.columns() if self.chance(0.6)]
        if grouped or self.chance(0.1):
            selectors.append(self.random.choice(["count(*)", *self.aggregates()]))
        return ", ".join(selectors) or "count(*)"

    def aggregates(self):
        for column in self.table.columns():
            if column.type.kind in NUMBERS:
                yield f"sum({column.name})"
                yield f"avg({column.name})"
            if not column.type.parts:
                yield f"max({column.name})"
                yield f"count({column.name})"

    def selector(self, column):
        name, kind = column.name, column.type
        if self.chance(0.8):
            return name
        if self.timestamps and column in self.table.values() and not kind.is_collection() and kind.kind != "pair":
            return f"writetime({name})"
        if kind.kind == "pair":
            return f"{name}.b"
        if kind.kind == "map" and not kind.frozen:
            return f"{name}[{kind.parts[0].literal(self.random)}]"
        if kind.kind in ("list", "set", "map"):
            return f"collection_count({name})"
        if kind.kind in NUMBERS:
            return self.random.choice([f"cast({name} AS text)", f"abs({name})", f"-{name}", f"{name} + {name}"])
        if kind.kind in ("timestamp", "timeuuid"):
            return f"to_date({name})"
        return f"{name} AS renamed"

    def spoil(self, statement):
        """Something wrong: a word missing, a column unknown, a literal of another type."""
        words = statement.split(" ")
        at = self.random.randrange(len(words))
        return " ".join(words[:at] + self.random.choice([[], ["nope"], ["'x'"], ["5"]]) + words[at + 1:])

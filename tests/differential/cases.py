"""Case files: CQL statements with directives, and the answers recorded beside them.

`cases/NAME.cql` holds statements that end with `;` at the end of a line (a batch ends with
`APPLY BATCH;`). Comment lines that start with `-- @` direct the statement after them:

    -- @page N         read in pages of N rows and show where each page ended
    -- @prepare        show what preparing tells, run nothing
    -- @bind [...]     prepare, then execute with these values: JSON by type, {"hex": ".."} for raw
                       bytes, "@unset" for a value left unset
    -- @timestamp N    the request's own timestamp, in microseconds
    -- @consistency C  another consistency than ONE
    -- @serial C       the request's serial consistency
    -- @mask COLUMN    do not compare this column's values

`cases/NAME.answers` holds the answer of Apache Cassandra 5.0 to each statement as text. Each file runs
in a keyspace of its own, called `NAME`, that is made before and dropped after.
"""

import json
import pathlib
import re

import text
import wire

FOLDER = pathlib.Path(__file__).parent / "cases"
# More pages than this for one statement means that paging goes round in circles.
PAGES_MAX = 1000
REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}"


# What Cassandra warns of and Helenus does not, on purpose (docs/coding/deviations.md).
NOT_OURS = ("Materialized views are experimental and are not recommended for production use.",)


class Statement:
    def __init__(self, cql, directives=None, line=0):
        self.cql = cql
        self.directives = directives or {}
        self.line = line

    def title(self):
        """The statement on one line, with its directives, as it stands in an answers file."""
        marks = "".join(f" @{name} {value}".rstrip() for name, value in sorted(self.directives.items()))
        return " ".join(self.cql.split()) + marks


class BadCaseFile(Exception):
    pass


def load(path):
    """The statements of a case file."""
    statements, directives, lines = [], {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        stripped = line.strip()
        if not lines and (not stripped or stripped.startswith("--")):
            if stripped.startswith("-- @"):
                name, _, value = stripped[4:].partition(" ")
                directives[name] = value.strip()
            continue
        lines.append(line)
        is_batch = lines[0].lstrip().upper().startswith("BEGIN ")
        if stripped.endswith("APPLY BATCH;" if is_batch else ";"):
            cql = "\n".join(lines).strip()[:-1]
            statements.append(Statement(cql, directives, number - len(lines) + 1))
            directives, lines = {}, []
    if lines:
        raise BadCaseFile(f"{path}: the last statement does not end with ;")
    return statements


def load_answers(path):
    """The recorded (title, answer lines) pairs of an answers file."""
    answers = []
    for line in path.read_text().splitlines():
        if line.startswith("> "):
            answers.append((line[2:], []))
        elif line:
            answers[-1][1].append(line)
    return answers


def save_answers(path, answered):
    blocks = ["\n".join([f"> {title}", *lines]) for title, lines in answered]
    path.write_text("\n\n".join(blocks) + "\n")


class Session:
    """Runs statements on one server in a fresh keyspace and writes down its answers."""

    def __init__(self, address, keyspace):
        self.connection = wire.Connection(address)
        self.keyspace = keyspace

    def __enter__(self):
        self.must(f"DROP KEYSPACE IF EXISTS {self.keyspace}")
        self.must(f"CREATE KEYSPACE {self.keyspace} WITH replication = {REPLICATION}")
        self.must(f"USE {self.keyspace}")
        return self

    def __exit__(self, *_):
        try:
            self.must(f"DROP KEYSPACE IF EXISTS {self.keyspace}")
        except wire.BrokenConnection:
            pass
        self.connection.close()

    def must(self, cql):
        answer = self.connection.query(cql)
        if answer.kind == "error":
            raise wire.BrokenConnection(f"{cql}: {answer.message}")

    def answer(self, statement):
        """The answer's lines; a server that breaks off is an answer as well."""
        try:
            return self.run(statement)
        except wire.BrokenConnection as error:
            return [f"broken connection: {error}"]

    def run(self, statement):
        directives = statement.directives
        options = {"consistency": directives.get("consistency", "ONE")}
        if "serial" in directives:
            options["serial"] = directives["serial"]
        if "timestamp" in directives:
            options["timestamp"] = int(directives["timestamp"])
        page_size = int(directives["page"]) if "page" in directives else None
        if "prepare" in directives:
            return answer_lines(self.connection.prepare(statement.cql))
        if "bind" in directives:
            prepared = self.connection.prepare(statement.cql)
            if prepared.kind != "prepared":
                return answer_lines(prepared)
            options["values"] = bind(prepared.variables, json.loads(directives["bind"]))
            send = lambda **more: self.connection.execute(prepared.id, **options, **more)
        else:
            send = lambda **more: self.connection.query(statement.cql, **options, **more)
        return self.pages(send, page_size, directives.get("mask"))

    def pages(self, send, page_size, mask):
        answer = send(page_size=page_size)
        lines = answer_lines(answer, mask)
        for _ in range(PAGES_MAX):
            if answer.kind != "rows" or answer.columns.paging_state is None:
                return lines
            lines.append("page")
            answer = send(page_size=page_size, paging_state=answer.columns.paging_state)
            # The columns are told once, with the first page.
            lines += answer_lines(answer, mask)[1 if answer.kind == "rows" else 0:]
        return lines + [f"more than {PAGES_MAX} pages"]


def bind(variables, values):
    return [wire.UNSET if value == "@unset" else text.encode(spec[3], value) if position < variables.count else
            str(value).encode() for position, (spec, value) in enumerate(zip(padded(variables), values))]


def padded(variables):
    """One specification per value, also for values that the statement has no marker for."""
    yield from variables.specs
    while True:
        yield (None, None, None, (0x0D,))


def answer_lines(answer, mask=None):
    lines = [f"warning {one_line(warning)}" for warning in answer.warnings if warning not in NOT_OURS]
    if answer.kind == "rows":
        lines.append(f"columns {columns_text(answer.columns)}")
        lines += [row_text(answer.columns, row, mask) for row in answer.rows]
    elif answer.kind == "prepared":
        lines.append(f"variables {columns_text(answer.variables)}")
        lines.append(f"partition key at {answer.variables.partition_key}")
        lines.append(f"columns {columns_text(answer.columns)}")
    elif answer.kind == "schema":
        name = "" if answer.name is None else f".{answer.name}"
        arguments = "" if answer.arguments is None else f"({', '.join(answer.arguments)})"
        lines.append(f"schema {answer.change} {answer.target} {answer.keyspace}{name}{arguments}")
    elif answer.kind == "keyspace":
        lines.append(f"keyspace {answer.keyspace}")
    elif answer.kind == "error":
        details = "".join(f" {name}={value!r}" for name, value in answer.details.items())
        lines.append(f"error {answer.name}{details}: {escape(answer.message)}")
    else:
        lines.append(answer.kind)
    return lines


def columns_text(columns):
    tables = {spec[:2] for spec in columns.specs}
    if len(tables) == 1:
        keyspace, table = next(iter(tables))
        named = ", ".join(f"{name} {text.type_name(kind)}" for _, _, name, kind in columns.specs)
        return f"{named} from {keyspace}.{table}"
    return ", ".join(f"{keyspace}.{table}.{name} {text.type_name(kind)}"
                     for keyspace, table, name, kind in columns.specs) or "none"


def row_text(columns, row, mask):
    cells = ["masked" if name == mask and cell is not None else text.value_text(kind, cell)
             for (_, _, name, kind), cell in zip(columns.specs, row)]
    return "row " + " | ".join(cells)


def escape(message):
    return sort_sets(message).replace("\\", "\\\\").replace("\n", "\\n")


def sort_sets(message):
    """Cassandra names some sets in an order that changes with every start of its JVM: the overloads of a
    function, and the columns of a relation that another one contradicts."""
    message = re.sub(r"\w+( ,\w+)+", lambda found: " ,".join(sorted(found[0].split(" ,"))), message)
    return re.sub(r"(?<=signatures: ).*(?=\)(: use type casts.*)?$)", sorted_signatures, message)


def sorted_signatures(found):
    return ", ".join(sorted(re.split(r", (?=[\w.]+ : \()", found[0])))


def one_line(text):
    """A text on a line of its own."""
    return text.replace("\n", "\\u{a}")

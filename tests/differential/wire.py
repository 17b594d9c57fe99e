"""A native protocol v4 client that hides nothing: results keep the bytes and names the server sent.

Drivers convert, retry and reword; a comparison of two servers must not. Only the standard library is
used, so that recorded answers can be replayed on any machine that has a Python.
"""

import socket
import struct

ERROR, STARTUP, READY, QUERY, RESULT, PREPARE, EXECUTE = 0x00, 0x01, 0x02, 0x07, 0x08, 0x09, 0x0A
REQUEST_VERSION = 4
FLAG_TRACING, FLAG_CUSTOM_PAYLOAD, FLAG_WARNING = 0x02, 0x04, 0x08
CONSISTENCY = {
    "ANY": 0, "ONE": 1, "TWO": 2, "THREE": 3, "QUORUM": 4, "ALL": 5, "LOCAL_QUORUM": 6,
    "EACH_QUORUM": 7, "SERIAL": 8, "LOCAL_SERIAL": 9, "LOCAL_ONE": 10,
}
ERROR_NAMES = {
    0x0000: "ServerError", 0x000A: "ProtocolError", 0x0100: "BadCredentials", 0x1000: "Unavailable",
    0x1001: "Overloaded", 0x1002: "IsBootstrapping", 0x1003: "TruncateError", 0x1100: "WriteTimeout",
    0x1200: "ReadTimeout", 0x1300: "ReadFailure", 0x1400: "FunctionFailure", 0x1500: "WriteFailure",
    0x2000: "SyntaxError", 0x2100: "Unauthorized", 0x2200: "Invalid", 0x2300: "ConfigError",
    0x2400: "AlreadyExists", 0x2500: "Unprepared",
}
# Longer answers than this come from a broken server.
ANSWER_BYTES_MAX = 256 << 20
UNSET = object()


class BrokenConnection(Exception):
    """The server closed the connection, did not answer in time, or does not follow the protocol."""


class Reader:
    """A cursor over one message body that never reads past its end."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        if count < 0 or self.at + count > len(self.data):
            raise BrokenConnection(f"body of {len(self.data)} bytes ends within {count} bytes at {self.at}")
        self.at += count
        return self.data[self.at - count:self.at]

    def byte(self):
        return self.take(1)[0]

    def short(self):
        return struct.unpack(">H", self.take(2))[0]

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def string(self):
        return self.take(self.short()).decode()

    def strings(self):
        return [self.string() for _ in range(self.short())]

    def bytes(self):
        length = self.int()
        return None if length < 0 else self.take(length)

    def short_bytes(self):
        return self.take(self.short())

    def type(self):
        """A type as nested tuples: (option id, details...)."""
        kind = self.short()
        if kind == 0x00:
            return (kind, self.string())
        if kind in (0x20, 0x22):
            return (kind, self.type())
        if kind == 0x21:
            return (kind, self.type(), self.type())
        if kind == 0x30:
            keyspace, name = self.string(), self.string()
            return (kind, keyspace, name, tuple((self.string(), self.type()) for _ in range(self.short())))
        if kind == 0x31:
            return (kind,) + tuple(self.type() for _ in range(self.short()))
        return (kind,)


class Columns:
    """Column specifications: (keyspace, table, name, type) each, and the flags they came with."""

    def __init__(self, reader, prepared=False):
        self.flags = reader.int()
        count = reader.int()
        self.partition_key = [reader.short() for _ in range(reader.int())] if prepared else None
        self.paging_state = reader.bytes() if self.flags & 2 and not prepared else None
        self.specs = []
        if self.flags & 4:
            self.count = count
            return
        self.count = count
        table = (reader.string(), reader.string()) if self.flags & 1 else None
        for _ in range(count):
            keyspace, name = table or (reader.string(), reader.string())
            self.specs.append((keyspace, name, reader.string(), reader.type()))


class Answer:
    """One decoded response. `kind` is void, rows, keyspace, prepared, schema or error."""

    def __init__(self, kind, warnings, **details):
        self.kind = kind
        self.warnings = warnings
        self.__dict__.update(details)


class Connection:
    """One connection, one request at a time."""

    def __init__(self, address, timeout=60):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opcode, _, _ = self.exchange(STARTUP, struct.pack(">H", 1) + string("CQL_VERSION") + string("3.0.0"))
        if opcode != READY:
            raise BrokenConnection(f"STARTUP answered with opcode {opcode}")

    def close(self):
        self.socket.close()

    def query(self, statement, **parameters):
        text = statement.encode()
        return self.request(QUERY, struct.pack(">i", len(text)) + text + query_parameters(**parameters))

    def prepare(self, statement):
        text = statement.encode()
        return self.request(PREPARE, struct.pack(">i", len(text)) + text)

    def execute(self, statement_id, **parameters):
        prefix = struct.pack(">H", len(statement_id)) + statement_id
        return self.request(EXECUTE, prefix + query_parameters(**parameters))

    def request(self, opcode, body):
        opcode, warnings, reader = self.exchange(opcode, body)
        answer = decode(opcode, warnings, reader)
        if reader.at != len(reader.data):
            raise BrokenConnection(f"{len(reader.data) - reader.at} bytes left over after {answer.kind}")
        return answer

    def exchange(self, opcode, body):
        try:
            self.socket.sendall(struct.pack(">BBhBi", REQUEST_VERSION, 0, 0, opcode, len(body)) + body)
            version, flags, _, opcode, length = struct.unpack(">BBhBi", self.receive(9))
            if version != 0x80 | REQUEST_VERSION or length > ANSWER_BYTES_MAX:
                raise BrokenConnection(f"header with version {version:#x} and length {length}")
            reader = Reader(self.receive(length))
        except OSError as error:
            raise BrokenConnection(str(error)) from error
        if flags & FLAG_TRACING:
            reader.take(16)
        warnings = reader.strings() if flags & FLAG_WARNING else []
        if flags & FLAG_CUSTOM_PAYLOAD:
            for _ in range(reader.short()):
                reader.string(), reader.bytes()
        return opcode, warnings, reader

    def receive(self, count):
        chunks = bytearray()
        while len(chunks) < count:
            chunk = self.socket.recv(min(count - len(chunks), 1 << 20))
            if not chunk:
                raise BrokenConnection("the server closed the connection")
            chunks += chunk
        return bytes(chunks)


def string(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def query_parameters(values=None, page_size=None, paging_state=None, consistency="ONE", serial=None, timestamp=None):
    flags, tail = 0, b""
    if values is not None:
        flags |= 0x01
        tail += struct.pack(">H", len(values)) + b"".join(map(value, values))
    if page_size is not None:
        flags |= 0x04
        tail += struct.pack(">i", page_size)
    if paging_state is not None:
        flags |= 0x08
        tail += struct.pack(">i", len(paging_state)) + paging_state
    if serial is not None:
        flags |= 0x10
        tail += struct.pack(">H", CONSISTENCY[serial])
    if timestamp is not None:
        flags |= 0x20
        tail += struct.pack(">q", timestamp)
    return struct.pack(">HB", CONSISTENCY[consistency], flags) + tail


def value(data):
    if data is UNSET:
        return struct.pack(">i", -2)
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def decode(opcode, warnings, reader):
    if opcode == ERROR:
        return decode_error(warnings, reader)
    if opcode != RESULT:
        raise BrokenConnection(f"unexpected opcode {opcode:#x}")
    kind = reader.int()
    if kind == 1:
        return Answer("void", warnings)
    if kind == 2:
        columns = Columns(reader)
        rows = [[reader.bytes() for _ in range(columns.count)] for _ in range(reader.int())]
        return Answer("rows", warnings, columns=columns, rows=rows)
    if kind == 3:
        return Answer("keyspace", warnings, keyspace=reader.string())
    if kind == 4:
        statement_id = reader.short_bytes()
        return Answer("prepared", warnings, id=statement_id, variables=Columns(reader, prepared=True),
                      columns=Columns(reader))
    if kind == 5:
        change, target, keyspace = reader.string(), reader.string(), reader.string()
        name = None if target == "KEYSPACE" else reader.string()
        arguments = reader.strings() if target in ("FUNCTION", "AGGREGATE") else None
        return Answer("schema", warnings, change=change, target=target, keyspace=keyspace, name=name,
                      arguments=arguments)
    raise BrokenConnection(f"unexpected result kind {kind}")


def decode_error(warnings, reader):
    code, message = reader.int(), reader.string()
    # What follows the message depends on the code; keep it as named details.
    details = {}
    if code == 0x2400:
        details = {"keyspace": reader.string(), "table": reader.string()}
    elif code == 0x2500:
        details = {"id": reader.short_bytes().hex()}
    elif code == 0x1400:
        details = {"keyspace": reader.string(), "function": reader.string(), "arguments": reader.strings()}
    elif code == 0x1000:
        details = {"consistency": reader.short(), "required": reader.int(), "alive": reader.int()}
    else:
        reader.take(len(reader.data) - reader.at)
    return Answer("error", warnings, code=code, name=ERROR_NAMES.get(code, f"{code:#06x}"), message=message,
                  details=details)

#!/usr/bin/env python3
"""Records what a real Cassandra answers to the statements of a golden file.

usage: record.py HOST[:PORT] FILE...

A golden file is a list of blocks separated by empty lines: `> statement`, then the answer; the lines of a text of many
lines begin with `| `. The answers are replaced by what the node at HOST says; it should be a fresh one with the default
configuration. Needs nothing but the standard library.
"""

import socket
import struct
import sys


class Connection:
    """One connection that speaks version 4 of the native protocol, one request at a time."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=60)
        self.request(0x01, struct.pack(">H", 1) + string("CQL_VERSION") + string("3.0.0"))

    def query(self, statement):
        body = statement.encode()
        return self.request(0x07, struct.pack(">I", len(body)) + body + struct.pack(">HB", 1, 0))

    def request(self, opcode, body):
        self.socket.sendall(struct.pack(">BBhBI", 4, 0, 0, opcode, len(body)) + body)
        _, flags, _, opcode, length = struct.unpack(">BBhBI", self.read(9))
        reader = Reader(self.read(length))
        warnings = [reader.string() for _ in range(reader.number(">H"))] if flags & 8 else []
        return opcode, warnings, reader

    def read(self, count):
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise EOFError("the node closed the connection")
            data += chunk
        return data


class Reader:
    def __init__(self, data):
        self.data = data

    def take(self, count):
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def number(self, layout):
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def string(self):
        return self.take(self.number(">H")).decode()

    def value(self):
        length = self.number(">i")
        return None if length < 0 else self.take(length)

    def type(self):
        code = self.number(">H")
        if code in (0x20, 0x22):
            return (code, self.type())
        if code == 0x21:
            return (code, self.type(), self.type())
        if code == 0x31:
            return (code, [self.type() for _ in range(self.number(">H"))])
        if code == 0:
            return (code, self.string())
        return (code,)

    def rows(self):
        flags, count = self.number(">I"), self.number(">I")
        if flags & 1:
            self.string(), self.string()
        columns = []
        for _ in range(count):
            if not flags & 1:
                self.string(), self.string()
            columns.append((self.string(), self.type()))
        rows = [[self.value() for _ in columns] for _ in range(self.number(">I"))]
        return columns, rows


def string(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def text_of(value, kind):
    """A value as the golden files print it."""
    if value is None:
        return "null"
    code = kind[0]
    if code in (0x01, 0x0A, 0x0D):
        text = value.decode()
        return "\n| " + text.replace("\n", "\n| ") if "\n" in text else text
    if code == 0x04:
        return "true" if value[0] else "false"
    if code in (0x09, 0x14, 0x13, 0x02, 0x0B):
        return str(int.from_bytes(value, "big", signed=True))
    if code == 0x07:
        return repr(struct.unpack(">d", value)[0])
    if code in (0x0C, 0x0F):
        return "-".join(value.hex()[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
    if code == 0x10:
        return socket.inet_ntoa(value)
    if code in (0x20, 0x21, 0x22):
        reader, items = Reader(value), []
        for _ in range(reader.number(">i")):
            item = text_of(reader.value(), kind[1])
            items.append(item + ": " + text_of(reader.value(), kind[2]) if code == 0x21 else item)
        return ("[%s]" if code == 0x20 else "{%s}") % ", ".join(items)
    return "0x" + value.hex()


def answer(connection, statement):
    """The lines a golden file holds for this statement."""
    opcode, warnings, body = connection.query(statement)
    lines = ["warning " + warning for warning in warnings]
    if opcode == 0x00:
        return lines + ["error 0x%04X %s" % (body.number(">I"), body.string())]
    kind = body.number(">I")
    if kind == 5:
        change, target, names = body.string(), body.string(), [body.string()]
        if target != "KEYSPACE":
            names.append(body.string())
        return lines + ["%s %s %s" % (change, target, ".".join(names))]
    if kind == 2:
        columns, rows = body.rows()
        for row in rows:
            cells = (name + " " + text_of(value, kind) for value, (name, kind) in zip(row, columns))
            lines.append("row " + " | ".join(cells))
        return lines + ["rows %d" % len(rows)]
    return lines + ["void" if kind == 1 else "keyspace " + body.string()]


def record(connection, path):
    lines = []
    for block in open(path).read().strip().split("\n\n"):
        first = block.split("\n")[0]
        lines.append(block if first.startswith("#") else "\n".join([first] + answer(connection, first[2:])))
    open(path, "w").write("\n\n".join(lines) + "\n")


if __name__ == "__main__":
    host, _, port = sys.argv[1].partition(":")
    for file in sys.argv[2:]:
        record(Connection(host, int(port or 9042)), file)

"""Types and values as text, one text per different bytes, so that comparing text compares bytes."""

import datetime
import decimal
import ipaddress
import struct
import uuid

NATIVE = {
    0x01: "ascii", 0x02: "bigint", 0x03: "blob", 0x04: "boolean", 0x05: "counter", 0x06: "decimal",
    0x07: "double", 0x08: "float", 0x09: "int", 0x0B: "timestamp", 0x0C: "uuid", 0x0D: "varchar",
    0x0E: "varint", 0x0F: "timeuuid", 0x10: "inet", 0x11: "date", 0x12: "time", 0x13: "smallint",
    0x14: "tinyint", 0x15: "duration",
}
# Classes inside the name of a vector's type, which protocol v4 sends as a custom type.
CLASSES = {
    "AsciiType": 0x01, "LongType": 0x02, "BytesType": 0x03, "BooleanType": 0x04, "DecimalType": 0x06,
    "DoubleType": 0x07, "FloatType": 0x08, "Int32Type": 0x09, "TimestampType": 0x0B, "UUIDType": 0x0C,
    "UTF8Type": 0x0D, "IntegerType": 0x0E, "TimeUUIDType": 0x0F, "InetAddressType": 0x10,
    "SimpleDateType": 0x11, "TimeType": 0x12, "ShortType": 0x13, "ByteType": 0x14, "DurationType": 0x15,
}
# Elements whose bytes are all of one length stand in a vector without length prefixes. Cassandra counts
# only these as such; the others, although as long in practice, carry a length.
FIXED_LENGTHS = {0x02: 8, 0x04: 1, 0x07: 8, 0x08: 4, 0x09: 4, 0x0B: 8, 0x0C: 16, 0x0F: 16}
# The largest finite 32-bit float; rounding its text up may pass it.
FLOAT_MAX = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0]
VECTOR = "org.apache.cassandra.db.marshal.VectorType("


class Malformed(Exception):
    """Bytes that are no value of their type."""


def type_name(kind):
    option = kind[0]
    if option == 0x00:
        return f"custom '{kind[1]}'"
    if option == 0x20:
        return f"list<{type_name(kind[1])}>"
    if option == 0x21:
        return f"map<{type_name(kind[1])}, {type_name(kind[2])}>"
    if option == 0x22:
        return f"set<{type_name(kind[1])}>"
    if option == 0x30:
        fields = ", ".join(f"{name} {type_name(field)}" for name, field in kind[3])
        return f"udt {kind[1]}.{kind[2]}<{fields}>"
    if option == 0x31:
        return f"tuple<{', '.join(map(type_name, kind[1:]))}>"
    return NATIVE.get(option, f"unknown {option:#x}")


def value_text(kind, data):
    """The text of a cell; bytes that do not fit their type are told as such instead of failing."""
    if data is None:
        return "null"
    if data == b"" and kind[0] not in (0x01, 0x03, 0x0D):
        return "empty"
    try:
        return decode(kind, data)
    except (Malformed, ValueError, struct.error, OverflowError, IndexError) as error:
        return f"malformed 0x{data.hex()} ({error})"


def decode(kind, data):
    option = kind[0]
    if option in (0x20, 0x22):
        elements = sequence(data, read_count(data), [kind[1]])
        return ("[%s]" if option == 0x20 else "{%s}") % ", ".join(elements)
    if option == 0x21:
        flat = sequence(data, 2 * read_count(data), [kind[1], kind[2]])
        return "{%s}" % ", ".join(f"{key}: {value}" for key, value in zip(flat[::2], flat[1::2]))
    if option == 0x30:
        fields = components(data, [field for _, field in kind[3]])
        return "{%s}" % ", ".join(f"{name}: {text}" for (name, _), text in zip(kind[3], fields))
    if option == 0x31:
        return f"({', '.join(components(data, kind[1:]))})"
    if option == 0x00:
        return decode_custom(kind[1], data)
    return DECODERS[option](data)


def read_count(data):
    return struct.unpack(">i", data[:4])[0]


def sequence(data, count, kinds):
    texts, at = [], 4
    for index in range(count):
        text, at = component(data, at, kinds[index % len(kinds)])
        texts.append(text)
    require(at == len(data), "bytes left over")
    return texts


def components(data, kinds):
    """Tuple and user type fields; those at the end may be missing altogether."""
    texts, at = [], 0
    for kind in kinds:
        if at == len(data):
            break
        text, at = component(data, at, kind)
        texts.append(text)
    require(at == len(data), "bytes left over")
    return texts


def component(data, at, kind):
    length = struct.unpack(">i", data[at:at + 4])[0]
    at += 4
    if length < 0:
        return "null", at
    require(at + length <= len(data), "ends early")
    return value_text(kind, data[at:at + length]), at + length


def decode_custom(class_name, data):
    if not class_name.startswith(VECTOR):
        return f"0x{data.hex()}"
    inner, _, dimension = class_name[len(VECTOR):-1].rpartition(",")
    element = CLASSES.get(inner.strip().rsplit(".", 1)[-1])
    if element is None:
        return f"0x{data.hex()}"
    texts, at = [], 0
    for _ in range(int(dimension)):
        length, at = (FIXED_LENGTHS[element], at) if element in FIXED_LENGTHS else unsigned_vint(data, at)
        require(at + length <= len(data), "ends early")
        texts.append(value_text((element,), data[at:at + length]))
        at += length
    require(at == len(data), "bytes left over")
    return f"[{', '.join(texts)}]"


def unsigned_vint(data, at):
    first = data[at]
    extra = 8 - (~first & 0xFF).bit_length() if first != 0xFF else 8
    value = first & (0xFF >> extra) if extra < 8 else 0
    for byte in data[at + 1:at + 1 + extra]:
        value = value << 8 | byte
    return value, at + 1 + extra


def require(condition, reason):
    if not condition:
        raise Malformed(reason)


def integer(size):
    def read(data):
        require(len(data) == size, f"length is not {size}")
        return str(int.from_bytes(data, "big", signed=True))
    return read


def varint(data):
    value = int.from_bytes(data, "big", signed=True)
    require(data == varint_bytes(value), "not the shortest form")
    return str(value)


def varint_bytes(value):
    length = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return value.to_bytes(length, "big", signed=True)


def decimal_text(data):
    scale = struct.unpack(">i", data[:4])[0]
    unscaled = int(varint(data[4:]))
    return str(decimal.Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)))


def floating(form):
    def read(data):
        number = struct.unpack(form, data)[0]
        if number != number:
            require(data.hex().rstrip("0") in ("7fc", "7ff8"), "unusual NaN")
            return "NaN"
        if form == ">d" or number in (float("inf"), float("-inf")):
            return repr(number)
        # The shortest text that is this float again.
        for digits in range(1, 18):
            rounded = float(f"{number:.{digits}g}")
            if abs(rounded) <= FLOAT_MAX and struct.pack(form, rounded) == data:
                return repr(rounded)
        raise Malformed("no text for this float")
    return read


def text(data):
    escaped = data.decode().replace("\\", "\\\\").replace("'", "''")
    return "'%s'" % "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in escaped)


def boolean(data):
    require(data in (b"\0", b"\1"), "neither 0 nor 1")
    return "true" if data == b"\1" else "false"


def timestamp(data):
    milliseconds = int(integer(8)(data))
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03}Z"


def date(data):
    days = struct.unpack(">I", data)[0] - (1 << 31)
    try:
        return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=days))
    except OverflowError:
        return f"{days} days"


def time(data):
    nanoseconds = int(integer(8)(data))
    seconds, fraction = divmod(nanoseconds, 10 ** 9)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:09}"


def duration(data):
    parts, at = [], 0
    for _ in range(3):
        zigzag, at = unsigned_vint(data, at)
        parts.append((zigzag >> 1) ^ -(zigzag & 1))
    require(at == len(data), "bytes left over")
    return "%dmo%dd%dns" % tuple(parts)


DECODERS = {
    0x01: text, 0x02: integer(8), 0x03: lambda data: f"0x{data.hex()}", 0x04: boolean, 0x05: integer(8),
    0x06: decimal_text, 0x07: floating(">d"), 0x08: floating(">f"), 0x09: integer(4), 0x0B: timestamp,
    0x0C: lambda data: str(uuid.UUID(bytes=data)), 0x0D: text, 0x0E: varint,
    0x0F: lambda data: str(uuid.UUID(bytes=data)), 0x10: lambda data: str(ipaddress.ip_address(data)),
    0x11: date, 0x12: time, 0x13: integer(2), 0x14: integer(1), 0x15: duration,
}


def encode(kind, value):
    """Bytes of a value written as JSON; {"hex": "..."} stands for the bytes themselves."""
    if value is None:
        return None
    option = kind[0]
    if isinstance(value, dict) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    if option in (0x01, 0x0D):
        return value.encode()
    if option in (0x02, 0x05, 0x0B, 0x12):
        return struct.pack(">q", value)
    if option == 0x09:
        return struct.pack(">i", value)
    if option == 0x13:
        return struct.pack(">h", value)
    if option == 0x14:
        return struct.pack(">b", value)
    if option == 0x0E:
        return varint_bytes(value)
    if option == 0x04:
        return b"\1" if value else b"\0"
    if option == 0x07:
        return struct.pack(">d", value)
    if option == 0x08:
        return struct.pack(">f", value)
    if option in (0x0C, 0x0F):
        return uuid.UUID(value).bytes
    if option in (0x20, 0x22):
        return struct.pack(">i", len(value)) + b"".join(prefixed(kind[1], item) for item in value)
    if option == 0x21:
        pairs = b"".join(prefixed(kind[1], key) + prefixed(kind[2], item) for key, item in value)
        return struct.pack(">i", len(value)) + pairs
    if option == 0x30:
        return b"".join(prefixed(field, item) for (_, field), item in zip(kind[3], value))
    if option == 0x31:
        return b"".join(prefixed(field, item) for field, item in zip(kind[1:], value))
    raise ValueError(f"write values of {type_name(kind)} as hex")


def prefixed(kind, value):
    data = encode(kind, value)
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

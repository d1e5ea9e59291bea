"""Encodes Protobuf's wire format (https://protobuf.dev/programming-guides/encoding) without message classes."""


def varint(number: int) -> bytes:
    """Returns a number from 0 to 2**64 - 1 in groups of seven bits, the lowest first."""
    if number < 128:
        return bytes((number,))
    if number < 16384:
        return bytes((number & 127 | 128, number >> 7))
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def delimited(field: int, *content: bytes) -> bytes:
    """Returns a field that holds bytes: text, a message or packed numbers."""
    return b"".join((varint(field << 3 | 2), varint(sum(map(len, content))), *content))

"""Protobuf messages as Lance stores them, read and written field by field."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from omnigraph.errors import StorageError

_LONGEST_VARINT: Final = 10


class MessageField(NamedTuple):
    """A field of a message: its number, its value, and the bytes that stand for both."""

    number: int
    value: int | bytes
    raw: bytes


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The (number, value) pairs of a message; a value cut off at the end is shortened."""
    return ((number, value) for number, value, _ in raw_fields(message))


def raw_fields(message: bytes) -> Iterator[MessageField]:
    """The fields of a message with their own bytes, so that a message can be put together again."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _read_varint(message, at)
            case 1:
                value, at = message[at : at + 8], at + 8
            case 2:
                length, at = _read_varint(message, at)
                value, at = message[at : at + length], at + length
            case 5:
                value, at = message[at : at + 4], at + 4
            case _:
                raise _unreadable()
        yield MessageField(tag >> 3, value, message[start:at])


def last_values(message: bytes, numbers: Container[int]) -> dict[int, int | bytes]:
    """The last value of each of some fields. All others, which may be many, are passed over."""
    found: dict[int, int | bytes] = {}
    at, end = 0, len(message)
    while at < end:
        tag, at = (message[at], at + 1) if message[at] < 0x80 else _read_varint(message, at)
        match tag & 7:
            case 0:
                value, at = _read_varint(message, at)
                if tag >> 3 in numbers:
                    found[tag >> 3] = value
                continue
            case 1:
                length = 8
            case 2:
                length, at = _read_varint(message, at)
            case 5:
                length = 4
            case _:
                raise _unreadable()
        if tag >> 3 in numbers:
            found[tag >> 3] = message[at : at + length]
        at += length
    return found


def number_field(number: int, value: int) -> bytes:
    """A field of a message that holds a number."""
    return _varint(number << 3) + _varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """A field of a message that holds bytes or another message."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    if at < len(message) and message[at] < 0x80:
        return message[at], at + 1
    value = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    if at + _LONGEST_VARINT <= len(message):
        raise _unreadable()
    return value, len(message)


def _unreadable() -> StorageError:
    return StorageError("a Lance manifest or transaction is not readable protobuf")

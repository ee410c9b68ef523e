"""Messages of protobuf, field by field."""

from __future__ import annotations

import random

import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.lance_format.protobuf import (
    bytes_field,
    last_values,
    number_field,
    raw_fields,
    read_fields,
)


def some_message(chance):
    """Fields of all kinds, some of them several times, with numbers of one byte and of several."""

    def one():
        number = chance.choice([1, 2, 15, 16, 300])
        match chance.randrange(4):
            case 0:
                return number_field(number, chance.choice([0, 1, 127, 128, 2**63]))
            case 1:
                return fixed_field(number, 1, chance.randbytes(8))
            case 2:
                return fixed_field(number, 5, chance.randbytes(4))
            case _:
                return bytes_field(number, chance.randbytes(chance.choice([0, 1, 200])))

    return b"".join(one() for _ in range(chance.randrange(8)))


def fixed_field(number, kind, value):
    """A field of a fixed number of bytes."""
    head = bytearray(number_field(number, 0)[:-1])
    head[0] |= kind
    return bytes(head) + value


@pytest.mark.parametrize("number", range(50))
def test_last_values_are_those_of_all_fields(number):
    chance = random.Random(number)
    whole = some_message(chance)
    for cut in {len(whole), *(chance.randrange(len(whole) + 1) for _ in range(20))}:
        message = whole[:cut]
        fields = dict(read_fields(message))
        wanted = {2, 16, 300, 7}
        assert last_values(message, wanted) == {
            at: value for at, value in fields.items() if at in wanted
        }
        assert b"".join(field.raw for field in raw_fields(message)) == message


@pytest.mark.parametrize("message", [b"\x0b", b"\xff" * 11, b"\x08" + b"\x80" * 10])
def test_what_is_no_message_is_refused(message):
    with pytest.raises(StorageError, match="protobuf"):
        last_values(message, {1})
    with pytest.raises(StorageError, match="protobuf"):
        list(raw_fields(message))

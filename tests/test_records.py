"""Records behave as the dataclasses they stand for."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
from dataclasses import field

import pytest

from omnigraph import records


@records.dataclass(frozen=True, slots=True)
class Point:
    """A record."""

    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list)
    place: str = field(default="here", compare=False, repr=False)


@records.dataclass(frozen=True, slots=True)
class Deep(Point):
    """A record with a field more."""

    z: int = 3
    doubled: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.z < 0:
            raise ValueError(self.z)
        object.__setattr__(self, "doubled", 2 * self.z)


@records.dataclass(frozen=True, slots=True)
class Nothing:
    """A record without fields."""


@records.dataclass(frozen=True, slots=True)
class One:
    """A record with one field."""

    value: object


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """What `Point` stands for."""

    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list)
    place: str = field(default="here", compare=False, repr=False)


def test_values_and_defaults():
    point = Point(1, tags=["a"])
    assert (point.x, point.y, point.tags, point.place) == (1, 0.5, ["a"], "here")
    assert Point(1).tags is not Point(1).tags
    assert (Deep(1, z=4).z, Deep(1, z=4).doubled) == (4, 8)
    with pytest.raises(ValueError, match="-1"):
        Deep(1, z=-1)
    with pytest.raises(TypeError):
        Point()
    with pytest.raises(TypeError):
        Point(1, colour="red")


def test_equality_and_hash():
    assert Point(1) == Point(1, place="there")
    assert Point(1) != Point(2)
    assert Point(1) != Deep(1)
    assert Point(1) != Standard(1)
    assert One(1) != Nothing()
    assert Nothing() == Nothing()
    assert hash(One(1)) == hash(One(1))
    assert len({One(1), One(1), One(2), Nothing(), Nothing()}) == 3
    # As in a tuple, a value equals itself.
    assert One(math.nan) == One(math.nan)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_shown_as_the_standard_one_is():
    assert repr(Point(1)) == repr(Standard(1)).replace("Standard", "Point")
    assert repr(Nothing()) == "Nothing()"


def test_nothing_can_be_changed():
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.other = 2
    assert not hasattr(point, "__dict__")


def test_the_tools_for_dataclasses_take_it():
    point = Deep(1, 2.0, ["a"])
    assert dataclasses.replace(point, x=5) == Deep(5, 2.0, ["a"])
    shown = {"x": 1, "y": 2.0, "tags": ["a"], "place": "here", "z": 3, "doubled": 6}
    assert dataclasses.asdict(point) == shown
    assert [one.name for one in dataclasses.fields(Point)] == ["x", "y", "tags", "place"]
    names = list(inspect.signature(Standard).parameters)
    assert list(inspect.signature(Point).parameters) == names
    match point:
        case Deep(x, _, _):
            assert x == 1


def test_copies():
    point = Deep(1, 2.0, ["a"], "there", 7)
    for made in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert made == point
        assert made.place == "there"

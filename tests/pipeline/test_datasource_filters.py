"""Filters that Spark hands over, without Spark: pushed ones keep exactly the rows that Spark would keep."""

import datetime as dt
import decimal
import math
import pickle
import random

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.graph.graph import state_of
from omnigraph.graph.reads import resolve
from omnigraph.pipeline.datasource.filters import AskedFilter, push_filters
from omnigraph.pipeline.datasource.options import find_type, read_options
from omnigraph.pipeline.datasource.read import pin_source, plan_partitions, read_fragments
from tests.opened import workspace_of

SCHEMA = """
node Thing {
    n: I64 @key
    text: String? @index
    mood: enum(good, bad)?
    flag: Bool?
    small: I32? @index
    large: I64?
    unsigned: U32?
    widest: U64?
    single: F32?
    double: F64? @index
    day: Date?
    moment: DateTime? @index
    words: [String]?
    vector: Vector(2)?
    body: Blob?
}
"""
NAN = math.nan
AT = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
MS = dt.timedelta(milliseconds=1)

# What rows hold, and what filters compare it with besides: values that no row could hold, too.
VALUES = {
    "text": (["", "a", "ab", "A", "é", "z\U0001f600", "it's"], ["b", "\uffff"]),
    "mood": (["good", "bad"], ["worse"]),
    "flag": ([True, False], []),
    "small": ([-(2**31), -1, 0, 1, 2**31 - 1], [7]),
    "large": ([-(2**63), -1, 0, 3, 2**63 - 1], [7]),
    "unsigned": ([0, 1, 2**32 - 1], [-1, 2**40]),
    "widest": ([0, 1, 2**63, 2**64 - 1], [decimal.Decimal(-1), decimal.Decimal(2**65)]),
    "single": ([-0.0, 0.0, 0.5, -(2.0**100)], [1.25, math.inf]),
    "double": ([-0.0, 0.0, 0.1, -1e300], [1e-300, -math.inf]),
    "day": ([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)], [dt.date(9999, 1, 1)]),
    "moment": ([AT, AT + MS, AT - 1000 * MS], [AT + MS / 2, AT - MS / 1000, AT + 5 * MS]),
}
ROWS = 60


@pytest.fixture(scope="module")
def stored():
    """The values of each column, by row."""
    made = random.Random(5)
    columns = {
        name: [made.choice([None, *held]) for _ in range(ROWS)]
        for name, (held, _) in VALUES.items()
    }
    return {"n": list(range(ROWS)), **columns}


@pytest.fixture(scope="module")
def source(stored, tmp_path_factory):
    """A fragment of which rows were deleted, covered by indexes, and one that is not."""
    with og.init(tmp_path_factory.mktemp("filters") / "g", SCHEMA) as graph:
        table = pa.table(
            {
                **{
                    name: pa.array(values, pa.uint64() if name == "widest" else None)
                    for name, values in stored.items()
                },
                "words": [["a"]] * ROWS,
                "body": [b"x"] * ROWS,
            }
        )
        gone = pa.table({"n": range(1000, 1005)})
        first = pa.concat_tables([gone, table.slice(0, 40)], promote_options="default")
        graph.load_nodes("Thing", first, mode="append")
        graph.mutate("query q() { delete Thing where n >= 1000 }")
        graph.ensure_indices()
        graph.load_nodes("Thing", table.slice(40), mode="append")
        asked = read_options({"graph": graph.uri, "type": "Thing"})
        snapshot, catalog = resolve(state_of(graph), asked.target)
        entity = find_type(catalog, asked.type)
        yield pin_source(workspace_of(graph), snapshot, catalog, entity, asked)


def read(source, max_rows=10**6):
    source = pickle.loads(pickle.dumps(source))
    schema = pa.schema({"n": pa.int64()})
    return sorted(
        number
        for piece in plan_partitions(source, max_rows)
        for batch in read_fragments(source, ["n"], schema, piece)
        for number in batch["n"].to_pylist()
    )


def key(value):
    """What orders values as Spark does: text by its bytes."""
    return value.encode() if isinstance(value, str) else value


TESTS = {
    "EqualTo": lambda held, value: key(held) == key(value),
    "LessThan": lambda held, value: key(held) < key(value),
    "LessThanOrEqual": lambda held, value: key(held) <= key(value),
    "GreaterThan": lambda held, value: key(held) > key(value),
    "GreaterThanOrEqual": lambda held, value: key(held) >= key(value),
    "In": lambda held, value: any(key(held) == key(one) for one in value if one is not None),
    "StringStartsWith": lambda held, value: held.startswith(value),
}


def holds(asked, held):
    """Whether Spark keeps a row with this value: what is null is not kept."""
    if asked.name in {"IsNull", "IsNotNull"}:
        return (held is None) == (asked.name == "IsNull")
    return held is not None and TESTS[asked.name](held, asked.value) is not asked.negated


def random_filter(made):
    column = made.choice(list(VALUES))
    values = [value for held in VALUES[column] for value in held]
    name = made.choice([*TESTS, "IsNull", "IsNotNull"])
    if name == "StringStartsWith" and column not in {"text", "mood"}:
        name = "EqualTo"
    if name in {"IsNull", "IsNotNull"}:
        return AskedFilter(name, (column,))
    negated = name in {"EqualTo", "In"} and made.random() < 0.4
    if name == "In":
        some = made.sample(values, made.randint(1, len(values)))
        if not negated and made.random() < 0.3:
            some.append(None)
        return AskedFilter(name, (column,), tuple(some), negated)
    return AskedFilter(name, (column,), made.choice(values), negated)


@pytest.mark.parametrize("seed", range(4))
def test_random_filters_keep_the_rows_that_spark_keeps(source, stored, seed):
    made = random.Random(seed)
    for _ in range(60):
        asked = [random_filter(made) for _ in range(made.randint(1, 3))]
        pushed, taken = push_filters(source, asked)
        assert all(taken), asked
        expected = [
            number
            for number in range(ROWS)
            if all(holds(one, stored[one.path[0]][number]) for one in asked)
        ]
        max_rows = made.choice([10**6, 7])
        assert read(pushed, max_rows) == expected, asked


LEFT = [
    AskedFilter("EqualTo", ("double",), NAN),
    AskedFilter("GreaterThan", ("single",), NAN),
    AskedFilter("In", ("double",), (1.0, NAN)),
    AskedFilter("EqualTo", ("double",), None),
    AskedFilter("EqualNullSafe", ("small",), 1),
    AskedFilter("In", ("small",), (1, None), negated=True),
    AskedFilter("In", ("small",), tuple(range(500)), negated=True),
    AskedFilter("LessThan", ("small",), 1, negated=True),
    AskedFilter("StringEndsWith", ("text",), "b"),
    AskedFilter("StringContains", ("text",), "b"),
    AskedFilter("EqualTo", ("words",), ["a"]),
    AskedFilter("IsNull", ("vector",)),
    AskedFilter("IsNotNull", ("body",)),
    AskedFilter("EqualTo", ("words", "x"), 1),
    AskedFilter("EqualTo", ("nothing",), 1),
    AskedFilter("EqualTo", ("small",), True),
    AskedFilter("EqualTo", ("widest",), decimal.Decimal("1.5")),
    AskedFilter("EqualTo", ("moment",), AT.replace(tzinfo=None)),
]


def test_what_cannot_be_told_exactly_is_left_to_spark(source):
    small = AskedFilter("IsNotNull", ("small",))
    pushed, taken = push_filters(source, [*LEFT, small])
    assert taken == [False] * len(LEFT) + [True]
    assert pushed == push_filters(source, [small])[0]


def test_pieces_of_a_large_fragment_are_all_of_its_rows(source):
    """Deleted rows count in places, but not in sizes."""
    pieces = plan_partitions(source, 7)
    assert [piece.fragment_ids for piece in pieces] == [(0,)] * 6 + [(1,)] * 3
    assert read(source, 7) == read(source, 1) == read(source) == list(range(ROWS))
    assert read(source, 40) == list(range(ROWS))
    assert len(plan_partitions(source, 40)) == 2
    assert len(plan_partitions(source, ROWS)) == 1

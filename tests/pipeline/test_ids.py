"""Ids of incoming rows: the same on every evaluation, and what an explicit one may say."""

from itertools import pairwise

import pyarrow as pa
import pytest
from ulid import ULID

import omnigraph as og
from omnigraph.pipeline.formats.json_lines import read_block
from omnigraph.pipeline.formats.typed_batch import batch_schema, place_of
from omnigraph.pipeline.rows.ids import derive_ids, id_aliases, make_ids
from tests.pipeline.read_helpers import block_of

STARTED = 1_700_000_000_123


def ids_of(schema, *records, source=0, offset=0, operation="op"):
    catalog = og.parse_schema(schema).catalog
    parsed = read_block(catalog, block_of(*records, source=source, offset=offset))
    assert parsed.bad.num_rows == 0
    ((key, batch),) = parsed.batches
    entities = [*catalog.nodes.values(), *catalog.edges.values()]
    (entity,) = (entity for entity in entities if entity.table_key == key)
    ids, bad = derive_ids(entity, batch, operation, STARTED)
    return ids.to_pylist(), bad.to_pylist(), id_aliases(entity, batch, ids)


def node(**data):
    return {"type": "T", "data": data}


def places(source, offsets):
    size = len(offsets)
    return pa.array([source] * size, pa.int32()), pa.array(offsets, pa.int64())


class TestMade:
    def test_the_time_is_the_operations_start(self):
        (text,) = make_ids(*places(0, [0]), "op", STARTED).to_pylist()
        assert ULID.from_str(text).milliseconds == STARTED

    def test_a_later_operation_sorts_after(self):
        early = make_ids(*places(0, range(100)), "op", STARTED).to_pylist()
        late = make_ids(*places(0, range(100)), "op", STARTED + 1).to_pylist()
        assert max(early) < min(late)

    def test_it_depends_on_operation_source_and_offset_and_on_nothing_else(self):
        once = make_ids(*places(0, [5, 6]), "op", STARTED).to_pylist()
        assert make_ids(*places(0, [6, 5]), "op", STARTED).to_pylist() == once[::-1]
        mixed = pa.array([1, 0], pa.int32()), pa.array([5, 5], pa.int64())
        other_source, same = make_ids(*mixed, "op", STARTED).to_pylist()
        (other_operation,) = make_ids(*places(0, [5]), "op2", STARTED).to_pylist()
        assert same == once[0]
        assert len({*once, other_source, other_operation}) == 4

    def test_a_million_are_distinct_and_in_the_order_of_their_records(self):
        size = 500_000
        offsets = pa.array(range(0, 40 * size, 40), pa.int64())
        made = []
        for source in (0, 1):
            sources = pa.array([source] * size, pa.int32())
            made += make_ids(sources, offsets, "op", STARTED).to_pylist()
        assert all(earlier < later for earlier, later in pairwise(made))

    def test_the_number_of_a_record_is_its_place_counted_from_one_of_the_operation(self):
        orders = [0, 1, 2**39, 2**40 + 5, (7 << 44) + 3, 2**62]
        for operation in map(str, range(200)):  # so that some sums carry into the highest bits
            mixed = [place_of(order) for order in orders]
            sources, offsets = zip(*mixed, strict=True)
            made = make_ids(
                pa.array(sources, pa.int32()), pa.array(offsets, pa.int64()), operation, STARTED
            )
            numbers = [int.from_bytes(ULID.from_str(text).bytes[6:]) for text in made.to_pylist()]
            assert [number - numbers[0] for number in numbers] == orders

    def test_operations_of_one_millisecond_are_far_apart(self):
        made = [
            make_ids(*places(0, [0]), f"op{number}", STARTED)[0].as_py() for number in range(2000)
        ]
        numbers = sorted(int.from_bytes(ULID.from_str(text).bytes[6:]) for text in made)
        assert min(later - earlier for earlier, later in pairwise(numbers)) > 2**40

    def test_known_bits_are_spelled_as_the_ulid_library_spells_them(self):
        for text in make_ids(*places(7, [0, 1, 2**40]), "op", STARTED).to_pylist():
            raw = ULID.from_str(text).bytes
            assert str(ULID.from_bytes(raw)) == text


class TestKeyless:
    def test_an_explicit_id_is_kept_and_a_missing_one_made(self):
        first, second = ids_of("node T { x: I64? }", node(id="mine"), node(x=1))[0]
        assert first == "mine"
        assert ULID.from_str(second).milliseconds == STARTED

    def test_edges_have_no_key(self):
        schema = "node T {} edge E: T -> T"
        edges = [{"edge": "E", "from": "a", "to": "b"}] * 2
        first, second = ids_of(schema, *edges)[0]
        assert first != second
        assert ids_of(schema, *edges)[0] == [first, second]
        assert ids_of(schema, edges[0], source=1)[0] != [first]


class TestKeyed:
    def test_the_id_is_the_key_text(self):
        ids, bad, _ = ids_of("node T { k: Date @key }", node(k="1970-01-11"), node(k=3, id="3"))
        assert ids == ["10", "3"]
        assert bad == []

    def test_a_composite_id_has_its_members_by_name(self):
        ids, bad, _ = ids_of(
            "node T { b: String  a: I64  @key(b, a) }",
            node(a=7, b="acme"),
            node(a=8, b="ü", id='["8","ü"]'),
        )
        assert ids == ['["7","acme"]', '["8","ü"]']
        assert bad == []

    @pytest.mark.parametrize(
        ("type_", "value", "spelled", "id_"),
        [
            ("Date", "2024-01-01", "2024-01-01", "19723"),
            ("DateTime", "1970-01-01T00:00:01Z", "1970-01-01T00:00:01.000Z", "1000"),
            ("F64", 1.5, "1.50", "1.5"),
            ("F64", 1, "1.0", "1"),
            ("F32", 0.1, "0.1000", "0.1"),
            ("I32", 7, "007", "7"),
        ],
    )
    def test_another_spelling_of_a_single_key_is_tolerated_and_known(
        self, type_, value, spelled, id_
    ):
        schema = f"node T {{ k: {type_} @key }}"
        ids, bad, aliases = ids_of(schema, node(k=value, id=spelled), node(k=value))
        assert ids == [id_, id_]
        assert bad == []
        assert aliases == {spelled: id_}

    @pytest.mark.parametrize(
        ("type_", "value", "given", "id_"),
        [
            ("String", "ada", "Ada", "ada"),
            ("I64", 7, "8", "7"),
            ("I64", 7, "seven", "7"),
            ("I64", 7, " 7", "7"),
            ("F64", 1.5, "nan", "1.5"),
            ("Bool", True, "True", "true"),
            ("Date", "2024-01-01", "2024-01-02", "19723"),
        ],
    )
    def test_another_id_is_refused_naming_both(self, type_, value, given, id_):
        schema = f"node T {{ k: {type_} @key }}"
        ids, bad, aliases = ids_of(schema, node(k=value), node(k=value, id=given), offset=50)
        assert ids == [id_, None]
        (record,) = bad
        assert record["offset"] > 50
        assert f'"{given}"' in record["reason"]
        assert f'"{id_}"' in record["reason"]
        assert aliases == {}

    def test_a_composite_key_tolerates_no_other_spelling(self):
        schema = "node T { a: I64  b: I64  @key(a, b) }"
        ids, bad, _ = ids_of(schema, node(a=1, b=2, id='["1", "2"]'))
        assert ids == [None]
        assert len(bad) == 1

    def test_a_null_key_is_a_bad_record_naming_it(self):
        entity = og.parse_schema("node T { a: I64  b: I64  @key(a, b) }").catalog.nodes["T"]
        rows = [
            {"a": 1, "b": 2, "0source": 0, "0offset": 0},
            {"a": 1, "b": None, "0source": 0, "0offset": 9},
        ]
        batch = pa.RecordBatch.from_pylist(rows, schema=batch_schema(entity))
        ids, bad = derive_ids(entity, batch, "op", STARTED)
        assert ids.to_pylist() == ['["1","2"]', None]
        (found,) = bad.to_pylist()
        assert (found["source"], found["offset"], found["property"]) == (0, 9, "b")
        assert found["reason"] == "T.b: a key cannot be null"

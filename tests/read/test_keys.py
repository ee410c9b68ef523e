"""Keys of every scalar type: a node is found by its key, by its id, and by any equal value."""

import pytest

import omnigraph as og
from omnigraph.lang.query import ir
from omnigraph.lang.schema import compile_schema
from omnigraph.read.match.lookups.asked_ids import AskedIds, ids_asked
from omnigraph.types import PropType, Scalar, from_json, to_json

KEYS = {
    "String": ("a", "b", "a"),
    "Bool": (True, False, "true"),
    "I32": (-7, 7, "-7"),
    "I64": (2**60, 1, str(2**60)),
    "U32": (2**31, 1, str(2**31)),
    "U64": (2**63, 1, str(2**63)),
    "F32": (0.5, 1.5, "0.5"),
    "F64": (1e21, 0.1, "1" + "0" * 21),
    "Date": ("2024-02-29", "1969-12-31", "19782"),
    "DateTime": ("1970-01-01T00:00:01Z", "2024-02-29", "1000"),
}
BY_VALUE = {"Bool", "F32", "F64"}


def test_every_type_that_can_be_a_key_is_tried():
    assert set(KEYS) == {str(scalar) for scalar in Scalar if not scalar.is_blob}


def test_a_node_is_found_by_its_key(tmp_path):
    nodes = [f"node {name}Key {{ k: {name} @key }}" for name in KEYS]
    records = [
        {"type": f"{name}Key", "data": {"k": key}}
        for name, keys in KEYS.items()
        for key in keys[:2]
    ]
    with og.init(tmp_path / "g", "\n".join(nodes)) as graph:
        graph.load(records)
        for name, (wanted, _, id_) in KEYS.items():
            t = PropType.parse(name)
            match = f"match {{ $n: {name}Key {{ k: $k }} }} return {{ $n, $n.k as k }}"
            rows = graph.query(f"query find($k: {name}) {{ {match} }}", {"k": wanted}).rows
            assert rows == [{"n": id_, "k": to_json(t, from_json(t, wanted))}], name


@pytest.mark.parametrize("name", KEYS)
def test_only_keys_with_one_text_are_looked_up_by_id(name):
    wanted, _, id_ = KEYS[name]
    t = PropType.parse(name)
    node = compile_schema(f"node N {{ k: {name} @key }}").catalog.nodes["N"]
    test = ir.Compare(ir.PropertyOf("n", "k", t), "=", ir.Const(from_json(t, wanted), t))
    assert ids_asked(node, test, {}) == (None if name in BY_VALUE else AskedIds(frozenset({id_})))

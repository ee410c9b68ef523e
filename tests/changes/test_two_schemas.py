"""Diffs of states under different schemas (schema-branches.md, section 5)."""

from __future__ import annotations

import base64
from dataclasses import replace

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.changes.images import _says_nothing
from omnigraph.changes.schemas import two_schemas as module
from omnigraph.changes.schemas.two_schemas import TwoSchemas
from omnigraph.changes.schemas.type_pairs import HIDDEN, two_sided, types_of
from omnigraph.errors import HistoryReclaimed
from omnigraph.lang.schema import compile_schema, create
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.identities import Numbering, evolve
from omnigraph.manifest.history.resolve import schema_at
from tests.opened import workspace_of

SCHEMA = """
node Ship {
  imo: String @key
  tonnage: I32?
  flag: String?
  weight: F32?
}
node Port { code: String @key }
edge CallsAt: Ship -> Port { visits: I32? }
"""
WITH_BUILT = SCHEMA.replace("flag: String?", "flag: String?\n  built: I32?")
WITHOUT_FLAG = SCHEMA.replace("  flag: String?\n", "")


def ship(imo, **data):
    return {"type": "Ship", "data": {"imo": imo, **data}}


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(
            [
                ship("S1", tonnage=4200, flag="PA", weight=0.5),
                ship("S2", tonnage=910, flag="LR"),
                ship("S3", tonnage=15000),
                {"type": "Port", "data": {"code": "OSL"}},
                {"edge": "CallsAt", "from": "S1", "to": "OSL", "data": {"id": "c1", "visits": 3}},
            ]
        )
        yield graph


def patch(graph, *records):
    graph.load(list(records), mode="patch")


def kinds(diff):
    return None if diff.schema is None else [step["kind"] for step in diff.schema["steps"]]


def mirrored(graph, one, other):
    """The diff, after checking that the other way round it has its sides exchanged."""
    there, back = graph.diff(one, other), graph.diff(other, one)
    swap = {"insert": "delete", "delete": "insert", "update": "update"}
    assert [(c.kind, c.type, c.id, swap[c.op], c.after, c.before) for c in there.changes] == [
        (c.kind, c.type, c.id, c.op, c.before, c.after) for c in back.changes
    ]
    return there


def test_an_added_property_is_a_step_and_no_change(graph):
    before = graph.snapshot()
    graph.schema.apply(WITH_BUILT)
    diff = mirrored(graph, before, "main")
    assert diff.changes == ()
    assert diff.schema["from_hash"] == before.ir_hash
    assert diff.schema["to_hash"] == graph.snapshot().ir_hash
    assert diff.schema["steps"] == [
        {"kind": "add_property", "type_kind": "node", "type_name": "Ship",
         "property_name": "built", "property_type": "I32?"},
    ]  # fmt: skip
    assert kinds(graph.diff("main", before)) == ["drop_property"]


def test_a_value_of_an_added_property_is_an_update_with_nothing_before(graph):
    before = graph.snapshot()
    graph.schema.apply(WITH_BUILT)
    patch(graph, ship("S2", built=1990), ship("S3", built=None))
    (change,) = mirrored(graph, before, "main")
    assert (change.id, change.op) == ("S2", "update")
    assert "built" not in change.before["properties"]
    assert change.after["properties"]["built"] == 1990
    shown = change.to_json()
    assert shown["after"]["properties"] == {
        "imo": "S2", "tonnage": 910, "flag": "LR", "built": 1990, "weight": None,
    }  # fmt: skip


def test_a_dropped_property_shows_where_something_else_changed(graph):
    before = graph.snapshot()
    graph.schema.apply(WITHOUT_FLAG)
    diff = mirrored(graph, before, "main")
    assert (diff.changes, kinds(diff)) == ((), ["drop_property"])
    patch(graph, ship("S1", tonnage=5))
    (change,) = mirrored(graph, before, "main")
    assert change.before["properties"]["flag"] == "PA"
    assert "flag" not in change.after["properties"]


def test_renames_are_followed(graph):
    before = graph.snapshot()
    renamed = SCHEMA.replace("node Ship", 'node Vessel @rename_from("Ship")').replace(
        "Ship -> Port", "Vessel -> Port"
    )
    renamed = renamed.replace("tonnage: I32?", 'gross: I32? @rename_from("tonnage")')
    renamed = renamed.replace("imo: String @key", 'number: String @key @rename_from("imo")')
    graph.schema.apply(renamed)
    diff = graph.diff(before, "main")
    assert diff.changes == ()
    assert sorted(kinds(diff)) == ["rename_property", "rename_property", "rename_type"]
    graph.load([{"type": "Vessel", "data": {"number": "S1", "gross": 5}}], mode="patch")
    (change,) = mirrored(graph, before, "main")
    assert change.type == "Vessel"
    assert (change.before["properties"]["gross"], change.after["properties"]["gross"]) == (4200, 5)
    assert change.before["properties"]["number"] == "S1"


def test_a_name_that_changed_hands_means_one_property(graph):
    before = graph.snapshot()
    graph.schema.apply(WITHOUT_FLAG)
    graph.schema.apply(SCHEMA)
    patch(graph, ship("S2", flag="NO"))
    diff = mirrored(graph, before, "main")
    assert kinds(diff) == ["add_property", "drop_property"]
    (change,) = diff
    assert "flag" not in change.before["properties"]
    assert change.after["properties"]["flag"] == "NO"


def test_properties_that_change_names_with_each_other(graph):
    before = graph.snapshot()
    graph.schema.apply(SCHEMA.replace("flag: String?", "flag: String?\n  home: String?"))
    patch(graph, ship("S1", home="Oslo"))
    between = graph.snapshot()
    for properties in (
        'x: String? @rename_from("flag")  home: String?',
        'x: String?  flag: String? @rename_from("home")',
        'home: String? @rename_from("x")  flag: String?',
    ):
        graph.schema.apply(SCHEMA.replace("flag: String?", properties))
    assert graph.diff(between, "main").changes == ()
    patch(graph, ship("S2", flag="Bergen"))
    (change,) = mirrored(graph, between, "main")
    assert change.before["properties"] == {
        "imo": "S2", "tonnage": 910, "home": "LR", "flag": None, "weight": None,
    }  # fmt: skip
    assert change.after["properties"]["flag"] == "Bergen"
    both = mirrored(graph, before, "main").changes
    assert [(one.id, one.op) for one in both] == [("S1", "update"), ("S2", "update")]
    assert both[0].before["properties"] == {
        "imo": "S1", "tonnage": 4200, "home": "PA", "weight": 0.5,
    }  # fmt: skip
    assert both[0].after["properties"]["flag"] == "Oslo"


def test_a_widened_value_is_the_one_it_was_made_of(graph):
    before = graph.snapshot()
    wider = SCHEMA.replace("tonnage: I32?", "tonnage: I64?").replace("weight: F32?", "weight: F64?")
    graph.schema.apply(wider)
    diff = mirrored(graph, before, "main")
    assert (diff.changes, kinds(diff)) == ((), ["widen_property", "widen_property"])
    patch(graph, ship("S1", tonnage=5_000_000_000))
    (change,) = mirrored(graph, before, "main")
    assert (change.before["properties"]["tonnage"], change.after["properties"]["tonnage"]) == (
        4200,
        5_000_000_000,
    )


def test_a_type_of_one_side_yields_its_rows(graph):
    before = graph.snapshot()
    graph.schema.apply("node Ship { imo: String @key  tonnage: I32?  flag: String?  weight: F32? }\n"
                       "node Berth { no: I32 @key }")  # fmt: skip
    graph.load([{"type": "Berth", "data": {"no": 7}}])
    diff = mirrored(graph, before, "main")
    assert [(one.type, one.op, one.id) for one in diff] == [
        ("Berth", "insert", "7"),
        ("Port", "delete", "OSL"),
        ("CallsAt", "delete", "c1"),
    ]
    assert kinds(diff) == ["add_type", "drop_type", "drop_type"]


def test_a_default_that_nobody_gave_is_no_value(graph):
    before = graph.snapshot()
    graph.schema.apply(SCHEMA.replace("flag: String?", "flag: String?\n  crew: I32? @default(12)"))
    assert mirrored(graph, before, "main").changes == ()
    patch(graph, ship("S3", crew=12))
    (change,) = mirrored(graph, before, "main")
    assert (change.id, change.after["properties"]["crew"]) == ("S3", 12)


def test_a_required_property_is_added_with_its_default():
    wider = compile_schema("node Ship { imo: String @key  crew: I32 @default(12) }").shape
    crew = catalog_of(create(wider, DOMAIN)).nodes["Ship"].properties["crew"]
    values = pa.chunked_array([pa.array([12, 13, None], pa.int32())])
    assert _says_nothing(crew, values).to_pylist() == [True, False, True]


def test_added_and_dropped_blobs(graph):
    before = graph.snapshot()
    graph.schema.apply(SCHEMA.replace("flag: String?", "flag: String?\n  log: Blob?"))
    text = "base64:" + base64.b64encode(b"abc").decode()
    patch(graph, ship("S1", log=text))
    (change,) = mirrored(graph, before, "main")
    assert change.after["properties"]["log"] == text
    (short,) = graph.diff(before, "main", short=True)
    assert short.after["properties"]["log"]["$blob"]["size"] == 3
    between = graph.snapshot()
    graph.schema.apply(SCHEMA)
    assert mirrored(graph, between, "main").changes == ()
    patch(graph, ship("S1", tonnage=1))
    (change,) = mirrored(graph, between, "main")
    assert change.before["properties"]["log"] == text
    assert "log" not in change.after["properties"]


def test_a_diff_over_a_hard_drop_says_that_the_rows_are_gone(graph):
    before = graph.snapshot()
    graph.schema.apply(WITHOUT_FLAG, allow_data_loss=True)
    with pytest.raises(HistoryReclaimed):
        _ = graph.diff(before, "main").changes
    assert graph.diff(before, "main", types=["Port"]).changes == ()


def test_past_states_of_two_schemas_have_the_names_of_today(graph):
    before = graph.snapshot()
    graph.schema.apply(WITH_BUILT)
    patch(graph, ship("S1", built=1))
    after = graph.snapshot()
    graph.schema.apply(WITH_BUILT.replace("built: I32?", 'year: I32? @rename_from("built")'))
    (change,) = mirrored(graph, before, after)
    assert change.after["properties"]["year"] == 1
    assert kinds(graph.diff(before, after)) == ["add_property"]


def test_pages_and_documents_have_the_steps(graph):
    before = graph.snapshot()
    graph.schema.apply(WITH_BUILT)
    patch(graph, ship("S1", built=1), ship("S2", built=2))
    diff = graph.diff(before, "main")
    first = diff.page(limit=1)
    assert first.to_json()["schema"] == dict(diff.schema)
    rest = diff.page(page_token=first.next_page_token)
    assert [one.id for one in (*first.changes, *rest.changes)] == ["S1", "S2"]
    assert diff.to_json()["schema"]["steps"][0]["kind"] == "add_property"
    assert "schema: add Ship.built: I32?" in diff._repr_html_()
    assert "built: – -&gt; 1" in diff._repr_html_()


def test_equal_schemas_cost_a_comparison_of_hashes(graph, monkeypatch):
    before = graph.snapshot()
    patch(graph, ship("S1", tonnage=1))

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(module, "TwoSchemas", never)
    monkeypatch.setattr(module, "single_line_below", never)
    diff = graph.diff(before, "main")
    assert (len(diff.changes), diff.schema) == (1, None)
    assert "schema" not in diff.to_json()


def test_a_diff_reads_only_what_changed(graph):
    graph.load([ship(f"X{at}", tonnage=at) for at in range(20_000)])
    before = graph.snapshot()
    patch(graph, ship("S1", tonnage=7))
    plain = graph.diff(before, "main").stats
    start = graph.snapshot()
    graph.schema.apply(WITH_BUILT)
    patch(graph, ship("S2", built=7))
    across = graph.diff(start, "main").stats
    assert across.candidates == plain.candidates == 1
    assert across.rows_read == plain.rows_read


# ------------------------------------------------------------------ schemas of two branches


DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
BASE = "node Ship { imo: String @key  tonnage: I32?  flag: String? }"


def branches(one, other):
    """Two schemas that were made from one, with ids of their own for what is new."""
    base = create(compile_schema(BASE).shape, DOMAIN)
    first, _ = evolve(base, compile_schema(one).shape, Numbering(100))
    second, _ = evolve(base, compile_schema(other).shape, Numbering(200))
    return TwoSchemas(first, second)


def ship_pair(schemas, now):
    catalogs = [catalog_of(ir) for ir in (schemas.before, schemas.after, now)]
    old, new, current = (types_of(catalog, schemas.joins) for catalog in catalogs)
    (type_id,) = (each for each, one in old.items() if one.name == "Ship")
    return two_sided(type_id, old[type_id], new[type_id], current.get(type_id), schemas)


def test_what_both_added_alike_is_one_property():
    wider = BASE.replace("}", "  built: I32? }")
    both = branches(wider, wider)
    assert both.steps == ()
    assert both.change.steps == ()
    pair = ship_pair(both, both.after)
    assert pair.compared.shared == ("imo", "tonnage", "flag", "built")
    assert (pair.compared.added_before, pair.compared.added_after) == ((), ())


def test_what_both_added_differently_is_two_properties_of_one_name():
    both = branches(BASE.replace("}", "  built: I32? }"), BASE.replace("}", "  built: String? }"))
    assert sorted(step.kind for step in both.steps) == ["add_property", "drop_property"]
    pair = ship_pair(both, both.after)
    assert "built" not in pair.compared.shared
    assert pair.compared.added_before == pair.compared.added_after == ("built",)


def test_what_one_side_dropped_never_counts():
    both = branches(BASE, BASE.replace("  flag: String?", ""))
    assert [step.kind for step in both.steps] == ["drop_property"]
    pair = ship_pair(both, both.after)
    assert pair.compared == (("imo", "tonnage"), (), (), False)
    assert list(pair.before.properties) == ["imo", "tonnage", "flag"]


def test_an_added_property_whose_name_another_one_has_counts_and_is_not_shown():
    both = branches(
        BASE.replace("}", "  gross: String? }"),
        BASE.replace("tonnage: I32?", 'gross: I32? @rename_from("tonnage")'),
    )
    pair = ship_pair(both, both.after)
    assert pair.compared.shared == ("imo", "gross", "flag")
    assert pair.compared.added_before == ("gross" + HIDDEN,)
    assert pair.before.properties["gross"].type == pair.after.properties["gross"].type
    back = ship_pair(TwoSchemas(both.after, both.before), both.before)
    assert back.compared.shared == ("imo", "tonnage", "flag")
    assert back.compared.added_after == ("gross",)


def test_a_type_that_both_added_alike_is_one_type():
    both = branches(
        f"{BASE} node Berth {{ no: I32 @key }}", f"{BASE} node Berth {{ no: I32 @key }}"
    )
    assert both.steps == ()
    types = [types_of(catalog_of(ir), both.joins) for ir in (both.before, both.after)]
    assert types[0].keys() == types[1].keys()


def test_a_graph_that_did_not_record_its_drops(graph):
    """In a format before the third, an id that a schema was numbered beyond and lacks was dropped."""
    flag = graph.snapshot()
    graph.schema.apply(WITHOUT_FLAG)
    graph.schema.apply(WITH_BUILT.replace("  flag: String?\n", ""))
    manifest = workspace_of(graph).manifest
    old = schema_at(manifest, flag).ir
    new = replace(schema_at(manifest, graph.snapshot()).ir, dropped=())
    both = TwoSchemas(old, new, new.next_identity_id)
    pair = ship_pair(both, new)
    assert (pair.compared.added_before, pair.compared.added_after) == ((), ("built",))

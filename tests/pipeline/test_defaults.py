"""Records, rows of frames and inserts that leave a property out get its `@default`."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError, InputError, TypeCheckError
from tests.graphs import graph_of
from tests.pipeline.embedders import Recording
from tests.stored import read_back

SCHEMA = """
node Ship {
  imo: String @key
  flag: String @default("NO")
  crew: I32? @default(-1)
  tags: [String]? @default(["new"])
  built: Date? @default("2024-02-29")
  state: enum(active, gone) @default(active)
}
node Memo { text: String? @default("hello")  vec: Vector(4) @embed(text) }
edge Follows: Ship -> Ship { weight: F32 @default(0.5)  kind: String @default("std")  @unique(src, dst, kind) }
"""
ALL = {
    "flag": "NO",
    "crew": -1,
    "tags": ["new"],
    "built": 19782,
    "state": "active",
}

graph = graph_of(SCHEMA)


def ships(graph):
    return read_back(graph).nodes["Ship"]


def ship(imo, **values):
    return {"type": "Ship", "data": {"imo": imo, **values}}


def follows(graph):
    table = graph.edges("Follows").to_arrow()
    return sorted(table.select(["from", "to", "weight", "kind"]).to_pylist(), key=repr)


# ------------------------------------------------------------------ records


@pytest.mark.parametrize("mode", ["merge", "append", "overwrite", "patch"])
def test_a_record_gets_what_it_leaves_out_and_keeps_what_it_gives(graph, mode):
    given = {"flag": "SE", "crew": None, "tags": [], "built": None, "state": "gone"}
    graph.load([ship("a"), ship("b", **given), ship("c", crew=7)], mode=mode)
    found = ships(graph)
    assert found["a"] == {"imo": "a", **ALL}
    assert found["b"] == {"imo": "b", **given}
    assert found["c"] == {"imo": "c", **ALL, "crew": 7}


def test_many_records_at_once_get_theirs(graph):
    """So many that they are read by columns; some say null, in any spelling."""
    lines = []
    for n in range(1000):
        data = {"imo": f"s{n}"}
        if n % 2:
            data["flag"] = "SE"
        line = json.dumps({"type": "Ship", "data": data})
        if n % 5 == 0:
            line = line[:-2] + ', "crew" : null}}'
        if n % 5 == 1:
            line = line[:-2] + ', "\\u0063rew": null}}'
        lines.append(line)
    graph.load("\n".join(lines).encode())
    found = ships(graph)
    assert len(found) == 1000
    for n in range(1000):
        assert found[f"s{n}"] == {
            **ALL,
            "imo": f"s{n}",
            "flag": "SE" if n % 2 else "NO",
            "crew": None if n % 5 < 2 else -1,
        }


@pytest.mark.parametrize("mode", ["merge", "append", "overwrite", "patch"])
@pytest.mark.parametrize("count", [1, 500])
def test_an_explicit_null_of_a_required_property_is_an_error(graph, mode, count):
    records = [ship(f"s{n}") for n in range(count - 1)]
    with pytest.raises(InputError, match=r"Ship\.flag.*default"):
        graph.load([*records, ship("z", flag=None)], mode=mode)
    assert ships(graph) == {}


def test_a_merge_replaces_whole_rows_so_defaults_come_back(graph):
    graph.load([ship("a", flag="SE", crew=4)])
    graph.load([ship("a", crew=5)])
    assert ships(graph)["a"] == {"imo": "a", **ALL, "crew": 5}


def test_a_patch_leaves_stored_values_alone(graph):
    graph.load([ship("a", flag="SE", crew=None, tags=None)])
    graph.load([ship("a", state="gone"), ship("b", state="gone")], mode="patch")
    assert ships(graph)["a"] == {
        **ALL,
        "imo": "a",
        "flag": "SE",
        "crew": None,
        "tags": None,
        "state": "gone",
    }
    assert ships(graph)["b"] == {"imo": "b", **ALL, "state": "gone"}


def test_records_of_a_patch_that_make_one_row_get_what_none_of_them_gives(graph):
    graph.load([ship("a", crew=1), ship("a", flag="SE"), ship("a", crew=None)], mode="patch")
    assert ships(graph)["a"] == {"imo": "a", **ALL, "flag": "SE", "crew": None}


@pytest.mark.parametrize("mode", ["merge", "patch"])
def test_an_edge_is_known_by_a_tuple_with_its_default(graph, mode):
    graph.load([ship("a"), ship("b")])
    edge = {"edge": "Follows", "from": "a", "to": "b"}
    graph.load([edge, {**edge, "data": {"kind": "other"}}], mode=mode)
    graph.load(
        [{**edge, "data": {"weight": 2}}, {**edge, "data": {"kind": "std", "weight": 3}}], mode=mode
    )
    assert follows(graph) == [
        {"from": "a", "to": "b", "weight": 0.5, "kind": "other"},
        {"from": "a", "to": "b", "weight": 3.0, "kind": "std"},
    ]
    ids = graph.edges("Follows").to_arrow().column("id").to_pylist()
    graph.mutate('query again() { insert Follows { from: "b", to: "a" } }')
    graph.load([{"edge": "Follows", "from": "b", "to": "a", "data": {"weight": 9}}], mode=mode)
    assert {"from": "b", "to": "a", "weight": 9.0, "kind": "std"} in follows(graph)
    assert len(graph.edges("Follows").to_arrow()) == len(ids) + 1


def test_an_export_gives_the_same_rows_again(graph, tmp_path):
    graph.load([ship("a"), ship("b", crew=None, tags=None)])
    graph.export(tmp_path / "out.jsonl")
    with og.init(tmp_path / "copy", SCHEMA) as copy:
        copy.load(tmp_path / "out.jsonl")
        assert ships(copy) == ships(graph)


# ------------------------------------------------------------------ frames


COLUMNS = {"imo": ["a", "b"], "crew": [3, None]}


def of_arrow(_):
    return pa.table(COLUMNS)


def of_pandas(_):
    return pd.DataFrame({"imo": ["a", "b"], "crew": pd.array([3, None], "Int32")})


def of_parquet(place):
    pq.write_table(pa.table(COLUMNS), place / "ships.parquet")
    return place / "ships.parquet"


def of_csv(place):
    (place / "ships.csv").write_text("imo,crew\na,3\nb,\n")
    return place / "ships.csv"


@pytest.mark.parametrize("form", [of_arrow, of_pandas, of_parquet, of_csv])
def test_a_missing_column_is_left_out_and_a_null_cell_is_a_null(graph, tmp_path, form):
    graph.load_nodes("Ship", form(tmp_path))
    assert ships(graph) == {
        "a": {"imo": "a", **ALL, "crew": 3},
        "b": {"imo": "b", **ALL, "crew": None},
    }


def test_lines_of_plain_values_leave_out_keys(graph, tmp_path):
    path = tmp_path / "ships.jsonl"
    path.write_text('{"imo": "a", "crew": null}\n{"imo": "b", "flag": "SE"}\n')
    graph.load_nodes("Ship", path)
    assert ships(graph) == {
        "a": {"imo": "a", **ALL, "crew": None},
        "b": {"imo": "b", **ALL, "flag": "SE"},
    }


def test_a_null_cell_of_a_required_property_is_an_error(graph):
    with pytest.raises(InputError, match=r"row 2: Ship\.flag"):
        graph.load_nodes("Ship", pa.table({"imo": ["a", "b"], "flag": ["SE", None]}))


def test_a_frame_that_patches_gives_defaults_to_new_rows_alone(graph):
    graph.load([ship("a", flag="SE", crew=9)])
    graph.load_nodes("Ship", pa.table({"imo": ["a", "b"], "state": ["gone", "gone"]}), mode="patch")
    assert ships(graph) == {
        "a": {"imo": "a", **ALL, "flag": "SE", "crew": 9, "state": "gone"},
        "b": {"imo": "b", **ALL, "state": "gone"},
    }


# ------------------------------------------------------------------ inserts


def test_an_insert_gets_what_it_leaves_out(graph):
    graph.mutate('query one() { insert Ship { imo: "a", state: "gone" } }')
    graph.mutate(
        'query two($crew: I32?) { insert Ship { imo: "b", crew: $crew } }', params={"crew": None}
    )
    assert ships(graph) == {
        "a": {"imo": "a", **ALL, "state": "gone"},
        "b": {"imo": "b", **ALL, "crew": None},
    }


def test_an_update_gives_no_default(graph):
    graph.load([ship("a", crew=None)])
    graph.mutate('query one() { update Ship set { flag: "SE" } where imo = "a" }')
    assert ships(graph)["a"] == {"imo": "a", **ALL, "flag": "SE", "crew": None}


def test_an_insert_of_null_for_a_required_property_is_an_error(graph):
    with pytest.raises((ConstraintError, TypeCheckError), match="flag"):
        graph.mutate('query one() { insert Ship { imo: "a", flag: null } }')


def test_what_has_no_default_must_still_be_assigned(graph):
    with pytest.raises(TypeCheckError, match="imo"):
        graph.mutate('query one() { insert Ship { flag: "SE" } }')


# ------------------------------------------------------------------ texts with vectors


@pytest.mark.parametrize("mode", ["merge", "append", "patch"])
def test_a_text_by_default_is_embedded(tmp_path, mode):
    embedder = Recording()
    with og.init(tmp_path / "g", SCHEMA, embedder=embedder) as graph:
        graph.load([{"type": "Memo", "data": {}}, {"type": "Memo"}], mode=mode)
        graph.load([{"type": "Memo", "data": {"vec": [1, 2, 3, 4]}}], mode=mode)
        found = list(read_back(graph).nodes["Memo"].values())
    assert [one["text"] for one in found] == ["hello"] * 3
    assert [1.0, 2.0, 3.0, 4.0] in [list(one["vec"]) for one in found]
    assert embedder.texts == ["hello"]

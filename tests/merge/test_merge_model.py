"""Merges of stored graphs against the plain merge: results, counts, and every conflict."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.write.merge.resolutions import Image
from tests.merge.plain_merge import plain_merge, types_of
from tests.merge.three_states import equal_images
from tests.stored import read_back

SCHEMA = """
node P { key: String @key  mail: String? @unique  a: I32?  b: I32? }
node Q { key: String @key }
edge Has: P -> Q @card(0..1) { w: I32?  @unique(src, dst) }
edge Knows: P -> P
"""
P, Q, HAS, KNOWS = "node:P", "node:Q", "edge:Has", "edge:Knows"
PEOPLE, THINGS = ("p1", "p2", "p3"), ("q1", "q2")
NUMBERS = st.sampled_from([None, 1, 2])


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with og.init(tmp_path_factory.mktemp("model") / "g", SCHEMA) as graph:
        yield graph


@st.composite
def changed(draw, state):
    """Another valid state, some edits away."""
    new = {key: dict(rows) for key, rows in state.items()}
    for _ in range(draw(st.integers(0, 4))):
        key = draw(st.sampled_from([P, P, P, Q, HAS, HAS, KNOWS]))
        ids = {P: PEOPLE, Q: THINGS, HAS: ("h1", "h2", "h3", "h4"), KNOWS: ("k1", "k2")}[key]
        id_ = draw(st.sampled_from(ids))
        if id_ in new[key] and draw(st.integers(0, 3)) == 0:
            del new[key][id_]
            continue
        person, other = (st.sampled_from(PEOPLE) for _ in range(2))
        row = {
            P: st.fixed_dictionaries(
                {"mail": st.sampled_from([None, "x", "y"]), "a": NUMBERS, "b": NUMBERS}
            ).map(lambda values, id_=id_: {"key": id_, **values}),
            Q: st.just({"key": id_}),
            HAS: st.fixed_dictionaries(
                {"src": person, "dst": st.sampled_from(THINGS), "w": NUMBERS}
            ),
            KNOWS: st.fixed_dictionaries({"src": person, "dst": other}),
        }[key]
        drawn = draw(row)
        if id_ in new[key] and draw(st.booleans()):  # a change of one value only
            name = draw(st.sampled_from(sorted(drawn)))
            drawn = {**new[key][id_], name: drawn[name]}
        new[key][id_] = drawn
    return made_valid(new)


def made_valid(state):
    """Leave out what breaks a rule: shared values, loose edges, too many edges."""
    mails: set[str] = set()
    for id_, row in sorted(state[P].items()):
        if row["mail"] in mails:
            state[P][id_] = {**row, "mail": None}
        elif row["mail"] is not None:
            mails.add(row["mail"])
    pairs: set[tuple[str, str]] = set()
    sources: set[str] = set()
    for key, ends in ((HAS, Q), (KNOWS, P)):
        for id_, row in sorted(state[key].items()):
            pair = (row["src"], row["dst"])
            loose = row["src"] not in state[P] or row["dst"] not in state[ends]
            if loose or (key == HAS and (pair in pairs or row["src"] in sources)):
                del state[key][id_]
            elif key == HAS:
                pairs.add(pair)
                sources.add(row["src"])
    return state


@st.composite
def merges(draw):
    # Something of every type stays: an overwriting load replaces the tables that it has records for.
    start = {
        P: {id_: {"key": id_, "mail": None, "a": 1, "b": 1} for id_ in (*PEOPLE, "z")},
        Q: {id_: {"key": id_} for id_ in (*THINGS, "z")},
        HAS: {
            "h1": {"src": "p1", "dst": "q1", "w": None},
            "h2": {"src": "p2", "dst": "q1", "w": None},
            "z": {"src": "z", "dst": "z", "w": None},
        },
        KNOWS: {"k1": {"src": "p1", "dst": "p2"}, "z": {"src": "z", "dst": "z"}},
    }
    base = draw(changed(start))
    source, target = draw(changed(base)), draw(changed(base))
    kinds = [None, "ours", "theirs", "mapping", "mapping", "mapping"]
    return base, source, target, draw(st.sampled_from(kinds))


def records(state):
    for key, rows in state.items():
        kind, _, name = key.partition(":")
        for id_, row in rows.items():
            data = {**{k: v for k, v in row.items() if k not in {"src", "dst"}}}
            if kind == "node":
                yield {"type": name, "data": data}
            else:
                yield {
                    "edge": name,
                    "from": row["src"],
                    "to": row["dst"],
                    "data": {"id": id_, **data},
                }


def stored(graph, branch):
    plain = read_back(graph, branch)
    return {
        **{f"node:{name}": dict(rows) for name, rows in plain.nodes.items()},
        **{
            f"edge:{name}": {i: {"src": s, "dst": d, **values} for i, s, d, values in rows}
            for name, rows in plain.edges.items()
        },
    }


def given_resolve(image):
    """An image as callers give it."""
    properties = {name: value for name, value in image.items() if name not in {"src", "dst"}}
    if "src" not in image:
        return {"properties": properties}
    return {"properties": properties, "endpoints": {"from": image["src"], "to": image["dst"]}}


@given(merges(), st.sampled_from(["entity", "property"]), st.data())
@settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],  # to shrink takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_a_merge_is_that_of_plain_states(graph, states, granularity, data):
    base, source, target, resolve = states
    catalog = graph.schema.catalog
    graph.load(list(records(base)), mode="overwrite")
    if "side" in graph.branches.list():  # of an example that failed
        graph.branches.delete("side")
    graph.branches.create("side")
    graph.load(list(records(source)), mode="overwrite", branch="side")
    graph.load(list(records(target)), mode="overwrite")
    plain, asked = resolve, resolve
    if resolve == "mapping":
        plain, asked = {}, {}
        open_ = plain_merge(catalog, base, source, target, granularity)
        for kind, key, id_, _ in open_.conflicts:
            if kind not in {"divergent_insert", "divergent_update", "delete_vs_update"}:
                continue
            sides = [side[key][id_] for side in (source, target) if id_ in side[key]]
            decision = data.draw(st.sampled_from([None, None, "ours", "theirs", "leave", *sides]))
            if decision == "leave":
                continue
            is_image = isinstance(decision, dict)
            plain[key, id_] = Image({"id": id_, **decision}) if is_image else decision
            asked[key, id_] = given_resolve(decision) if is_image else decision
    expected = plain_merge(catalog, base, source, target, granularity, plain)
    plan = graph.branches.merge("side", granularity=granularity, resolve=asked, dry_run=True)
    shown = [
        (one.kind, one.table_key, one.row_id, dict(one.detail) if _is_rule(one.kind) else None)
        for one in plan.conflicts
    ]
    assert sorted(shown, key=repr) == sorted(expected.conflicts, key=repr)
    if expected.conflicts:
        with pytest.raises(og.errors.MergeConflicts) as caught:
            graph.branches.merge("side", granularity=granularity, resolve=asked)
        assert caught.value.details["conflicts"] == [one.to_json() for one in plan.conflicts]
        assert_same(stored(graph, "main"), target)
        graph.branches.delete("side")
        return
    merged = graph.branches.merge(
        "side", granularity=granularity, resolve=asked, delete_branch=True
    )
    assert merged.branch_deleted
    assert merged.stats.resolved == plan.stats.resolved == expected.resolved
    assert counts(merged.stats) == counts(plan.stats) == plain_counts(target, expected.result)
    assert_same(stored(graph, "main"), expected.result)


def _is_rule(kind):
    return kind in {"orphan_edge", "unique_violation", "cardinality_violation"}


def counts(stats):
    return stats.inserts, stats.updates, stats.deletes


def plain_counts(old, new):
    inserts = sum(len(set(new[key]) - set(old[key])) for key in new)
    deletes = sum(len(set(old[key]) - set(new[key])) for key in new)
    updates = sum(
        not equal_images(old[key][id_], new[key][id_])
        for key in new
        for id_ in set(old[key]) & set(new[key])
    )
    return inserts, updates, deletes


def assert_same(found, expected):
    assert found == {key: dict(rows) for key, rows in expected.items()}


def test_the_model_covers_every_type(graph):
    assert {entity.table_key for entity in types_of(graph.schema.catalog)} == {P, Q, HAS, KNOWS}

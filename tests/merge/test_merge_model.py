"""Merges of stored graphs against the plain merge: results, counts, and every conflict."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.write.merge.resolutions import Image
from tests.graphs import graph_of
from tests.merge.plain_merge import plain_merge
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
ENTITY_KINDS = {"divergent_insert", "divergent_update", "delete_vs_update"}


graph = graph_of(SCHEMA, scope="module")


IDS = {P: PEOPLE, Q: THINGS, HAS: ("h1", "h2", "h3", "h4"), KNOWS: ("k1", "k2")}


def changed(rng, state):
    """Another valid state, some edits away."""
    new = {key: dict(rows) for key, rows in state.items()}
    for _ in range(rng.randint(1, 5)):
        key = rng.choice([P, P, P, Q, HAS, HAS, KNOWS])
        id_ = rng.choice(IDS[key])
        if id_ in new[key] and rng.random() < 0.3:
            del new[key][id_]
            continue
        row = {
            P: {
                "key": id_,
                "mail": rng.choice("xyz"),
                "a": rng.randint(1, 3),
                "b": rng.randint(1, 3),
            },
            Q: {"key": id_},
            HAS: {"src": rng.choice(PEOPLE), "dst": rng.choice(THINGS), "w": rng.choice([None, 1])},
            KNOWS: {"src": rng.choice(PEOPLE), "dst": rng.choice(PEOPLE)},
        }[key]
        if id_ in new[key] and rng.random() < 0.5:  # a change of one value only
            name = rng.choice(sorted(row))
            row = {**new[key][id_], name: row[name]}
        new[key][id_] = row
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


def three_states(rng):
    """Base, source and target. Something of every type stays: an overwriting load replaces only the
    tables that it has records for."""
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
    base = changed(rng, start)
    return base, changed(rng, base), changed(rng, base)


def decisions(rng, catalog, states, granularity):
    """What `resolve` says, for the plain merge and as callers give it."""
    word = rng.choice([None, "ours", "theirs", "mapping", "mapping"])
    if word != "mapping":
        return word, word
    plain, asked = {}, {}
    for kind, key, id_, _ in plain_merge(catalog, *states, granularity).conflicts:
        if kind not in ENTITY_KINDS:
            continue
        images = [state[key][id_] for state in states[1:] if id_ in state[key]]
        decision = rng.choice([None, None, "ours", "theirs", "leave", *images])
        if decision == "leave":
            continue
        is_image = isinstance(decision, dict)
        plain[key, id_] = Image({"id": id_, **decision}) if is_image else decision
        asked[key, id_] = given_image(decision) if is_image else decision
    return plain, asked


def records(state):
    for key, rows in state.items():
        kind, _, name = key.partition(":")
        for id_, row in rows.items():
            data = {k: v for k, v in row.items() if k not in {"src", "dst"}}
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


def given_image(image):
    """An image as callers give it."""
    properties = {name: value for name, value in image.items() if name not in {"src", "dst"}}
    if "src" not in image:
        return {"properties": properties}
    return {"properties": properties, "endpoints": {"from": image["src"], "to": image["dst"]}}


@pytest.mark.parametrize("granularity", ["entity", "property"])
@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=8,
    phases=[Phase.explicit, Phase.generate],  # a seed has no simpler form
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_merge_is_that_of_plain_states(graph, granularity, seed):
    rng = random.Random(seed)
    catalog = graph.schema.catalog
    states = base, source, target = three_states(rng)
    plain, asked = decisions(rng, catalog, states, granularity)
    graph.load(list(records(base)), mode="overwrite")
    if "side" in graph.branches.list():  # of an example that failed
        graph.branches.delete("side")
    graph.branches.create("side")
    graph.load(list(records(source)), mode="overwrite", branch="side")
    graph.load(list(records(target)), mode="overwrite")
    expected = plain_merge(catalog, base, source, target, granularity, plain)
    plan = graph.branches.merge("side", granularity=granularity, resolve=asked, dry_run=True)
    shown = [
        (
            one.kind,
            one.table_key,
            one.row_id,
            None if one.kind in ENTITY_KINDS else dict(one.detail),
        )
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

"""Every public method of a handle, how to call it, and what the policy is asked then.

A call takes a session, the world, and a name that no other call uses; a writing one also the actor.
A question is a text: the action, the branch and the target, with a dash for what there is not.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest
from tests.policy.world import SCHEMA

ALL = "query all() { match { $p: Person } return { $p.name } }"
ADD = "query add($name: String) { insert Person { name: $name } }"
ADD_SHOWN = (
    "query add($name: String) { insert $p: Person { name: $name } return { $p.name as name } }"
)
ADD_MATCHED = "query add($name: String) { match { $p: Person } insert Person { name: $name } }"
BLOB = ("node", "Person", "ann", "photo")
MORE = SCHEMA + "node City { name: String @key }"
UNKNOWN = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
FAR = date(2999, 1, 1)

FREE = {
    "actor": "who asks",
    "cleanup": "maintenance",
    "close": "ends the handle",
    "embedder": "what the handle was opened with",
    "ensure_indices": "maintenance",
    "internal_schema_version": "the format of the graph",
    "mode": "what the handle was opened with",
    "optimize": "maintenance",
    "refresh": "maintenance",
    "repair": "maintenance",
    "session": "the session asks",
    "upkeep": "what the handle was opened with",
    "uri": "what the handle was opened with",
    "verify": "maintenance",
}
"""What asks no policy, and why."""

ALGORITHMS = (
    "betweenness", "clustering", "connected_components", "degree", "kcore", "label_propagation",
    "louvain", "pagerank", "triangle_count",
)  # fmt: skip


def _refused_frame(session: og.Session, **target: Any) -> None:
    """Ask for a frame that there is none of, which is told after the policy allowed it and before Spark starts."""
    with pytest.raises(BadRequest, match="Spark"):
        session.frame("match { $a knows{1,} $b } return { $a }", **target)


READS: dict[str, tuple[str, Callable[..., object]]] = {
    **{
        f"algorithms.{name}": (
            "read",
            lambda s, name=name, **t: getattr(s.algorithms, name)("Knows", **t),
        )
        for name in ALGORITHMS
    },
    "blame": ("read", lambda s, **t: s.blame("node", "Person", "ann", **t)),
    "blobs.open": ("read", lambda s, **t: s.blobs.open(*BLOB, **t).close()),
    "blobs.read": ("read", lambda s, **t: s.blobs.read(*BLOB, **t)),
    "blobs.stat": ("read", lambda s, **t: s.blobs.stat(*BLOB, **t)),
    "edges": ("read", lambda s, **t: s.edges("Knows", **t).to_arrow()),
    "entity": ("read", lambda s, **t: s.entity("node", "Person", "ann", **t)),
    "explain": ("read", lambda s, **t: s.explain(ALL, **t)),
    "frame": ("read", _refused_frame),
    "export": ("export", lambda s, **t: s.export(io.BytesIO(), **t)),
    "history": ("read", lambda s, **t: s.history("node", "Person", "ann", **t)),
    "neighbors": ("read", lambda s, **t: s.neighbors("Person", "ann", **t)),
    "nodes": ("read", lambda s, **t: s.nodes("Person", **t).to_arrow()),
    "profile": ("read", lambda s, **t: s.profile(ALL, **t)),
    "query": ("read", lambda s, **t: s.query(ALL, **t)),
    "snapshot": ("read", lambda s, **t: s.snapshot(**t)),
    "subgraph": ("read", lambda s, **t: s.subgraph([("Person", "ann")], **t)),
    "to_networkx": ("read", lambda s, **t: s.to_networkx(**t)),
}
"""What takes a target: the action, which is asked for on the branches of the target, and the call."""


class Case(NamedTuple):
    """One call and the questions it asks; ``looks_up`` if something must be found to ask them."""

    call: Callable[..., object]
    questions: tuple[str, ...]
    looks_up: bool = False
    leaves_out: tuple[str, ...] = ()
    """Questions that come later: where they are denied, the answer has less in it."""


def case(
    call: Callable[..., object],
    *questions: str,
    looks_up: bool = False,
    leaves_out: tuple[str, ...] = (),
) -> Case:
    """A case with its questions in order; `{n}` in them stands for the name of the call."""
    return Case(call, questions, looks_up, leaves_out)


WRITES: dict[str, list[Case]] = {
    "blobs.write": [
        case(
            lambda s, w, n, **a: s.blobs.write(*BLOB, w.pieces(), branch=" side ", **a),
            "change side -",
        )
    ],
    "branches.create": [
        case(lambda s, w, n, **a: s.branches.create(f" {n} ", **a), "branch_create main {n}", "read main -"),
        case(lambda s, w, n, **a: s.branches.create(n, " side ", **a), "branch_create side {n}", "read side -"),
        case(
            lambda s, w, n, **a: s.branches.create(n, og.at(snapshot=w.side_commit), **a),
            "branch_create side {n}",
            "read side -",
            looks_up=True,
        ),
        # That commit was made on `main`.
        case(
            lambda s, w, n, **a: s.branches.create(n, og.at("fresh", time=FAR), **a),
            "branch_create main {n}",
            "read fresh -",
            looks_up=True,
        ),
        case(
            lambda s, w, n, **a: s.branches.create(n, og.at(tag="of-side"), **a),
            "branch_create side {n}",
            "read side -",
            looks_up=True,
        ),
    ],
    "branches.delete": [
        case(lambda s, w, n, **a: s.branches.delete(" gone ", **a), "branch_delete - gone")
    ],
    "branches.merge": [
        case(
            lambda s, w, n, **a: s.branches.merge("side", " main ", dry_run=True, **a),
            "read side -",
            "read main -",
        ),
        case(
            lambda s, w, n, **a: s.branches.merge(" fresh ", " side ", **a),
            "branch_merge fresh side",
            "read fresh -",
        ),
        # The merge may take long, so whether the branch may be deleted is asked again after it.
        case(
            lambda s, w, n, **a: s.branches.merge(" merged ", " side ", delete_branch=True, **a),
            "branch_merge merged side",
            "read merged -",
            "branch_delete - merged",
            leaves_out=("branch_delete - merged",),
        ),
    ],
    "commits.revert": [
        case(
            lambda s, w, n, **a: s.commits.revert(w.main_commit, "fresh", dry_run=True, **a),
            "read fresh -",
            "read main -",
            looks_up=True,
        ),
        case(
            lambda s, w, n, **a: s.commits.revert(w.side_commit, " side ", **a), "change side -"
        ),
    ],
    "purge": [
        case(lambda s, w, n, **a: s.purge({"Person": ["nobody"]}, **a), "purge - -"),
        case(lambda s, w, n, **a: s.purge({"Person": ["ann"]}, dry_run=True, **a), "purge - -"),
    ],
    "embed": [case(lambda s, w, n, **a: s.embed(" side ", **a), "change side -")],
    "load": [
        case(lambda s, w, n, **a: s.load(w.records(n), branch=" side ", **a), "change side -"),
        case(
            lambda s, w, n, **a: s.load(w.records(n), branch=f" {n} ", from_branch=" side ", **a),
            "branch_create side {n}",
            "read side -",
            "change {n} -",
            looks_up=True,
        ),
        # The branch is there, so nothing is forked.
        case(
            lambda s, w, n, **a: s.load(w.records(n), branch="side", from_branch="main", **a),
            "change side -",
            looks_up=True,
        ),
    ],
    "load_edges": [
        case(
            lambda s, w, n, **a: s.load_edges("Knows", w.frame("ann", "from", "to"), **a),
            "change main -",
        )
    ],
    "load_nodes": [
        case(
            lambda s, w, n, **a: s.load_nodes("Person", w.frame(n, "name"), branch=" side ", **a),
            "change side -",
        )
    ],
    "mutate": [
        case(
            lambda s, w, n, **a: s.mutate(w.source(ADD), {"name": n}, branch=" side ", **a),
            "change side -",
        )
    ],
    "schema.apply": [
        case(
            lambda s, w, n, **a: s.schema.apply(w.source(SCHEMA), **a), "schema_apply - main"
        )
    ],
    "tags.create": [
        case(lambda s, w, n, **a: s.tags.create(n, **a), "tag_create main -", looks_up=True),
        case(
            lambda s, w, n, **a: s.tags.create(n, " side ", **a),
            "tag_create side -",
            looks_up=True,
        ),
        # The head of that branch was made on `main`.
        case(
            lambda s, w, n, **a: s.tags.create(n, "fresh", **a),
            "tag_create main -",
            "tag_create fresh -",
            looks_up=True,
        ),
        case(
            lambda s, w, n, **a: s.tags.create(n, og.at(tag="of-side"), **a),
            "tag_create side -",
            looks_up=True,
        ),
    ],
    "tags.delete": [
        case(lambda s, w, n, **a: s.tags.delete(" old ", **a), "tag_delete side -", looks_up=True)
    ],
}  # fmt: skip
"""What writes, and takes the name of an actor."""

OTHERS: dict[str, list[Case]] = {
    "branches.list": [case(lambda s, w, n: s.branches.list(), "read - -")],
    "catalog_document": [case(lambda s, w, n: s.catalog_document(), "read - -")],
    "changes.baseline": [
        case(lambda s, w, n: s.changes.baseline(io.BytesIO(), " side "), "export side -")
    ],
    "changes.poll": [
        case(lambda s, w, n: s.changes.poll(), "read main -"),
        case(
            lambda s, w, n: s.changes.poll(" side ", start="beginning"),
            "read side -",
            leaves_out=("read main -",),
        ),
    ],
    "commits.changes": [
        case(lambda s, w, n: s.commits.changes(w.side_commit), "read side -", looks_up=True),
        case(lambda s, w, n: s.commits.changes(w.main_commit), "read main -", looks_up=True),
    ],
    "commits.history": [
        case(
            lambda s, w, n: s.commits.history(),
            "read - -",
            leaves_out=tuple(f"read {name} -" for name in ("main", "fresh", "side")),
        ),
        case(
            lambda s, w, n: s.commits.history(" side "),
            "read side -",
            leaves_out=("read main -",),
        ),
        case(
            lambda s, w, n: s.commits.history(iter(["main", " side "])),
            "read main -",
            "read side -",
        ),
    ],
    "commits.list": [
        case(lambda s, w, n: s.commits.list(), "read main -"),
        case(lambda s, w, n: s.commits.list(" side "), "read side -", leaves_out=("read main -",)),
    ],
    "commits.show": [
        case(lambda s, w, n: s.commits.show(w.side_commit), "read side -", looks_up=True),
        case(lambda s, w, n: s.commits.show(w.main_commit), "read main -", looks_up=True),
    ],
    "diff": [
        case(lambda s, w, n: s.diff("main", " side ").changes, "read main -", "read side -"),
        case(
            lambda s, w, n: s.diff(og.at(snapshot=w.side_commit), og.at(tag="of-main")).changes,
            "read side -",
            "read main -",
            looks_up=True,
        ),
    ],
    "may_load": [
        case(lambda s, w, n: s.may_load(" side "), "change side -"),
        case(lambda s, w, n: s.may_load(from_=" side "), "change main -", looks_up=True),
        case(
            lambda s, w, n: s.may_load(f" {n} ", from_=" side "),
            "branch_create side {n}",
            "read side -",
            "change {n} -",
            looks_up=True,
        ),
    ],
    "may_write": [
        case(lambda s, w, n: s.may_write(), "change main -"),
        case(lambda s, w, n: s.may_write(" side "), "change side -"),
    ],
    "schema.catalog": [case(lambda s, w, n: s.schema.catalog, "read - -")],
    "schema.diff": [
        case(lambda s, w, n: s.schema.diff("main", " side "), "read main -", "read side -"),
    ],
    "schema.plan": [
        case(lambda s, w, n: s.schema.plan(w.source(MORE)), "read - -"),
        case(lambda s, w, n: s.schema.plan(w.source(MORE), branch=" side "), "read side -"),
    ],
    "schema.show": [
        case(lambda s, w, n: s.schema.show(), "read - -"),
        case(lambda s, w, n: s.schema.show(branch=" side "), "read side -"),
    ],
    "schema.source": [case(lambda s, w, n: s.schema.source, "read - -")],
    "status": [case(lambda s, w, n: s.status(), "read - -")],
    "tags.list": [case(lambda s, w, n: s.tags.list(), "read - -")],
}
"""What only reads, and takes no target."""

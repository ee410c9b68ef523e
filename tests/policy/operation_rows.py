"""Every operation of the table: how it is asked for, and what the policy is asked then.

A row has the request as it travels (a body or parameters, and the values in its path) and the same call in Python.
Questions are texts as in ``calls``: the action, the branch and the target, with a dash for what there is not; `{n}`
stands for a name that no other call uses.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.service.permissions import permissions
from omnigraph.service.query import LintRequest, lint
from omnigraph.service.stored import InvokeRequest, invoke, list_queries
from omnigraph.service.wire import PermissionCheck
from tests.policy.calls import ADD, ADD_MATCHED, ADD_SHOWN, ALL, BLOB
from tests.policy.world import SCHEMA, World

LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
PHOTO = dict(zip(("kind", "type", "id", "property"), BLOB, strict=True))
STORED = {
    "everybody": ALL.replace("all()", "everybody()"),
    "newcomer": ADD.replace("add(", "newcomer("),
}
"""Stored queries: one that reads, one that writes."""


@dataclass(frozen=True)
class Row:
    """One way to ask for an operation. ``request`` and ``path`` are made from the world and a fresh name.

    ``looks_up``: something must be found before the question is known. ``leaves_out`` are questions that do
    not refuse, but shorten the answer. ``unseen`` is the kind of error of what is denied by being unknown.
    """

    questions: tuple[str, ...]
    python: Callable[[Any, World, str], object]
    request: Callable[[World, str], Mapping[str, Any]] = lambda _w, _n: {}
    path: Callable[[World, str], tuple[str, ...]] = lambda _w, _n: ()
    looks_up: bool = False
    leaves_out: tuple[str, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)
    accept: str | None = None
    method: str | None = None
    body: Callable[[str], bytes] | None = None
    media_type: str = ""


def _reading(python: Callable[..., object], **request: Any) -> list[Row]:
    """A read of a branch, by its name with blanks, and by a commit and a tag of it."""
    rows = []
    for looks_up, target in (
        (False, lambda _: {"branch": " side "}),
        (True, lambda w: {"snapshot": w.side_commit}),
        (True, lambda _: {"tag": "of-side"}),
    ):
        rows.append(
            Row(
                ("read side -",),
                lambda s, w, _, target=target: python(s, **target(w)),
                lambda w, _, target=target: {**request, **target(w)},
                looks_up=looks_up,
            )
        )
    return rows


def _record(n: str) -> str:
    return json.dumps({"type": "Person", "data": {"name": n}})


def _lines(n: str) -> bytes:
    return _record(n).encode()


SIDE = lambda _w, _n: {"branch": " side "}  # noqa: E731 - the branch that most calls are about
UNKNOWN_COMMIT = {"read side -": "commit_not_found"}

ROWS: dict[str, list[Row]] = {
    "snapshot": _reading(lambda s, **t: s.snapshot(**t)),
    "query": [
        *_reading(lambda s, **t: s.query(ALL, **t), query=ALL),
        *(
            Row(
                ("read side -",),
                lambda s, w, n: s.query(ALL, branch=" side ").to_arrow(),
                lambda w, n: {"query": ALL, "branch": " side "},
                accept=accept,
            )
            for accept in (LINES, ARROW)
        ),
    ],
    "queries": [Row(("read - -",), lambda s, w, n: list_queries(s, w.stored))],
    "invoke": [
        Row(
            ("invoke_query - -", "read side -"),
            lambda s, w, n: invoke(s, w.stored, "everybody", InvokeRequest(branch=" side ")),
            SIDE,
            lambda w, n: ("everybody",),
            unseen={"invoke_query - -": "stored_query_not_found"},
        ),
        Row(
            ("invoke_query - -", "change side -"),
            lambda s, w, n: invoke(
                s, w.stored, "newcomer", InvokeRequest(params={"name": n}, branch=" side ")
            ),
            lambda w, n: {"params": {"name": n}, "branch": " side "},
            lambda w, n: ("newcomer",),
            unseen={"invoke_query - -": "stored_query_not_found"},
        ),
    ],
    "explain": [
        *_reading(lambda s, **t: s.explain(ALL, **t), query=ALL),
        *_reading(lambda s, **t: s.profile(ALL, **t), query=ALL, profile=True),
    ],
    "lint": [
        Row(
            ("read - -",),
            lambda s, w, n: lint(s, LintRequest(source=ALL), w.graph.uri),
            lambda w, n: {"source": ALL},
        )
    ],
    "catalog": [Row(("read - -",), lambda s, w, n: s.catalog_document())],
    "status": [Row(("read - -",), lambda s, w, n: s.status())],
    "entity": _reading(
        lambda s, **t: s.entity("node", "Person", "ann", **t), kind="node", type="Person", id="ann"
    ),
    "entity_history": _reading(
        lambda s, **t: s.history("node", "Person", "ann", **t), kind="node", type="Person", id="ann"
    ),
    "entity_blame": _reading(
        lambda s, **t: s.blame("node", "Person", "ann", **t), kind="node", type="Person", id="ann"
    ),
    "neighbors": _reading(
        lambda s, **t: s.neighbors("Person", "ann", **t), type="Person", id="ann"
    ),
    "subgraph": [
        *_reading(
            lambda s, **t: s.subgraph([("Person", "ann")], **t),
            nodes=[{"type": "Person", "id": "ann"}],
        ),
        *_reading(lambda s, **t: s.subgraph(query=ALL, **t), query=ALL),
    ],
    "history": [
        Row(
            ("read - -",),
            lambda s, w, n: s.commits.history(),
            leaves_out=tuple(f"read {branch} -" for branch in ("main", "fresh", "side")),
        ),
        Row(
            ("read side -",),
            lambda s, w, n: s.commits.history(" side "),
            lambda w, n: {"branch": " side "},
            leaves_out=("read main -",),
        ),
    ],
    "diff": [
        Row(
            ("read main -", "read side -"),
            lambda s, w, n: s.diff("main", " side ").changes,
            lambda w, n: {"from": "main", "to": " side "},
        ),
        Row(
            ("read side -", "read main -"),
            lambda s, w, n: s.diff(f"commit:{w.side_commit}", "tag:of-main").changes,
            lambda w, n: {"from": f"commit:{w.side_commit}", "to": {"tag": "of-main"}},
            looks_up=True,
        ),
    ],
    # About oneself alone: denials are its answer.
    "permissions": [
        Row(
            (),
            lambda s, w, n: permissions(s, [PermissionCheck(action="change", branch="side")]),
            lambda w, n: {"checks": [{"action": "change", "branch": "side"}]},
            leaves_out=("change side -",),
        )
    ],
    "mutate": [
        Row(
            ("change side -",),
            lambda s, w, n: s.mutate(w.source(ADD), {"name": n}, branch=" side "),
            lambda w, n: {"query": ADD, "params": {"name": n}, "branch": " side "},
        ),
        *(
            Row(
                ("change side -", "read side -"),
                lambda s, w, n, text=text: s.mutate(text, {"name": n}, branch=" side "),
                lambda w, n, text=text: {"query": text, "params": {"name": n}, "branch": " side "},
            )
            for text in (ADD_SHOWN, ADD_MATCHED)
        ),
    ],
    **{
        name: [
            Row(
                ("change side -",),
                lambda s, w, n: s.load(w.records(n), branch=" side "),
                lambda w, n: {"data": _record(n), "branch": " side "},
            ),
            Row(
                ("branch_create side {n}", "read side -", "change {n} -"),
                lambda s, w, n: s.load(w.records(n), branch=n, from_branch=" side "),
                lambda w, n: {"data": _record(n), "branch": n, "from": " side "},
                looks_up=True,
            ),
        ]
        for name in ("load", "ingest")
    },
    "load_ndjson": [
        Row(
            ("change side -",),
            lambda s, w, n: s.load(w.records(n), branch=" side "),
            SIDE,
            body=_lines,
            media_type=LINES,
        ),
        Row(
            ("branch_create side {n}", "read side -", "change {n} -"),
            lambda s, w, n: s.load(w.records(n), branch=n, from_branch=" side "),
            lambda w, n: {"branch": n, "from": " side "},
            looks_up=True,
            body=_lines,
            media_type=LINES,
        ),
    ],
    "load_table": [
        Row(
            ("change side -",),
            lambda s, w, n: s.load_nodes("Person", w.frame(n, "name"), branch=" side "),
            lambda w, n: {"kind": "node", "type": "Person", "format": "csv", "branch": " side "},
            body=lambda n: f"name\n{n}\n".encode(),
            media_type="text/csv",
        )
    ],
    "embed": [Row(("change side -",), lambda s, w, n: s.embed(" side "), SIDE)],
    "export": [
        Row(
            ("export side -",),
            lambda s, w, n, looked=looked: s.export(io.BytesIO(), **looked(w)),
            lambda w, n, looked=looked: looked(w),
            looks_up=looks_up,
        )
        for looks_up, looked in (
            (False, lambda _: {"branch": " side "}),
            (True, lambda w: {"snapshot": w.side_commit}),
        )
    ],
    "blob": [
        *_reading(lambda s, **t: s.blobs.read(*BLOB, **t), **PHOTO),
        Row(
            ("read side -",),
            lambda s, w, n: s.blobs.stat(*BLOB, branch=" side "),
            lambda w, n: {**PHOTO, "branch": " side "},
            method="HEAD",
        ),
    ],
    "put_blob": [
        Row(
            ("change side -",),
            lambda s, w, n: s.blobs.write(*BLOB, w.pieces(), branch=" side "),
            lambda w, n: {**PHOTO, "branch": " side "},
            body=lambda n: b"new bytes of " + n.encode(),
            media_type="image/png",
        )
    ],
    "clear_blob": [
        Row(
            ("change side -",),
            lambda s, w, n: s.blobs.write(*BLOB, None, branch=" side "),
            lambda w, n: {**PHOTO, "branch": " side "},
        )
    ],
    "branches": [Row(("read - -",), lambda s, w, n: s.branches.list())],
    "create_branch": [
        Row(
            ("branch_create side {n}", "read side -"),
            lambda s, w, n: s.branches.create(f" {n} ", " side "),
            lambda w, n: {"name": f" {n} ", "from": " side "},
        ),
        Row(
            ("branch_create side {n}", "read side -"),
            lambda s, w, n: s.branches.create(n, f"commit:{w.side_commit}"),
            lambda w, n: {"name": n, "from": {"snapshot": w.side_commit}},
            looks_up=True,
        ),
    ],
    "delete_branch": [
        Row(
            ("branch_delete - {n}",),
            lambda s, w, n: s.branches.delete(w.branch(n)),
            path=lambda w, n: (w.branch(n),),
        )
    ],
    "merge": [
        Row(
            ("branch_merge fresh side", "read fresh -"),
            lambda s, w, n: s.branches.merge(" fresh ", " side "),
            lambda w, n: {"source": " fresh ", "target": " side "},
        ),
        Row(
            ("branch_merge {n} side", "read {n} -", "branch_delete - {n}"),
            lambda s, w, n: s.branches.merge(w.branch(n), "side", delete_branch=True),
            lambda w, n: {"source": w.branch(n), "target": "side", "delete_branch": True},
        ),
        Row(
            ("read side -", "read main -"),
            lambda s, w, n: s.branches.merge("side", "main", dry_run=True),
            lambda w, n: {"source": "side", "target": "main", "dry_run": True},
        ),
    ],
    "merge_plan": [
        Row(
            ("read side -", "read main -"),
            lambda s, w, n: s.branches.merge("side", dry_run=True),
            lambda w, n: {"source": " side "},
        )
    ],
    "tags": [Row(("read - -",), lambda s, w, n: s.tags.list())],
    "create_tag": [
        Row(
            ("tag_create side -",),
            lambda s, w, n: s.tags.create(n, f"commit:{w.side_commit}"),
            lambda w, n: {"name": n, "snapshot": w.side_commit},
            looks_up=True,
        ),
        # The head of that branch was made on `main`.
        Row(
            ("tag_create main -", "tag_create fresh -"),
            lambda s, w, n: s.tags.create(n, "fresh"),
            lambda w, n: {"name": n, "branch": "fresh"},
            looks_up=True,
        ),
    ],
    "delete_tag": [
        Row(
            ("tag_delete side -",),
            lambda s, w, n: s.tags.delete(w.tag(n)),
            path=lambda w, n: (w.tag(n),),
            looks_up=True,
        )
    ],
    "commits": [
        Row(
            ("read side -",),
            lambda s, w, n: s.commits.list(" side "),
            SIDE,
            leaves_out=("read main -",),
        )
    ],
    "commit": [
        Row(
            ("read side -",),
            lambda s, w, n: s.commits.show(w.side_commit),
            path=lambda w, n: (w.side_commit,),
            looks_up=True,
            unseen=UNKNOWN_COMMIT,
        )
    ],
    "purge": [
        Row(
            ("purge - -",),
            lambda s, w, n: s.purge({"Person": ["nobody"]}),
            lambda w, n: {"entities": {"Person": ["nobody"]}},
        ),
        Row(
            ("purge - -",),
            lambda s, w, n: s.purge({"Person": ["ann"]}, dry_run=True),
            lambda w, n: {"entities": {"Person": ["ann"]}, "dry_run": True},
        ),
    ],
    "revert": [
        Row(
            ("change side -",),
            lambda s, w, n: s.commits.revert(w.commit(n), " side "),
            SIDE,
            lambda w, n: (w.commit(n),),
        ),
        Row(
            ("read side -",),
            lambda s, w, n: s.commits.revert(w.side_commit, "side", dry_run=True),
            lambda w, n: {"branch": "side", "dry_run": True},
            lambda w, n: (w.side_commit,),
            looks_up=True,
        ),
    ],
    "commit_changes": [
        Row(
            ("read side -",),
            lambda s, w, n: s.commits.changes(w.side_commit),
            path=lambda w, n: (w.side_commit,),
            looks_up=True,
            unseen=UNKNOWN_COMMIT,
        )
    ],
    "changes": [
        Row(
            ("read side -",),
            lambda s, w, n: s.changes.poll(" side ", start="beginning"),
            lambda w, n: {"branch": " side ", "start": "beginning"},
            # A feed with a hole in it would be taken for a whole one.
            leaves_out=("read main -",),
        )
    ],
    "baseline": [
        Row(("export side -",), lambda s, w, n: s.changes.baseline(io.BytesIO(), " side "), SIDE)
    ],
    "schema": [Row(("read - -",), lambda s, w, n: s.schema.source)],
    "schema_diff": [
        Row(
            ("read main -", "read side -"),
            lambda s, w, n: s.schema.diff("main", " side "),
            lambda w, n: {"from": "main", "to": " side "},
        )
    ],
    "schema_plan": [
        Row(
            ("read - -",),
            lambda s, w, n: s.schema.plan(SCHEMA),
            lambda w, n: {"schema_source": SCHEMA},
        )
    ],
    "apply_schema": [
        Row(
            ("schema_apply - main",),
            lambda s, w, n: s.schema.apply(w.source(SCHEMA)),
            lambda w, n: {"schema_source": SCHEMA},
        )
    ],
}
"""How each operation is asked for. A new one fails until it stands here."""

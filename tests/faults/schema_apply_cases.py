"""A graph whose types all change at once, in every way a schema apply knows, and what it must hold.

Each way comes with and without a Blob: ``Add`` and ``AddBlob``, ``Rename`` and ``RenameBlob``, ... So
one apply, stopped between any two of its table commits, tries every way at every stage.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import omnigraph.write.schema_apply  # noqa: F401 - declares the points
from omnigraph import failpoints
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import drifted
from tests.opened import workspace_of
from tests.stored import read_back

# What the properties of a type are before and after: names of columns and their declarations.
PLAIN = {"a": "I32?", "b": "I32?", "must": "I32", "gone": "String?"}
SOFT = {
    "Add": {"a": "I32?", "b": "I32?", "must": "I32", "gone": "String?", "more": "I32?"},
    "Fill": {**PLAIN, "rank": "I32 @default(7)", "tags": '[String] @default(["a"])'},
    "Rename": {
        "x": 'I32? @rename_from("a")',
        "y": 'I32? @rename_from("b")',
        "must": "I32",
        "gone": "String?",
    },
    "Relax": {"a": "I32?", "b": "I32?", "must": "I32?", "gone": "String?"},
    "Drop": {"a": "I32?", "b": "I32?", "must": "I32"},
    "All": {"x": 'I32? @rename_from("a")', "must": "I32?", "gone": "String?", "more": "Blob?"},
}
HARD = {
    "Drop": {"a": "I32?", "b": "I32?", "must": "I32"},
    "All": {"x": 'I32? @rename_from("a")', "must": "I32?", "more": "I32?"},
}
FILLED = {"rank": 7, "tags": ["a"]}
"""The defaults that rows get which are there before."""
# Columns that are written anew, with an index each, and rules that are judged by all rows.
NUMBERS = {"a": "I32? @index", "b": "I32?", "must": "U32 @index", "gone": "String?"}
EVERYDAY = {
    "Widen": {"a": "I64? @index", "b": "I32?", "must": "I64 @index", "gone": "String?"},
    "Strict": {
        "a": "I32 @index @unique(k, a)",
        "b": "I32? @range(b, 0..9)",
        "must": "U32 @index",
        "gone": 'String @check(gone, "^old")',
    },
    "All": {
        "x": 'I64 @index @rename_from("a")',
        "must": "U64? @index",
        "gone": "String",
        "more": "Blob?",
    },
}
SECRET = b"a secret \x00\x01" * 10_000
BODY = b"what stays" * 20_000


def _declared(name: str, properties: Mapping[str, str], blob: bool, secret: bool) -> str:
    shown = {"k": "String @key", **properties}
    if blob:
        shown["body"] = "Blob?"
    if secret:
        shown["secret"] = "Blob?"
    return f"node {name} {{ {'  '.join(f'{key}: {type_}' for key, type_ in shown.items())} }}"


class Change:
    """One apply: the source before and after, and the rows of every type before and after."""

    def __init__(
        self,
        kinds: Mapping[str, Mapping[str, str]],
        *,
        hard: bool,
        first: Mapping[str, str] = PLAIN,
    ) -> None:
        self.hard = hard
        old, new = [], []
        self.before: dict[str, dict[str, Any]] = {"Still": {}}
        self.after: dict[str, dict[str, Any]] = {"Still": {}, "Fresh": {}}
        for kind, wanted in kinds.items():
            for blob in (False, True):
                name = f"{kind}Blob" if blob else kind
                secret = hard and blob
                old.append(_declared(name, first, blob, secret))
                new.append(_declared(name, wanted, blob, secret=False))
                row = {"a": 1, "b": 2, "must": 3, "gone": "old", **({"body": BODY} if blob else {})}
                self.before[name] = {**row, **({"secret": SECRET} if secret else {})}
                self.after[name] = {
                    key: FILLED.get(key, row.get(_origin(key, type_)))
                    for key, type_ in wanted.items()
                } | ({"body": BODY} if blob else {})
        still = "node Still { k: String @key }"
        doomed = "node Doomed { k: String @key  n: I32? }"
        self.before["Doomed"] = {"n": 5}
        self.old = "\n".join([*old, still, doomed])
        self.new = "\n".join([*new, still, "node Fresh { k: String @key }"])

    def source(self, is_new: bool) -> str:
        return self.new if is_new else self.old

    def rows(self, is_new: bool, keys: str = "p") -> dict[str, dict[str, Any]]:
        """What `read_back` gives for rows of these keys; ``Fresh`` begins empty."""
        shapes = self.after if is_new else self.before
        return {
            name: {} if name == "Fresh" and key == "p" else {key: {"k": key, **values}}
            for name, values in shapes.items()
            for key in keys
        }

    def records(self, is_new: bool, key: str) -> list[dict[str, Any]]:
        """One record for every type, with all its properties except blobs."""
        shapes = self.after if is_new else self.before
        return [
            {"type": name, "data": {"k": key, **_without_blobs(values)}}
            for name, values in shapes.items()
        ]


def _origin(name: str, declared: str) -> str:
    _, hint, rest = declared.partition('@rename_from("')
    if hint:
        return rest.partition('"')[0]
    return name if name in PLAIN else ""


def _without_blobs(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if not isinstance(value, bytes) and name != "more"
    }


CHANGES = {
    "soft": Change(SOFT, hard=False),
    "hard": Change(HARD, hard=True),
    "everyday": Change(EVERYDAY, hard=False, first=NUMBERS),
}


def build(place: Path, change: Change) -> str:
    """The graph before the change, with indexes, a deleted row and blobs of two kinds."""
    from tests.oracle.graph import Graph as PlainGraph
    from tests.stored import fill

    uri = str(place)
    with init(uri, change.old) as graph:
        fill(graph, PlainGraph(change.rows(False), {}))
        graph.load(change.records(False, "brief"), mode="append")
        for name in change.before:
            graph.mutate(f'query q() {{ delete {name} where k = "brief" }}')
        graph.ensure_indices()
    return uri


def check_whole(graph: Graph, change: Change, *, is_new: bool, extra: str = "") -> None:
    """The graph has the old or the new schema with its rows, and nothing is left undone."""
    assert graph.schema.source == change.source(is_new)
    found = read_back(graph).nodes
    wanted = change.rows(is_new)
    assert found.keys() == wanted.keys()
    for name, rows in wanted.items():
        kept = {key: row for key, row in found[name].items() if key != extra}
        assert kept == rows, name
    assert drifted(graph) == []
    assert workspace_of(graph).store.list("__recovery") == []
    assert Path(workspace_of(graph).root.path, "_schema.pg").read_text() == change.source(is_new)


def secrets_in(place: str) -> list[Path]:
    """The files that have the bytes of the hard-dropped blob."""
    return [
        path for path in Path(place).rglob("*") if path.is_file() and SECRET in path.read_bytes()
    ]


# ------------------------------------------------------------------ what other processes run


def apply_and_die(uri: str, name: str, point: str, skip: int) -> None:
    """Apply the change, and leave the process at the point without any clean-up."""
    change = CHANGES[name]
    with open_graph(uri) as graph:
        failpoints.arm(point, "exit:0", skip=skip)
        graph.schema.apply(change.new, allow_data_loss=change.hard)
    os._exit(3)  # the point was not reached


def apply_paused(pipe: Any, uri: str, name: str, point: str, skip: int, pause: str) -> None:
    """Apply the change, stopping at the point until told to go on; say what became of it."""
    change = CHANGES[name]
    with open_graph(uri) as graph:
        failpoints.arm(point, failpoints.FilePause(Path(pause)), times=1, skip=skip)
        try:
            made = graph.schema.apply(change.new, allow_data_loss=change.hard)
        except OmniGraphError as error:
            pipe.send(error.code)
        else:
            pipe.send("applied" if made.applied else "nothing")


def seen_by(graph: Graph, change: Change) -> str:
    """Which schema a handle shows: its source, its answers and its rows must all agree."""
    old_query = "query q() { match { $t: All } return { $t.k as k, $t.a as v } }"
    new_query = "query q() { match { $t: All } return { $t.k as k, $t.x as v } }"
    answers = {}
    for name, text in (("old", old_query), ("new", new_query)):
        try:
            answers[name] = [row["v"] for row in graph.query(text).rows if row["k"] == "p"]
        except OmniGraphError:
            continue
    is_new = graph.schema.source == change.new
    name = "new" if is_new else "old"
    if answers != {name: [1]}:
        return f"a mixture: {name} source, answers {answers}"
    return name


ACTIONS = ("read", "write", "empty load", "open r", "open rw", "branch")


def meet_an_apply(pipe: Any, uri: str, name: str, wait: str) -> None:
    """Do everything others do, each time when told; say how it ended and which schema was seen."""
    os.environ["OMNIGRAPH_LOCK_WAIT_MS"] = wait
    change = CHANGES[name]
    with open_graph(uri) as warm:
        seen_by(warm, change)
        pipe.send("ready")
        for turn in ("q", "r"):
            pipe.recv()
            pipe.send({action: _act(action, warm, change, turn) for action in ACTIONS})


def _act(action: str, warm: Graph, change: Change, key: str) -> tuple[str, str]:
    outcome, seen = "done", "nothing"
    try:
        match action:
            case "read":
                pass
            case "write":
                is_new = warm.schema.source == change.new
                warm.load(change.records(is_new, key), mode="append")
            case "empty load":
                warm.load([], mode="append")
            case "branch":
                warm.branches.create(f"b{key}")
                warm.branches.delete(f"b{key}")
            case _:
                with open_graph(warm.uri, mode=action.removeprefix("open ")) as other:
                    seen = seen_by(other, change)
    except OmniGraphError as error:
        outcome = error.code
    return outcome, seen if action.startswith("open") else seen_by(warm, change)

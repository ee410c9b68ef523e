"""Stored documents, the states an index of theirs can be in, and the oracle's word on them."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import InlineStep, TableChange, Write
from omnigraph.commit.protocol import commit
from omnigraph.graph import Graph
from omnigraph.lang.query import ir
from omnigraph.manifest.publisher import Intent
from omnigraph.read.search.text_match import text_matches
from omnigraph.read.view.view import View
from omnigraph.storage.tables.table import Table
from omnigraph.types import PropType, Scalar
from tests.opened import fresh_reader, workspace_of
from tests.oracle.analysis import analyse, within_edits

SCHEMA = """
node Doc { ref: String @key
  body: String? @index
  vec: Vector(8)? @index }
"""
TEXT = PropType(Scalar.STRING)
WHOLE = PropType(Scalar.I64)
VECTOR = PropType(Scalar.F32, dim=8)

_WORDS = """
    run running runs runner generous generously generation comparison comparisons compare compared
    computer computing computation network networks happy happiness happily tower towers hello helo
    hallo world wörld résumé resume naïve naive über uber straße strasse Łódź café cafe garçon the
    of and is on not x-ray 3.14 2024 foo_bar it's
"""
WORDS = _WORDS.split()


def document(ref: str, body: str | None, vec: list[float] | None = None) -> dict[str, Any]:
    return {"type": "Doc", "data": {"ref": ref, "body": body, "vec": vec}}


def random_text(rng: random.Random) -> str | None:
    """Words with stems, accents, stop words and typing errors; sometimes nothing."""
    if rng.random() < 0.1:
        return rng.choice([None, "", "the of and"])
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 7))]
    return " ".join(_mistyped(rng, word) if rng.random() < 0.15 else word for word in words)


def _mistyped(rng: random.Random, word: str) -> str:
    at = rng.randrange(len(word))
    return word[:at] + rng.choice(["", "q", word[at] * 2]) + word[at + 1 :]


def view_of(graph: Graph, branch: str = "main") -> View:
    return fresh_reader(graph).view(graph.snapshot(branch=branch), graph.schema.catalog)


def maintain(graph: Graph, run: Callable[[Table], Table], branch: str = "main") -> None:
    """One of Lance's maintenance calls on the documents, as a commit of its own."""
    pin = graph.snapshot(branch=branch).tables["node:Doc"]
    change = TableChange(pin, (InlineStep("maintain", run),))
    commit(
        workspace_of(graph),
        Write(
            "optimize",
            workspace_of(graph).manifest.state(branch).pin,
            Intent(new_ulid(), "load", stamp_us()),
            (change,),
        ),
    )


def body() -> ir.PropertyOf:
    return ir.PropertyOf("d", "body", TEXT)


def text_predicate(function: Any, query: str | None, edits: int | None = None) -> ir.TextMatch:
    given = None if edits is None else ir.Const(edits, WHOLE)
    return ir.TextMatch(function, body(), ir.Const(query, TEXT), given)


def found(view: View, predicate: ir.TextMatch, **params: Any) -> list[str]:
    """The ids of the documents that satisfy a predicate, in the order given."""
    codes = text_matches(view, view.catalog.nodes["Doc"], predicate, params)
    assert codes.dtype == np.int32
    assert np.all(codes[1:] > codes[:-1])
    ids: list[str] = view.nodes("Doc").ids(codes).to_pylist()
    return ids


def texts_of(view: View) -> dict[str, str]:
    """Every text by id, from a plain read."""
    rows = view.table(view.catalog.nodes["Doc"]).table.read(["id", "body"]).to_pylist()
    return {row["id"]: row["body"] for row in rows if row["body"] is not None}


def expected(view: View, query: str, edits: int) -> list[str]:
    """The ids of the documents the oracle finds."""
    return expected_of(texts_of(view), query, edits)


def expected_of(texts: dict[str, str], query: str, edits: int) -> list[str]:
    """The keys of the texts the oracle finds."""
    wanted = _analyse(query)
    return sorted(
        ref
        for ref, text in texts.items()
        if any(_within(want, term, edits) for want in wanted for term in _analyse(text))
    )


_analyse = functools.cache(analyse)
_within = functools.cache(within_edits)

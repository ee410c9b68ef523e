"""What `status` advises, and why: pure functions of figures that it has found.

Advice is given where it changes something that people notice. A table on which upkeep works by itself, or
one too small for indexes, gets none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

AdviceCode = Literal[
    "compact",
    "index_missing",
    "index_degraded",
    "index_damaged",
    "drift",
    "recovery_pending",
    "moved",
    "cleanup",
]

LARGE_MANIFEST_BYTES: Final = 4 << 20
"""Every commit to a table writes its manifest again."""
MANY_VERSIONS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, why, and the command that does it; None if no command can."""

    code: AdviceCode
    message: str
    command: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {"code": self.code, "message": self.message, "command": self.command}


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """An index of a table: how much it covers, and how many fragments and rows it does not."""

    column: str
    kind: str | None
    coverage: str
    uncovered_fragments: int = 0
    uncovered_rows: int = 0
    damage: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "column": self.column,
            "kind": self.kind,
            "coverage": self.coverage,
            "uncovered_fragments": self.uncovered_fragments,
        }


@dataclass(frozen=True, slots=True)
class TableFigures:
    """What advice about a table rests on. ``missing`` are properties whose index is not built."""

    table_key: str
    rows: int
    small_fragments: int = 0
    manifest_bytes: int = 0
    indexes: Sequence[IndexFigures] = ()
    missing: Sequence[str] = ()
    drift: str | None = None
    """How the newest version differs from the pinned one, if nothing explains it."""


@dataclass(frozen=True, slots=True)
class GraphFigures:
    """What advice about a whole graph rests on; ``stuck`` says why a recovery is needed."""

    most_versions: int = 0
    stuck: str | None = None
    can_recover: bool = True
    owed: Sequence[str] = ()
    """Tables of which dropped data is still on disk."""
    orphans: Sequence[str] = ()
    """Branches that are gone and still have files."""
    moved_from: str | None = None
    """Where the graph was before it was copied or moved, if nobody has opened it for writing since."""
    drifts: Sequence[str] = ()
    """Tables of branches other than `main`, and how their newest versions differ from the pinned ones."""


def advise_table(
    uri: str, table: TableFigures, index_min_rows: int, fragments: int
) -> Iterator[Advice]:
    """Yield what one table needs.

    Below ``index_min_rows`` rows it can do without indexes; up to ``fragments`` fragments that are small or
    not covered are left to upkeep.
    """
    key = table.table_key
    optimize = command("optimize", uri)
    if table.drift is not None:
        yield _drift(f"{key} {table.drift}", uri)
    if table.small_fragments > fragments:
        text = f"{key} is stored in {table.small_fragments} small fragments, which slow reads down"
        yield Advice("compact", text, optimize)
    elif table.manifest_bytes > LARGE_MANIFEST_BYTES:
        size = f"{table.manifest_bytes / (1 << 20):.1f} MiB"
        yield Advice("compact", f"every write to {key} writes a manifest of {size}", optimize)
    if table.missing and table.rows >= index_min_rows:
        names = ", ".join(table.missing)
        text = f"{key} has no index on {names} yet, so look-ups there read the whole table"
        yield Advice("index_missing", text, command("ensure-indices", uri))
    for index in table.indexes:
        if index.damage is not None:
            text = (
                f"the {index.kind or 'foreign'} index of {key} on {index.column} cannot be read and is "
                f"not used: {index.damage}"
            )
            yield Advice("index_damaged", text, command("ensure-indices", uri))
        elif index.uncovered_fragments > fragments or index.uncovered_rows >= index_min_rows:
            text = (
                f"the {index.kind or 'foreign'} index of {key} on {index.column} does not cover "
                f"{index.uncovered_rows} rows in {index.uncovered_fragments} fragments"
            )
            yield Advice("index_degraded", text, optimize)


def advise_graph(uri: str, graph: GraphFigures) -> Iterator[Advice]:
    """Yield what the graph as a whole needs."""
    if graph.stuck is not None:
        # Every command that opens a graph for writing finishes or undoes what is pending.
        way = command("repair --confirm", uri) if graph.can_recover else None
        yield Advice("recovery_pending", graph.stuck, way)
    if graph.moved_from is not None:
        text = (
            f"the graph was copied or moved from {graph.moved_from}, and its branches cannot be read "
            "before it is settled here (with --moved it keeps its id, if the original is gone)"
        )
        yield Advice("moved", text, command("repair", uri))
    for drift in graph.drifts:
        yield _drift(drift, uri)
    if graph.owed:
        text = f"dropped data of {', '.join(graph.owed)} is still on disk"
        yield Advice("cleanup", text, command("cleanup --confirm", uri))
    if graph.orphans:
        text = f"deleted branches still have files: {', '.join(graph.orphans)}"
        yield Advice("cleanup", text, command("cleanup --confirm", uri))
    if graph.most_versions > MANY_VERSIONS:
        text = f"a table has {graph.most_versions} versions; those that nothing needs can go"
        yield Advice("cleanup", text, command("cleanup", uri))


def _drift(found: str, uri: str) -> Advice:
    return Advice("drift", f"{found}, so it takes no writes", command("repair", uri))


def command(words: str, uri: str) -> str:
    """Return a command line that can be copied into a shell."""
    return f"omnigraph {words} {shlex.quote(uri)}"

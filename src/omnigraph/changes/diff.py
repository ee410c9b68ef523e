"""The net difference of two snapshots: which entities were inserted, updated and deleted.

What happened in between does not matter. For example, from a snapshot with Ann to one with Ann (whose
age changed) and Bob:

    node Person Ann   update   before {age: 30}, after {age: 31}
    node Person Bob   insert                     after {age: 40}
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from omnigraph.changes.change_filter import ChangeFilter, Kind, Op
from omnigraph.changes.compare_tables import SparkFor, compare, nothing_on_spark
from omnigraph.changes.differing_types import differing_types, shown_changes
from omnigraph.changes.images import images as images_of
from omnigraph.changes.row_pairs import ChangedRows, with_few_blobs
from omnigraph.changes.schemas.type_pairs import TypePair, rank_of
from omnigraph.changes.short_images import paired_short_images
from omnigraph.changes.stats import Meter
from omnigraph.changes.table_side import CHUNK_ROWS, TableSide
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import ABSENT, cell_text, printable, shortened
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace

Image = dict[str, Any]

EVERYTHING = ChangeFilter()


@dataclass(frozen=True, slots=True, repr=False)
class Change(Shown):
    """One entity that differs. An insert has no ``before``, a delete no ``after``.

    An image is ``{"properties": {…}}``, of an edge with ``"endpoints": {"from": …, "to": …}``.
    """

    kind: Kind
    type: str
    id: str
    op: Op
    before: Image | None = None
    after: Image | None = None

    @property
    def position(self) -> Position:
        """Where the change is in the order of a diff."""
        return Position(self.kind, self.type, self.id)

    def to_json(self) -> dict[str, Any]:
        """Return the public form, without the image of a side that has none."""
        shown: dict[str, Any] = {
            "kind": self.kind,
            "type": self.type,
            "id": self.id,
            "op": self.op,
        }
        if self.before is not None:
            shown["before"] = self.before
        if self.after is not None:
            shown["after"] = self.after
        return shown

    def _panel(self) -> Panel:
        sides = before, after = image_values(self.before), image_values(self.after)
        title = f"{self.op} of {self.kind} {self.type} {self.id}"
        rows = [
            (name, *(None if side.get(name) is None else cell_text(side[name]) for side in sides))
            for name in {**before, **after}
        ]
        return Panel.of_rows(title, ("", "before", "after"), rows) if rows else Panel(title)

    def __repr__(self) -> str:
        return f"<omnigraph.Change {printable(f'{self.op} of {self.kind} {self.type} {self.id}')}>"


def image_values(image: Image | None) -> dict[str, Any]:
    """What an image shows, with the ends of an edge first."""
    return {} if image is None else {**image.get("endpoints", {}), **image.get("properties", {})}


class Position(NamedTuple):
    """A place in the order of a diff: nodes before edges, then names of types, then ids."""

    kind: Kind
    type: str
    id: str


def diff_chunks(
    workspace: Workspace,
    before: Snapshot,
    after: Snapshot,
    current: Catalog,
    filter: ChangeFilter = EVERYTHING,
    *,
    images: bool = True,
    short: bool = False,
    start_after: Position | None = None,
    meter: Meter | None = None,
    spark_for: SparkFor = nothing_on_spark,
) -> Iterator[Sequence[Change]]:
    """Yield the changes from one snapshot to another, in order, a few thousand at a time.

    ``current`` is the accepted schema, whose names are used. ``spark_for`` gives executors for tables
    that must be read as a whole. Without ``images`` only the endpoints of
    edges are shown; ``short`` ones have vectors and blobs by their sizes. With ``start_after`` the changes after that place; a type that was dropped and
    added again has two changes of an entity there, which belong together.

    Raises ``BadRequest`` for an unknown type before the first change.
    """
    meter = Meter(workspace) if meter is None else meter
    tables = differing_types(workspace, before, after, current, filter, meter)
    return _chunks(
        workspace,
        (before, after),
        tables,
        filter,
        shown=None if not images else "short" if short else "whole",
        start_after=start_after,
        meter=meter,
        spark_for=spark_for,
    )


_Shown = Literal["short", "whole"] | None
"""How images show values; None if they show none."""


def _chunks(
    workspace: Workspace,
    snapshots: tuple[Snapshot, Snapshot],
    tables: list[TypePair],
    filter: ChangeFilter,
    *,
    shown: _Shown,
    start_after: Position | None,
    meter: Meter,
    spark_for: SparkFor,
) -> Iterator[Sequence[Change]]:
    by_name: dict[tuple[int, str], list[TypePair]] = {}
    for table in tables:
        by_name.setdefault(table.rank, []).append(table)
    for rank in sorted(by_name):
        after_id = None
        if start_after is not None:
            reached = rank_of(start_after.kind, start_after.type)
            if rank < reached:
                continue
            after_id = start_after.id if rank == reached else None
        streams = []
        for pair in by_name[rank]:
            before = TableSide(workspace, snapshots[0], pair.before, meter)
            after = TableSide(workspace, snapshots[1], pair.after, meter)
            found = compare(
                before,
                after,
                after_id=after_id,
                spark=spark_for(before.state, after.state),
                compared=pair.compared,
            )
            streams.append(_table_changes(pair, before, after, filter, shown, found))
        yield from streams[0] if len(streams) == 1 else _merged(streams)


def _merged(streams: Sequence[Iterator[Sequence[Change]]]) -> Iterator[Sequence[Change]]:
    """Changes of several tables of one name: of a type that was dropped and added again."""
    flat = [itertools.chain.from_iterable(stream) for stream in streams]
    # A delete comes before an insert with the same id.
    ordered = heapq.merge(*flat, key=lambda change: (change.id, change.op))
    while chunk := list(itertools.islice(ordered, CHUNK_ROWS)):
        yield chunk


def _table_changes(
    pair: TypePair,
    before: TableSide,
    after: TableSide,
    filter: ChangeFilter,
    shown: _Shown,
    found: Iterator[ChangedRows],
) -> Iterator[Sequence[Change]]:
    names = (before.entity.blob_properties, after.entity.blob_properties)
    blobs: tuple[Sequence[str], Sequence[str]] = names if shown == "whole" else ((), ())
    for chunk in found:
        wanted = shown_changes(chunk, filter)
        if not len(wanted.ids):
            continue
        for part in with_few_blobs(wanted, blobs):
            yield _chunk_changes(pair, before, after, part, shown)


def _chunk_changes(
    pair: TypePair, before: TableSide, after: TableSide, chunk: ChangedRows, shown: _Shown
) -> list[Change]:
    changes = []
    if shown == "short":
        images = paired_short_images(before, chunk.before, after, chunk.after, pair.compared)
    else:
        images = (
            images_of(before, chunk.before, properties=shown is not None),
            images_of(after, chunk.after, properties=shown is not None),
        )
    for key, was, now, old, new in zip(
        chunk.ids.to_pylist(),
        chunk.before.present.to_pylist(),
        chunk.after.present.to_pylist(),
        *images,
        strict=True,
    ):
        op: Op = "insert" if not was else "update" if now else "delete"
        after.meter.count(op)
        # Without its properties the image of a node has nothing to show.
        changes.append(Change(pair.kind, pair.name, key, op, old or None, new or None))
    return changes


_SIGNS: Final = {"insert": "+", "update": "~", "delete": "-"}
_VALUE_CHARACTERS: Final = 40


def changes_panel(
    title: str,
    changes: Sequence[Change],
    *,
    hidden: int = 0,
    more: str | None = None,
    notes: Sequence[str] = (),
) -> Panel:
    """Return a panel of some changes; others are ``hidden``, or ``more`` says so in words."""
    rows = [(_SIGNS[one.op], one.kind, one.type, one.id, change_text(one)) for one in changes]
    if not rows:
        return Panel(title, notes=notes)
    columns = ("", "kind", "type", "id", "values")
    return Panel(title, columns=columns, rows=rows, hidden=max(hidden, 0), more=more, notes=notes)


def change_text(change: Change) -> str:
    """What an entity has, or what its properties became: `age: 30 -> 31`."""
    before, after = image_values(change.before), image_values(change.after)
    if change.op != "update":
        whole = after or before
        return ", ".join(f"{k}: {_text(v)}" for k, v in whole.items() if v is not None)
    return ", ".join(
        f"{name}: {_side_text(name, before)} -> {_side_text(name, after)}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    )


def _side_text(name: str, side: Image) -> str:
    return _text(side[name]) if name in side else ABSENT


def _text(value: Any) -> str:
    return shortened(cell_text(value), _VALUE_CHARACTERS)

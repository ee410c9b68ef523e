"""What a merge does with each entity that the source changed since the base.

Three states of one entity are compared: base, source and target. For example

    base      source    target       result
    absent    added     absent       the source's image is inserted
    present   changed   as in base   the source's image replaces it
    present   removed   as in base   it is removed
    present   changed   the same     nothing to do
    present   changed   otherwise    a conflict, unless `resolve` decides it, or each of its
                                     properties was changed on one side alone and that is enough

Properties that only one side has, because that side added them, are never in conflict: whatever is decided,
they have that side's values. Rows of the other side have the default of a required one.

A chunk of entities is decided at once, by masks; only entities in conflict are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.changes.row_pairs import ROW_ID, AlignedRows, ChangedRows
from omnigraph.changes.short_images import long_properties, mark_same
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.types import shown
from omnigraph.write.merge.decided import (
    BLOB_VALUE,
    BlobOrigin,
    Cells,
    Decided,
    DecideOptions,
    EntityConflictKind,
    Equal,
    Mask,
    MergeConflict,
    Places,
    ShowImages,
    Side,
)
from omnigraph.write.merge.resolutions import Changed, Image, Word


def decide(
    entity: Entity,
    changes: ChangedRows,
    target: AlignedRows,
    options: DecideOptions,
    equal: Equal,
    own: Mapping[str, Side] = MappingProxyType({}),
) -> Decided:
    """Decide about one chunk: ``changes`` are those from the base to the source.

    ``target`` has the target's rows of the same ids; it may be ``changes.before`` itself, where the target
    has not changed the table. ``own`` are the properties that only the source or only the target has.
    """
    return _Chunk(entity, changes, target, options, equal, own).decided()


def units(entity: Entity) -> list[tuple[str, ...]]:
    """Return the columns of a type in groups that are only changed together.

    An edge's ends are one group; so are a text and the vectors that are made from it, and both ends of
    a period.
    """
    groups: dict[str, list[str]] = {}
    for name, prop in entity.properties.items():
        group = prop.embed.source if prop.embed else name
        if entity.period is not None and name in entity.period.names:
            group = entity.period.since
        groups.setdefault(group, []).append(name)
    ends = [("src", "dst")] if isinstance(entity, EdgeType) else []
    return [*ends, *(tuple(group) for group in groups.values())]


_SIDES: dict[Word, Side] = {"ours": Side.TARGET, "theirs": Side.SOURCE}
_SHOWN_COLUMNS = {"src": "from", "dst": "to"}
_TEXTS: dict[EntityConflictKind, str] = {
    "divergent_insert": "was added on both sides with different values",
    "divergent_update": "was changed differently on both sides",
}


class _Chunk:
    """The decisions about one chunk, gathered step by step."""

    def __init__(
        self,
        entity: Entity,
        changes: ChangedRows,
        target: AlignedRows,
        options: DecideOptions,
        equal: Equal,
        own: Mapping[str, Side],
    ) -> None:
        self.entity = entity
        self.own = own
        self.ids = changes.ids
        self.tables = {
            Side.BASE: changes.before.table,
            Side.SOURCE: changes.after.table,
            Side.TARGET: target.table,
        }
        self.was, self.is_, self.there = (
            one.present.to_numpy(zero_copy_only=False)
            for one in (changes.before, changes.after, target)
        )
        self.target_is_base = target is changes.before
        self.options = options
        self.equal = equal
        self.decisions = options.resolutions.of_table(entity)
        every = [name for unit in units(entity) for name in unit]
        self.units = [
            tuple(name for name in unit if name not in own) for unit in units(entity)
        ] or [("id",)]
        self.columns = [name for unit in self.units for name in unit if name != "id"]
        size = len(self.ids)
        self.row_of = {name: at for at, name in enumerate(every or ["id"])}
        # For each column and entity, the side that its value comes from; zero where nothing is written.
        self.picks = np.zeros((len(self.row_of), size), np.int8)
        self.removed = np.zeros(size, np.bool_)
        self.cut_off = np.zeros(size, np.bool_)
        self.images: dict[int, Image] = {}
        self.unmade: dict[str, list[int]] = {}
        self.conflicts: dict[int, MergeConflict] = {}
        self.named: list[str] = []
        self.resolved = 0

    def decided(self) -> Decided:
        self._settle_plain()
        if self.own:
            self._add_own()
        if self.images:
            self._drop_equal_images()
        return self._result()

    # -- comparing

    def _same(
        self, left: Side, right: Side, where: Mask, names: Sequence[str] | None = None
    ) -> Mask:
        """Return where both sides have equal values; false outside of ``where``."""
        found = np.zeros(len(self.ids), np.bool_)
        places = np.flatnonzero(where)
        if len(places):
            one, other = (Cells(side, self._taken(side, places)) for side in (left, right))
            found[places] = _mask(self.equal(self.columns if names is None else names, one, other))
        return found

    def _own_differs(self, side: Side, other: Side, where: Mask) -> Mask:
        """Return where a side has other values than another one in the properties that only it has."""
        names = [name for name, owner in self.own.items() if owner == side]
        return where & ~self._same(side, other, where, names) if names else where & False

    def _taken(self, side: Side, places: Places) -> pa.Table:
        table = self.tables[side]
        return table if len(places) == table.num_rows else table.take(pa.array(places))

    # -- deciding

    def _settle_plain(self) -> None:
        """Decide every entity that only one side changed, or both alike; then those in conflict."""
        was, is_, there = self.was, self.is_, self.there
        unchanged = was & there
        if not self.target_is_base:
            unchanged = self._same(Side.BASE, Side.TARGET, unchanged)
        alike = self._same(Side.SOURCE, Side.TARGET, is_ & there & ~unchanged)
        if self.own:
            # What a side wrote into a property of its own is lost if the entity is deleted.
            unchanged &= ~self._own_differs(Side.TARGET, Side.BASE, was & there & ~is_)
            untouched = self._same(Side.BASE, Side.SOURCE, was & is_ & ~unchanged)
            untouched &= ~self._own_differs(Side.SOURCE, Side.BASE, was & is_ & ~there)
            alike |= untouched
        alone = unchanged | (~was & ~there)
        self.picks[:, alone & is_] = Side.SOURCE
        self.removed[:] = alone & ~is_ & there
        open_ = ~alone & ~alike & (is_ | there)
        both = open_ & is_ & there
        updates = both & was
        if self.options.granularity == "property" and updates.any():
            open_ &= ~self._combine(updates)
            updates &= open_
        if (word := self.options.resolutions.word) is not None:
            self.resolved = int(open_.sum())
            self._take(open_, word)
            return
        for place in np.flatnonzero(open_).tolist():
            if updates[place]:
                self._decide(place, "divergent_update")
            else:
                self._decide(place, "divergent_insert" if both[place] else "delete_vs_update")

    def _add_own(self) -> None:
        """Give the properties that only one side has that side's values, in rows that are written or need it.

        A row of the target that stays is written if the source has a value of its own for it.
        """
        row_of, kept = self.row_of, np.zeros(len(self.ids), np.bool_)
        kept[list(self.conflicts)] = True
        free = self.is_ & self.there & ~self.removed & ~kept
        staying = self._own_differs(Side.SOURCE, Side.TARGET, free & ~self.picks.any(axis=0))
        for name in self.columns or ["id"]:
            if name in row_of:
                self.picks[row_of[name], staying] = Side.TARGET
        written = staying | self.picks.any(axis=0)
        for name, side in self.own.items():
            picks = self.picks[row_of[name]]
            picks[written & (picks != Side.IMAGE)] = Side.SOURCE
            if side == Side.TARGET:
                picks[written & self.there & (picks != Side.IMAGE)] = Side.TARGET
        for name, embed in self.entity.embeds.items():
            if name in self.own and embed.source in row_of:
                self._renew(name, embed.source, written)

    def _renew(self, name: str, text: str, written: Mask) -> None:
        """Have a vector made again that one side has, where the text comes from the other side."""
        side = self.own[name]
        stale = written & (self.picks[self.row_of[text]] != side)
        stale &= self.picks[self.row_of[name]] == side
        if text not in self.own:
            stale &= ~self._same(Side.SOURCE, Side.TARGET, stale & self.is_ & self.there, (text,))
        for place in np.flatnonzero(stale & self.is_ & self.there).tolist():
            values = self.images[place].values if place in self.images else {}
            self.images[place] = Image({**values, name: None})
            self.picks[self.row_of[name], place] = Side.IMAGE
            self.unmade.setdefault(name, []).append(place)

    def _combine(self, where: Mask) -> Mask:
        """Put entities together from both sides; return which of them have no conflict left.

        The picks of the others are set as well, except for the units in conflict, which get ``BASE``.
        """
        clash = np.zeros(len(self.ids), np.bool_)
        for unit in self.units:
            untouched = self._same(Side.BASE, Side.SOURCE, where, unit)
            free = self._same(Side.BASE, Side.TARGET, where & ~untouched, unit)
            alike = self._same(Side.SOURCE, Side.TARGET, where & ~untouched & ~free, unit)
            for name in unit:
                self.picks[self.row_of[name], where & (untouched | alike)] = Side.TARGET
                self.picks[self.row_of[name], where & free] = Side.SOURCE
            clash |= where & ~untouched & ~free & ~alike
        # An entity that takes nothing from the source stays as the target has it.
        idle = where & ~clash & ~(self.picks == Side.SOURCE).any(axis=0)
        self.picks[:, idle] = 0
        return where & ~clash

    def _decide(self, place: int, kind: EntityConflictKind) -> None:
        """Decide one entity in conflict as a resolution says, or report it."""
        id_ = self.ids[place].as_py()
        if id_ not in self.decisions:
            self.conflicts[place] = self._conflict(place, id_, kind)
            self.picks[:, place] = 0
            return
        self.named.append(id_)
        self.resolved += 1
        decision = self.decisions[id_]
        if isinstance(decision, Image):
            self.images[place] = decision
            self.picks[:, place] = Side.IMAGE
        elif decision is None:
            self.picks[:, place] = 0
            self.removed[place] = self.there[place]
            self.cut_off[place] = self.there[place] and self.is_[place]
        else:
            word = decision.word if isinstance(decision, Changed) else decision
            if isinstance(decision, Changed):
                self._refuse_absent(place, id_, [word, *decision.taken.values()])
            where = np.zeros(len(self.ids), np.bool_)
            where[place] = True
            self._take(where, word)
            if isinstance(decision, Changed):
                self._change(place, decision)

    def _refuse_absent(self, place: int, id_: str, words: Sequence[Word]) -> None:
        """Refuse to change the state of a side, or to take a value from it, where it has no such entity."""
        for word, side, present in (
            ("ours", "target", self.there[place]),
            ("theirs", "source", self.is_[place]),
        ):
            if word in words and not present:
                raise BadRequest(
                    f"resolve takes {self.entity.table_key} {shown(id_)} from the {side}, where it was deleted; "
                    "give its whole image, or take the other side",
                    table_key=self.entity.table_key,
                    row_id=id_,
                )

    def _change(self, place: int, decision: Changed) -> None:
        """Give an entity, taken from one side, the values that a resolution sets."""
        picks = self.picks[:, place]
        picks[picks == 0] = _SIDES[decision.word]
        values = dict(decision.values)
        vectors = {name: embed.source for name, embed in self.entity.embeds.items()}
        for name, word in decision.taken.items():
            made = [vector for vector, source in vectors.items() if source == name]
            for column in (name, *(one for one in made if one not in values)):
                if column == name or column not in decision.taken:
                    picks[self.row_of[column]] = _SIDES[word]
        for name, source in vectors.items():
            if source in values and name not in values and name not in decision.taken:
                if self._keeps_text(
                    place, source, values[source], Side(picks[self.row_of[source]])
                ):
                    continue
                values[name] = None
                if values[source] is not None:
                    self.unmade.setdefault(name, []).append(place)
        for name in values:
            picks[self.row_of[name]] = Side.IMAGE
        self.images[place] = Image(values)

    def _keeps_text(self, place: int, source: str, text: str | None, side: Side) -> bool:
        """Return whether a resolution gives a text again that the side has: its vector stays."""
        return bool(text is not None and self.tables[side].column(source)[place].as_py() == text)

    def _take(self, where: Mask, word: Word) -> None:
        """Give entities in conflict the state of one side.

        What ``_combine`` picked already stays: then the word decides only the units in conflict.
        """
        picks = self.picks[:, where]
        if word == "ours":
            picks[:, ~(picks == Side.SOURCE).any(axis=0)] = 0
            picks[(picks == 0) & (picks != 0).any(axis=0)] = Side.TARGET
        else:
            picks[(picks == 0) & self.is_[where]] = Side.SOURCE
            self.removed |= where & ~self.is_
        self.picks[:, where] = picks

    def _conflict(self, place: int, id_: str, kind: EntityConflictKind) -> MergeConflict:
        name = f"{self.entity.name} {id_!r}"
        detail: dict[str, Any] = {}
        if kind == "delete_vs_update":
            order = ("source", "target") if self.there[place] else ("target", "source")
            text = "was deleted in the {} and changed in the {}".format(*order)
        else:
            text = _TEXTS[kind]
        if kind == "divergent_update" and self.options.granularity == "property":
            clashing = [
                _SHOWN_COLUMNS.get(column, column) if unit == ("src", "dst") else column
                for unit in self.units
                for column in unit
                if not self.picks[self.row_of[column], place]
            ]
            detail["properties"] = sorted(clashing)
            text = f"{text}: {', '.join(detail['properties'])}"
        return MergeConflict(kind, self.entity.table_key, id_, f"{name} {text}", detail)

    def _with_images(self, show: ShowImages) -> Iterator[MergeConflict]:
        """Yield the conflicts with the three images of their entity; None where it is absent."""
        sides = (Side.BASE, self.was), (Side.SOURCE, self.is_), (Side.TARGET, self.there)
        shown: list[tuple[str, dict[int, Mapping[str, Any]]]] = []
        for side, present in sides:
            places = [place for place in self.conflicts if present[place]]
            rows = self.tables[side].take(pa.array(places, pa.int64()))
            found = zip(places, show(Cells(side, rows)), strict=True) if places else ()
            shown.append((side.name.lower(), dict(found)))
        if self.options.short:
            self._mark_same([(side, *one) for (side, _), one in zip(sides, shown, strict=True)])
        for place, conflict in self.conflicts.items():
            images = {name: of_side.get(place) for name, of_side in shown}
            yield replace(conflict, detail={**conflict.detail, **images})

    def _mark_same(self, shown: Sequence[tuple[Side, str, Mapping[int, Any]]]) -> None:
        """Say of each vector and blob which side before it has the same, in the order of the sides."""
        for at, (side, _, images) in enumerate(shown):
            for earlier, name, others in shown[:at]:
                places = [place for place in images if place in others]
                if not places:
                    continue
                rows = pa.array(places, pa.int64())
                one, other = (Cells(s, self.tables[s].take(rows)) for s in (earlier, side))
                for column in long_properties(self.entity):
                    equal = self.equal((column,), one, other).to_pylist()
                    for place, is_same in zip(places, equal, strict=True):
                        if is_same:
                            mark_same(images[place], column, name)

    # -- the result

    def _drop_equal_images(self) -> None:
        """Write nothing for an entity that a resolution leaves as the target has it."""
        alike: dict[bytes, list[int]] = {}
        for place in self.images:
            if self.there[place]:
                alike.setdefault(self.picks[:, place].tobytes(), []).append(place)
        for found in alike.values():
            places = np.array(found, np.int64)
            same = self._given_as_target(places)
            taken = [
                name for name, at in self.row_of.items() if self.picks[at, found[0]] == Side.SOURCE
            ]
            if taken:
                where = np.zeros(len(self.ids), np.bool_)
                where[places[same]] = True
                same = self._same(Side.SOURCE, Side.TARGET, where, taken)[places]
            self.picks[:, places[same]] = 0

    def _given_as_target(self, places: Places) -> Mask:
        """Return at which of these places, which pick alike, the given values are those of the target."""
        names = [
            name for name, at in self.row_of.items() if self.picks[at, places[0]] == Side.IMAGE
        ]
        names = [name for name in names if name != "id"]
        if not names:
            return np.ones(len(places), np.bool_)
        target = self.tables[Side.TARGET].take(pa.array(places))
        given = pa.table(
            {name: self._given(name, target.column(name).type, places) for name in names}
        )
        return _mask(self.equal(names, Cells(Side.IMAGE, given), Cells(Side.TARGET, target)))

    def _given(self, name: str, type_: pa.DataType, places: Places) -> pa.Array:
        """Return one column of the images at these places."""
        values = [self.images[place].values[name] for place in places.tolist()]
        is_blob = name in self.entity.blob_properties
        return pa.array(values, BLOB_VALUE if is_blob else type_)

    def _result(self) -> Decided:
        show = self.options.images
        places = np.flatnonzero(self.picks.any(axis=0))
        picks = self.picks[:, places]
        target = self.tables[Side.TARGET]
        pick_of = {name: picks[at] for name, at in self.row_of.items()}
        names = [*self.entity.implicit_columns[1:], *self.entity.properties]
        columns = [self._picked(name, pick_of[name], places) for name in names]
        schema = pa.schema([target.schema.field(name) for name in ("id", *names)])
        return Decided(
            rows=pa.Table.from_arrays([self.ids.take(pa.array(places)), *columns], schema=schema),
            replaces=_one(target.column(ROW_ID)).take(pa.array(places)),
            blobs={
                name: self._origin(name, pick_of[name], places)
                for name in self.entity.blob_properties
            },
            removed=self.ids.filter(pa.array(self.removed)),
            cut_off=self.ids.filter(pa.array(self.cut_off)),
            conflicts=tuple(self.conflicts.values() if show is None else self._with_images(show)),
            resolved=self.resolved,
            named=tuple(self.named),
            unmade={
                name: np.flatnonzero(np.isin(places, found)) for name, found in self.unmade.items()
            },
        )

    def _picked(self, name: str, picks: npt.NDArray[np.int8], places: Places) -> pa.Array:
        """Return one column of the rows to write, each value from the side that was picked."""
        source, target = (
            _one(self.tables[side].column(name)) for side in (Side.SOURCE, Side.TARGET)
        )
        if (picks == Side.SOURCE).all():
            return source.take(pa.array(places))
        size = len(self.ids)
        imaged = np.flatnonzero(picks == Side.IMAGE)
        if name in self.entity.blob_properties or name == ROW_ID:
            given = pa.nulls(len(imaged), source.type)
        else:
            given = self._given(name, source.type, places[imaged])
        index = np.where(picks == Side.TARGET, places + size, places)
        index[imaged] = 2 * size + np.arange(len(imaged))
        return pa.concat_arrays([source, target.cast(source.type), given]).take(pa.array(index))

    def _origin(self, name: str, picks: npt.NDArray[np.int8], places: Places) -> BlobOrigin:
        imaged = np.flatnonzero(picks == Side.IMAGE)
        values: list[Any] = [None] * len(places)
        for at in imaged.tolist():
            values[at] = self.images[int(places[at])].values[name]
        return BlobOrigin(
            side=pa.array(picks, pa.int8()),
            row_id=self._picked(ROW_ID, picks, places),
            given=pa.array(values, BLOB_VALUE),
        )


def _mask(answer: pa.BooleanArray) -> Mask:
    return np.asarray(answer.to_numpy(zero_copy_only=False), np.bool_)


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks()

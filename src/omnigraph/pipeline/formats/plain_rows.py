"""Plain rows: JSON objects of one type without a word about which, in lines or from a program.

A row has its values by name, and the ids of an edge's ends under the names that the caller gives them.
It means the record `{"type": T, "data": {…}}` or `{"edge": E, "from": …, "to": …, "data": {…}}`, and is
read and judged as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from omnigraph.errors import BadRequest, InputError
from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.pipeline.formats.frame_layout import EdgeEnd, EndColumns, end_of
from omnigraph.pipeline.frame_options import FrameOptions
from omnigraph.types import PropType, Unfit, derive_id, from_json, shown


@dataclass(frozen=True)
class PlainRows:
    """Which type the rows are of, and what their names mean."""

    entity: Entity
    from_col: EndColumns = "from"
    to_col: EndColumns = "to"
    options: FrameOptions = field(default_factory=FrameOptions)
    nodes: Mapping[str, NodeType] = field(default_factory=dict)
    """The node types, by whose keys the ends of edges may be named."""

    @property
    def ends(self) -> dict[str, str]:
        """The ends of an edge as records call them, each with its name in the rows."""
        return {end: one.name for end, one in self._ends.items()}

    @cached_property
    def _ends(self) -> dict[str, EdgeEnd]:
        if not isinstance(self.entity, EdgeType):
            return {}
        from_node, to_node = (
            self.nodes.get(name) for name in (self.entity.from_type, self.entity.to_type)
        )
        return {
            "from": end_of("from_col", self.from_col, from_node),
            "to": end_of("to_col", self.to_col, to_node),
        }

    def check(self) -> None:
        """Refuse a name for an end that is one of a property."""
        for name in self.ends.values():
            if name in self.entity.properties:
                raise InputError(
                    f'"{name}" is a property of {self.entity.name}, name another column for the ends of '
                    "the edge: from_col and to_col (--from-col, --to-col) do",
                    type_name=self.entity.name,
                )

    @cached_property
    def keys(self) -> dict[str, str] | None:
        """The names that values have in the rows, by those they have in records.

        None if they do not go one to one."""
        if any(end.members for end in self._ends.values()):
            return None
        renamed = {new: old for old, new in self.options.columns.items()}
        mine = [*self.ends.values(), "id", *self.entity.properties]
        found = {name: renamed.get(name, name) for name in mine}
        return found if len(set(found.values())) == len(found) else None

    def record(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The record that a row means; ``Unfit`` if two of its names mean the same."""
        renames = self.options.columns
        data: dict[str, Any] = {}
        for name, value in row.items():
            new = renames.get(name, name)
            if new in data:
                raise Unfit(f"there are two values of {shown(new)}")
            data[new] = value
        ends = self._ids_of_ends(data)
        if self.options.ignore_extra:
            known = {"id", *self.entity.properties}
            data = {name: value for name, value in data.items() if name in known}
        if self.ends:
            return {"edge": self.entity.name, **ends, "data": data}
        return {"type": self.entity.name, "data": data}

    def _ids_of_ends(self, data: dict[str, Any]) -> dict[str, Any]:
        """Take the ends out of the values of a row."""
        found: dict[str, Any] = {}
        for end, one in self._ends.items():
            if not one.members and one.name in data:
                found[end] = data[one.name]
            elif one.members and all(data.get(column) is not None for column in one.columns):
                found[end] = derive_id((t, _member(n, t, data[c])) for n, t, c in one.members)
        for column in {column for one in self._ends.values() for column in one.columns}:
            if column not in self.entity.properties:
                data.pop(column, None)
        return found

    def records(self, rows: Iterable[object]) -> Iterator[dict[str, Any]]:
        """The records of rows that a program gives, one at a time."""
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, Mapping):
                raise BadRequest(
                    f"row {number} is a Python {type(row).__name__}, not a dict; give rows as dicts, a "
                    "frame, or files"
                )
            try:
                yield self.record(row)
            except Unfit as unfit:
                raise InputError(f"row {number}: {unfit}", record=number) from None


def _member(name: str, t: PropType, value: object) -> Any:
    try:
        return from_json(t, value)
    except Unfit as unfit:
        raise Unfit(f"{name} ({t}): {unfit}") from None

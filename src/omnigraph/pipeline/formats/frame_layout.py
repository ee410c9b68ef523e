"""How the columns of a frame or of a file of columns map to those of a type.

Columns go by name: the properties, `id`, and for an edge the two columns that hold the ids of its
ends, which the caller may name (`end_columns`). Whatever the caller renames goes by its new name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.errors import BadRequest, InputError
from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.pipeline.formats.typed_batch import required_embeds, required_names
from omnigraph.pipeline.frame_options import FrameOptions
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType, shown

_FAULTS = 8
_NAME_LENGTH = 100
_RENAME = "columns (--map) renames columns, ignore_extra (--ignore-extra) leaves them out"
_NAME_ENDS = "from_col and to_col (--from-col, --to-col) name the columns with the ends"
# What `df.write` of Spark has instead.
_RENAME_OPTIONS = "the option `columns` renames columns, `ignore_extra` leaves them out"
_NAME_ENDS_OPTIONS = "the options `from_col` and `to_col` name the columns with the ends"


EndColumns = str | Sequence[str] | Mapping[str, str]
"""A column with ids; or the columns of the key's members: listed, or by the name of the member."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of a frame become which columns of a type."""

    entity: Entity
    from_col: EndColumns = "from"
    to_col: EndColumns = "to"
    patch: bool = False
    """Whether any column may be missing: the rows keep what they have there."""
    options: FrameOptions = field(default_factory=FrameOptions)
    by_options: bool = False
    """Whether the caller gave options of Spark's, and messages should name those."""
    nodes: Mapping[str, NodeType] = field(default_factory=dict)
    """The node types, by whose keys the ends of edges may be named."""

    @property
    def ends(self) -> tuple[EdgeEnd, ...]:
        """The ends of an edge, each with its columns."""
        if not isinstance(self.entity, EdgeType):
            return ()
        return (
            end_of("from_col", self.from_col, self.nodes.get(self.entity.from_type)),
            end_of("to_col", self.to_col, self.nodes.get(self.entity.to_type)),
        )

    @property
    def end_columns(self) -> list[str]:
        """The columns that the ends of an edge are read from."""
        return list(dict.fromkeys(column for end in self.ends for column in end.columns))

    @property
    def known(self) -> list[str]:
        """The columns that are read, by the names that they have in the frame or file."""
        mine = [*self.end_columns, "id", *self.entity.properties]
        return [*mine, *(old for old, new in self.options.columns.items() if new in mine)]

    def places(self, columns: Sequence[str]) -> dict[str, int]:
        """Where each column is in a frame, by the name that it has for the type."""
        renames = self.options.columns
        return {renames.get(column, column): at for at, column in enumerate(columns)}

    def check(self, columns: Sequence[str], name: str) -> None:
        """Refuse unknown and repeated columns, and a frame that lacks a required one."""
        strange = self._strange(columns)
        wrong = list(self._faults(columns, strange))
        if wrong:
            shown_first = wrong[:_FAULTS] + (
                [f"and {len(wrong) - _FAULTS} more"] * (len(wrong) > _FAULTS)
            )
            hint = ""
            if strange:
                hint = f"; {_RENAME_OPTIONS if self.by_options else _RENAME}"
            if not self.patch and not self.places(columns).keys() >= set(self.end_columns):
                hint = f"; {_NAME_ENDS_OPTIONS if self.by_options else _NAME_ENDS}{hint}"
            raise InputError(
                f"{name} cannot be read as {self.entity.name}: {'; '.join(shown_first)}{hint}",
                type_name=self.entity.name,
                source=name,
                **(
                    {"unknown": [f"{self.entity.table_key}.{one}" for one in strange]}
                    if strange
                    else {}
                ),
            )

    def _strange(self, columns: Sequence[str]) -> list[str]:
        """The columns that are no property, and may not be left out, under the names that they get."""
        known = {*self.end_columns, "id", *self.entity.properties}
        renames = self.options.columns
        told = () if self.options.shared else renames.values()
        return [
            column
            for column in dict.fromkeys(renames.get(column, column) for column in columns)
            if column not in known and not (self.options.ignore_extra and column not in told)
        ]

    def _faults(self, columns: Sequence[str], strange: Sequence[str]) -> Iterator[str]:
        entity = self.entity
        known = dict.fromkeys([*self.end_columns, "id", *entity.properties])
        renames = self.options.columns
        times = Counter(renames.get(column, column) for column in columns)
        places = {column: at for at, column in enumerate(strange)}
        if not self.options.shared:
            for column in renames:
                if column not in columns:
                    hint = did_you_mean(column[:_NAME_LENGTH], columns)
                    yield f"there is no column {shown(column)}" + (f", {hint}" if hint else "")
        for end in self.ends:
            if not end.members and end.name in entity.properties:
                yield f'"{end.name}" is a property, name another column for the ends of the edge'
        for column in times:
            if column in places:
                # Finding what was meant takes long, so it is done only for the names that are shown.
                few = places[column] < _FAULTS
                hint = did_you_mean(column[:_NAME_LENGTH], known) if few else None
                yield f"there is no property {shown(column)}" + (f", {hint}" if hint else "")
            elif column in known and times[column] > 1:
                yield f'there are two columns "{column}"'
        if self.patch:
            return
        there = {*times, *entity.defaults}
        needed = [*self.end_columns, *required_names(entity)]
        needed += [v for v, s in required_embeds(entity).items() if s not in there]
        for column in needed:
            if column not in there:
                yield f'the required column "{column}" is missing'


@dataclass(frozen=True, slots=True)
class EdgeEnd:
    """One end of an edge: its ``name`` among the columns, and the ``members`` of the key that make its id.

    A member is its name, its type and its column. Without members the column ``name`` holds the id.
    """

    name: str
    members: tuple[tuple[str, PropType, str], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the end is read from."""
        return tuple(column for _, _, column in self.members) or (self.name,)


def check_ends(from_col: object, to_col: object, *, one_each: bool = False) -> None:
    """Refuse what names no column, and the same columns for both ends.

    ``one_each``: frames that are read have one column for each end.
    """
    for argument, given in (("from_col", from_col), ("to_col", to_col)):
        if one_each and (not isinstance(given, str) or not given):
            raise BadRequest(
                f"{argument} is {given!r}; give the name of the column that holds the ids of that end"
            )
        names = list(given.items()) if isinstance(given, Mapping) else given
        texts = [names] if isinstance(names, str) else names
        if isinstance(given, Mapping) and names:
            texts = [text for pair in given.items() for text in pair]
        if (
            not isinstance(texts, list | tuple)
            or not texts
            or not all(isinstance(text, str) and text for text in texts)
        ):
            raise BadRequest(
                f"{argument} is {given!r}; give the name of the column that holds the ids of that end, or "
                "the columns of its key's members"
            )
    if from_col == to_col:
        raise BadRequest(
            f"from_col and to_col both name the column `{from_col}`, so every edge would end where "
            "it begins; name two columns"
        )


def end_of(argument: str, given: EndColumns, node: NodeType | None) -> EdgeEnd:
    """The end that columns name; ``node`` is the type that it leads to, if that is known.

    A text names the columns of a key with several members as `a, b` or as `x=a, y=b`.
    """
    key = None if node is None else node.key
    if isinstance(given, str):
        if key is None or len(key) < 2 or ("," not in given and "=" not in given):
            return EdgeEnd(given)
        given = _listed(given)
    elif not isinstance(given, Mapping) and len(given) == 1 and (key is None or len(key) == 1):
        return EdgeEnd(given[0])
    if node is None or key is None:
        name = "that type" if node is None else node.name
        raise BadRequest(
            f"{argument} names several columns, but {name} has no key; give the one column with its ids"
        )
    columns = _by_member(argument, given, node, key)
    members = tuple((name, node.properties[name].type, columns[name]) for name in key)
    return EdgeEnd(", ".join(columns[name] for name in key), members)


def _listed(text: str) -> EndColumns:
    parts = [part.strip() for part in text.split(",")]
    if all("=" in part for part in parts):
        return {
            member.strip(): column.strip()
            for member, _, column in (p.partition("=") for p in parts)
        }
    return parts


def _by_member(
    argument: str, given: Sequence[str] | Mapping[str, str], node: NodeType, key: Sequence[str]
) -> dict[str, str]:
    """The column of each member. Listed columns go by name, or else in the order of the members in ids."""
    if isinstance(given, Mapping):
        columns = dict(given)
    elif set(given) == set(key):
        columns = {name: name for name in given}
    else:
        columns = dict(zip(key, given, strict=False))
        if set(given) & set(key):
            columns = {}  # some go by name: which member are the others?
    if set(columns) != set(key) or len(given) != len(key) or not all(columns.values()):
        example = ", ".join(f'"{name}": "…"' for name in key)
        raise BadRequest(
            f"{argument} is {shown(str(given))}, and the key of {node.name} has the members {', '.join(key)} "
            f"(the order in its ids); say which column is which: {{{example}}} in Python, "
            f"{','.join(f'{name}=…' for name in key)} as text"
        )
    return columns

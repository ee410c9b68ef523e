"""The columns that hold the ends of edges: one with the id of a node, or one for each member of its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.types import PropType, shown

EndColumns = str | Sequence[str] | Mapping[str, str]
"""A column with ids; or the columns of the key's members: listed, or by the name of the member."""


@dataclass(frozen=True, slots=True)
class End:
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


def end_of(argument: str, given: EndColumns, node: NodeType | None) -> End:
    """The end that columns name; ``node`` is the type that it leads to, if that is known.

    A text names the columns of a key with several members as `a, b` or as `x=a, y=b`.
    """
    key = None if node is None else node.key
    if isinstance(given, str):
        if key is None or len(key) < 2 or ("," not in given and "=" not in given):
            return End(given)
        given = _listed(given)
    elif not isinstance(given, Mapping) and len(given) == 1 and (key is None or len(key) == 1):
        return End(given[0])
    if node is None or key is None:
        name = "that type" if node is None else node.name
        raise BadRequest(
            f"{argument} names several columns, but {name} has no key; give the one column with its ids"
        )
    columns = _by_member(argument, given, node, key)
    members = tuple((name, node.properties[name].type, columns[name]) for name in key)
    return End(", ".join(columns[name] for name in key), members)


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

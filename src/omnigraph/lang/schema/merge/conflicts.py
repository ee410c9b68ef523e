"""The conflicts of a schema merge, which a word or a change of one side decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from omnigraph.lang.schema.merge.sides import DataChange, Side

SchemaConflictKind = Literal[
    "divergent_schema", "schema_drop_vs_change", "schema_invalid", "schema_name_clash"
]
RESOLVABLE: tuple[SchemaConflictKind, ...] = ("divergent_schema", "schema_drop_vs_change")
"""The kinds that `resolve_schema` decides; the others need a change of one of the sides."""

_WORDS_OF_CHANGES = {
    "data": "written",
    "rename": "renamed",
    "relax": "made nullable",
    "require": "made required",
    "widen": "widened",
    "default": "given another default",
    "extend_enum": "given more values",
    "shrink_enum": "given fewer values",
    "change_embed": "given another `@embed`",
    "change_metric": "given another `@metric`",
    "add_property": "given a property",
    "relax_cardinality": "given a wider cardinality",
    "tighten_cardinality": "given a narrower cardinality",
}


@dataclass(frozen=True, slots=True)
class ElementConflict:
    """One conflict between two schemas. ``element`` is the name that `resolve_schema` takes."""

    kind: SchemaConflictKind
    element: str
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    way: str = ""
    """What decides it, where that does not follow from its kind."""

    @property
    def table_key(self) -> str:
        """The element of the type, `node:Ship` of `node:Ship.flag`."""
        return self.element.partition(".")[0]

    def remedy(self, option: str = "resolve_schema") -> str:
        """What decides the conflict; ``option`` is how the caller spells `resolve_schema`."""
        if self.way:
            return self.way
        if self.kind == "schema_name_clash":
            return "rename it on one branch, and try again"
        if self.kind == "schema_invalid":
            return "change one of the branches, and try again"
        if self.kind == "divergent_schema":
            return f"take the target's with {option} {self.element}=ours, or =theirs"
        if self.detail["dropped_by"] == "target":
            return f"leave it dropped with {option} {self.element}=ours"
        return f"keep it with {option} {self.element}=ours, or drop it with =theirs"


def in_order(conflicts: Iterable[ElementConflict]) -> tuple[ElementConflict, ...]:
    """Return the conflicts by element, then kind, then attribute."""
    return tuple(
        sorted(conflicts, key=lambda one: (one.element, one.kind, one.detail.get("attribute", "")))
    )


def divergent(
    element: str, attribute: str, texts: Mapping[str, str | None], names: Mapping[Side, str]
) -> ElementConflict:
    """Two sides changed one attribute differently; ``texts`` of `base`, `source` and `target`."""
    source, target = (_quoted(texts[side]) for side in ("source", "target"))
    return ElementConflict(
        "divergent_schema",
        element,
        f"{element}: the {attribute} is {source} in {names['source']} "
        f"and {target} in {names['target']}",
        {"element": element, "attribute": attribute, **texts},
    )


def _quoted(text: str | None) -> str:
    return "none" if text is None else f"`{text}`"


def drop_vs_change(
    element: str,
    dropped_by: Side,
    changed: Iterable[str],
    data: DataChange,
    names: Mapping[Side, str],
) -> ElementConflict:
    """One side dropped what the other changed or uses."""
    words = sorted(changed)
    other = names["target" if dropped_by == "source" else "source"]
    done = [_WORDS_OF_CHANGES.get(word, f"used by {word}") for word in words]
    rows = ""
    if data.rows:
        more = ", …" if data.rows > len(data.row_ids) else ""
        rows = f" ({data.rows} row{'' if data.rows == 1 else 's'}: {', '.join(data.row_ids)}{more})"
    return ElementConflict(
        "schema_drop_vs_change",
        element,
        f"{element} was dropped in {names[dropped_by]} and {' and '.join(done)} in {other}{rows}",
        {
            "element": element,
            "dropped_by": dropped_by,
            "changed": words,
            "rows": data.rows,
            "row_ids": list(data.row_ids),
        },
    )


def name_clash(
    element: str, names: Mapping[Side, str], types: Mapping[Side, str] | None = None
) -> ElementConflict:
    """Two different elements want one name; of properties, ``types`` as written on both sides."""
    said = "" if types is None else f" ({types['source']} and {types['target']})"
    if types is not None and types["source"] == types["target"]:
        said = f" (both are {types['source']}, with different annotations or rules)"
    return ElementConflict(
        "schema_name_clash",
        element,
        f"{element} stands for different things in {names['source']} and {names['target']}{said}",
        {"element": element, **{str(side): text for side, text in (types or {}).items()}},
    )


def invalid(element: str, rule: str, message: str) -> ElementConflict:
    """Both schemas together break a rule of the language, or cannot be reached."""
    return ElementConflict(
        "schema_invalid",
        element,
        f"{element}: the merged schema is not valid: {message}",
        {"element": element, "rule": rule, "message": message},
    )

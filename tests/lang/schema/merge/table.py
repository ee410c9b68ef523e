"""The table of schema-branches.md 4.1 as cases: what both sides did, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

BASE = """\
interface Named {
    label: String?
    alias: String?
    // +Named
}

node Ship @description("ships") {
    imo: String @key
    name: String
    tonnage: I32?
    flag: String?
    state: enum(active, laid_up, sold)?
    calls: U32?
    length: F32?
    sizes: [I32]?
    remark: String? @description("free text")
    draft: F64
    // +Ship
    @range(tonnage, 0..20000)
    @check(flag, "^[A-Z]+$")
    @unique(name)
    @index(remark)
    @index(state, flag)
    // rules of Ship
}

node Port implements Named {
    code: String @key
    city: String
    // +Port
}

node Crew implements Named {
    badge: String @key
    alias: String? @description("on board")
    // +Crew
}

node Paper {
    title: String @key
    body: String?
    notes: String?
    vector: Vector(4)? @embed(body, model="m1")
    // +Paper
}

edge CallsAt: Ship -> Port @card(1..5) {
    visits: I32?
    // +CallsAt
    @unique(src, dst)
}

edge Sails: Crew -> Ship

// +types
"""

THEN = ("", "")
"""Ends an apply; the edits after it are the next one."""

Edit = tuple[str, str]


def add(owner: str, line: str) -> Edit:
    """Add a property or a rule to a type."""
    return f"// +{owner}\n", f"{line}\n    // +{owner}\n"


def rule(line: str) -> Edit:
    """Add a rule to Ship."""
    return "// rules of Ship", f"{line}\n    // rules of Ship"


def new(text: str) -> Edit:
    """Add a type."""
    return "// +types\n", f"{text}\n// +types\n"


def drop(line: str) -> Edit:
    """Remove a line."""
    return f"    {line}\n", ""


def rename(line: str, name: str, type_: str | None = None) -> Edit:
    """Give a property another name."""
    old, rest = line.split(": ", 1)
    return f"    {line}\n", f'    {name}: {type_ or rest} @rename_from("{old}")\n'


def whole(start: str) -> Edit:
    """Remove a declaration that starts so."""
    at = BASE.index(start)
    end = (
        BASE.index("\n}\n", at) + 3
        if BASE[at:].partition("\n")[0].endswith("{")
        else at + len(start)
    )
    return BASE[at:end], ""


@dataclass(frozen=True)
class Case:
    """What each side did to the base, and the merged schema or the conflicts."""

    source: tuple[Edit, ...] = ()
    target: tuple[Edit, ...] = ()
    merged: tuple[Edit, ...] | None = None
    conflicts: tuple[dict[str, Any], ...] = ()
    source_data: dict[str, tuple[str, ...]] = field(default_factory=dict)
    target_data: dict[str, tuple[str, ...]] = field(default_factory=dict)


CASES: list[Any] = []


def case(name: str, **members: Any) -> None:
    """Add a case."""
    CASES.append(pytest.param(Case(**members), id=name))


def diverges(element: str, attribute: str, base: Any, source: Any, target: Any) -> dict[str, Any]:
    """A `divergent_schema`."""
    texts = {"base": base, "source": source, "target": target}
    return {
        "kind": "divergent_schema",
        "detail": {"element": element, "attribute": attribute, **texts},
    }


def clashes(element: str, source: str | None = None, target: str | None = None) -> dict[str, Any]:
    """A `schema_name_clash`, of a property with the types as written."""
    types = {} if source is None else {"source": source, "target": target}
    return {"kind": "schema_name_clash", "detail": {"element": element, **types}}


def dropped(element: str, by: str, *changed: str, row_ids: tuple[str, ...] = ()) -> dict[str, Any]:
    """A `schema_drop_vs_change`."""
    return {
        "kind": "schema_drop_vs_change",
        "detail": {
            "element": element,
            "dropped_by": by,
            "changed": sorted(changed),
            "rows": len(row_ids),
            "row_ids": list(row_ids)[:20],
        },
    }


def broken(element: str) -> dict[str, Any]:
    """A `schema_invalid`; its rule and message are the compiler's."""
    return {"kind": "schema_invalid", "detail": {"element": element}}

"""The table of lint codes, and the diagnostics that do not stop a compilation."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from omnigraph.spans import Span


class Tier(enum.StrEnum):
    """What a change costs."""

    SAFE = "safe"
    VALIDATED = "validated"
    DESTRUCTIVE = "destructive"


class Severity(enum.StrEnum):
    """How serious a diagnostic is."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class LintCode:
    """A published code: its meaning never changes. ``emitted`` is False for a reserved code."""

    code: str
    tier: Tier
    severity: Severity
    meaning: str
    emitted: bool = True


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A remark about a source: which declaration, what, and where."""

    message: str
    entity: str
    severity: Severity = Severity.WARN
    code: str | None = None
    span: Span | None = None


DROP_NODE = "OG-DS-102"
DROP_EDGE = "OG-DS-103"
DROP_PROPERTY = "OG-DS-104"
REQUIRED_PROPERTY_ADDED = "OG-MF-103"
TYPE_CHANGED = "OG-MF-106"

CODES: Mapping[str, LintCode] = MappingProxyType(
    {
        code.code: code
        for code in (
            LintCode("OG-DS-101", Tier.DESTRUCTIVE, Severity.ERROR, "drop a graph", emitted=False),
            LintCode(DROP_NODE, Tier.DESTRUCTIVE, Severity.WARN, "drop a node type"),
            LintCode(DROP_EDGE, Tier.DESTRUCTIVE, Severity.WARN, "drop an edge type"),
            LintCode(DROP_PROPERTY, Tier.DESTRUCTIVE, Severity.WARN, "drop a property"),
            LintCode(
                "OG-DS-105",
                Tier.DESTRUCTIVE,
                Severity.ERROR,
                "drop a vector property",
                emitted=False,
            ),
            LintCode(
                REQUIRED_PROPERTY_ADDED,
                Tier.VALIDATED,
                Severity.ERROR,
                "required property added to an existing type",
            ),
            LintCode(
                "OG-MF-104",
                Tier.VALIDATED,
                Severity.ERROR,
                "nullable made required",
                emitted=False,
            ),
            LintCode(TYPE_CHANGED, Tier.DESTRUCTIVE, Severity.ERROR, "property type changed"),
        )
    }
)

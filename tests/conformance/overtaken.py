"""Cases of changes that were refused once and that schema.md 11.3, which wins, makes possible.

The case files still have the refusals; what is expected here takes their place until they say so themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _steps(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"supported": True, "steps": list(steps), "steps_exact": True}


def _constraint(**constraint: Any) -> dict[str, Any]:
    return {
        "kind": "add_constraint",
        "type_kind": "node",
        "type_name": "Meter",
        "constraint": constraint,
    }


_STATE = {"type_kind": "node", "type_name": "Ticket", "property_name": "state"}

POSSIBLE: Mapping[str, Mapping[str, Any]] = {
    "plan-enum-shrinks": _steps({"kind": "shrink_enum", **_STATE, "removed_values": ["stuck"]}),
    "plan-enum-value-respelled": _steps(
        {"kind": "extend_enum", **_STATE, "added_values": ["done"]},
        {"kind": "shrink_enum", **_STATE, "removed_values": ["closed"]},
    ),
    "plan-widen-integer": _steps(
        {
            "kind": "widen_property",
            "type_kind": "node",
            "type_name": "Meter",
            "property_name": "reading",
            "from": "I32?",
            "to": "I64?",
        }
    ),
    "plan-add-unique": _steps(_constraint(kind="unique", properties=["seal"])),
    "plan-add-range": _steps(_constraint(kind="range", property="load", min=0, max=100)),
}


def expected_of(case_id: str, expect: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a case expects; of one that still says that the change is refused, what is right now."""
    return POSSIBLE.get(case_id, expect) if expect.get("supported") is False else expect

"""What lint finds in the plans of a source: properties that no update sets or an insert clears, costly and idle parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args
from typing import Literal as OneOf

from omnigraph.lang.query import ir
from omnigraph.lang.query.null_tests import can_hold_for_nothing, can_match_for_nothing
from omnigraph.lang.query.period_findings import (
    END_OF_WHAT_HOLDS,
    WHEN_IN_VAIN,
    ends_looked_at,
    whens_in_vain,
)
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import Catalog

Severity = OneOf["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

PROPERTY_NEVER_UPDATED = "L201"
INSERT_CLEARS_PROPERTY = "L202"
SEARCH_WITHOUT_START = "L203"
OPTIONAL_IN_VAIN = "L204"
HOLDS_SINCE_EVER = "L208"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the file: a parse failure, a property no update sets, a costly or idle part of a query."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    queries: tuple[str, ...] = ()
    diagnostic: dict[str, Any] | None = field(default=None, hash=False)
    """Its place and kind of error, in the form of ``errors.OmniGraphError.diagnostic``."""

    def to_json(self) -> dict[str, Any]:
        """The finding without its empty fields."""
        facts: dict[str, Any] = {
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
        }
        if self.type_name is not None:
            facts |= {"type_name": self.type_name, "property": self.property}
        if self.type_name is not None or self.queries:
            facts["queries"] = list(self.queries)
        if self.diagnostic is not None:
            facts["diagnostic"] = self.diagnostic
        return facts


def plan_findings(
    catalog: Catalog, plans: list[ir.Plan], queries: Iterable[ast.Query] = ()
) -> list[Finding]:
    """All findings in the valid plans of a source, and in their texts, by severity, type, property and message."""
    found = [*_never_updated(catalog, plans), *_cleared(catalog, plans)]
    found += _hold_since_ever(catalog, plans)
    for plan in plans:
        found += _searches_without_start(plan)
        found += _optional_in_vain(plan)
        found += _ends_looked_at(plan)
    for query in queries:
        found += _whens_in_vain(catalog, query)
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> tuple[int, str, str, str]:
    severity = SEVERITIES.index(finding.severity)
    return severity, finding.type_name or "", finding.property or "", finding.message


def _name(plan: ir.Plan) -> str:
    return plan.name if plan.name is not None else "(anonymous)"


# ------------------------------------------------------------------ properties


def _statements(plans: list[ir.Plan]) -> Iterator[tuple[str, ir.Insert | ir.Update]]:
    """The statements that assign properties of nodes, with the names of their queries."""
    for plan in plans:
        for statement in plan.statements if isinstance(plan, ir.MutationPlan) else ():
            if isinstance(statement, ir.Insert | ir.Update) and statement.kind == "node":
                yield _name(plan), statement


def _never_updated(catalog: Catalog, plans: list[ir.Plan]) -> Iterator[Finding]:
    """L201: nullable properties of updated node types that no update of the file sets."""
    updates: dict[str, list[tuple[str, ir.Insert | ir.Update]]] = {}
    for name, statement in _statements(plans):
        if isinstance(statement, ir.Update) or statement.is_upsert:
            updates.setdefault(statement.type_name, []).append((name, statement))
    for type_name, statements in updates.items():
        node = catalog.nodes[type_name]
        assigned = {item.property for _, update in statements for item in update.assignments}
        queries = tuple(sorted({name for name, _ in statements}))
        for prop in node.properties.values():
            in_key = node.key is not None and prop.name in node.key
            if prop.type.nullable and not in_key and prop.embed is None:
                if prop.name in assigned:
                    continue
                message = f"no update sets the nullable property {type_name}.{prop.name}"
                yield Finding(
                    "warning", PROPERTY_NEVER_UPDATED, message, type_name, prop.name, queries
                )


def _hold_since_ever(catalog: Catalog, plans: list[ir.Plan]) -> Iterator[Finding]:
    """L208: an `insert` that does not say since when what it inserts holds."""
    queries: dict[tuple[str, str, str], set[str]] = {}
    for plan in plans:
        for statement in plan.statements if isinstance(plan, ir.MutationPlan) else ():
            if not isinstance(statement, ir.Insert) or statement.is_upsert:
                continue
            entity = catalog.entity(f"{statement.kind}:{statement.type_name}")
            if entity.period is None or entity.period.since in entity.defaults:
                continue
            since = entity.period.since
            if since not in {one.property for one in statement.assignments}:
                key = entity.table_key, entity.name, since
                queries.setdefault(key, set()).add(_name(plan))
    for (_, type_name, since), names in queries.items():
        yield Finding(
            "warning",
            HOLDS_SINCE_EVER,
            f"insert leaves out {type_name}.{since}: what it inserts holds since ever; assign it, or "
            "`assert` what begins now",
            type_name,
            since,
            tuple(sorted(names)),
        )


def _cleared(catalog: Catalog, plans: list[ir.Plan]) -> Iterator[Finding]:
    """L202: optional properties that an `insert` of a keyed node leaves out, and so clears where the key exists."""
    cleared: dict[tuple[str, str], set[str]] = {}
    for name, statement in _statements(plans):
        node = catalog.nodes[statement.type_name]
        if isinstance(statement, ir.Update) or statement.is_upsert or node.key is None:
            continue
        assigned = {item.property for item in statement.assignments}
        for prop in node.properties.values():
            made = prop.embed is not None and prop.embed.source in assigned
            if prop.type.nullable and prop.name not in assigned and not made:
                cleared.setdefault((node.name, prop.name), set()).add(name)
    for (type_name, prop_name), names in cleared.items():
        has_default = catalog.nodes[type_name].properties[prop_name].default is not None
        cleared_to = "its default" if has_default else "null"
        message = (
            f"insert leaves out {type_name}.{prop_name}, which becomes {cleared_to} where the key exists; "
            "`upsert` keeps it"
        )
        yield Finding(
            "warning",
            INSERT_CLEARS_PROPERTY,
            message,
            type_name,
            prop_name,
            tuple(sorted(names)),
        )


# ------------------------------------------------------------------ patterns


def _searches_without_start(plan: ir.Plan) -> Iterator[Finding]:
    """L203: searches of any length from every node of a type."""
    for steps in _blocks(plan.steps):
        narrowed = set(_narrowed(steps))
        for step in steps:
            if not isinstance(step, ir.Expand) or step.max_hops is not None:
                continue
            scanned = any(isinstance(one, ir.NodeScan) and one.var == step.src for one in steps)
            if scanned and step.src not in narrowed:
                how = f"by {step.weight}" if step.weight is not None else "of any length"
                yield Finding(
                    "warning",
                    SEARCH_WITHOUT_START,
                    f"query {_name(plan)} searches {how} over {' or '.join(step.edge_types)} from every "
                    f"{step.src_type}: `${step.src}` has no filter",
                    queries=(_name(plan),),
                )


def _narrowed(steps: tuple[ir.Step, ...]) -> Iterator[str]:
    """The variables that something keeps from being all nodes of their type."""
    for step in steps:
        if isinstance(step, ir.NodeScan):
            if any(not isinstance(one, ir.Holds) for one in step.filters):
                yield step.var
        elif isinstance(step, ir.Filter):
            yield from ir.mentioned(step.predicate)
        elif isinstance(step, ir.SemiJoin | ir.AntiJoin):
            yield from step.outer
        elif isinstance(step, ir.Expand) and step.max_hops is not None:
            yield step.src
            yield step.dst


def _optional_in_vain(plan: ir.Plan) -> Iterator[Finding]:
    """L204: conditions that drop every row without a match of an optional block."""
    for steps in _blocks(plan.steps):
        for at, step in enumerate(steps):
            if not isinstance(step, ir.LeftJoin):
                continue
            missing = frozenset(step.introduced)
            for later in steps[at + 1 :]:
                names = sorted(missing & set(_needed(later, missing)))
                if names:
                    variables = ", ".join(f"`${name}`" for name in names)
                    yield Finding(
                        "warning",
                        OPTIONAL_IN_VAIN,
                        f"query {_name(plan)} drops every row without {variables} after the `optional` "
                        "block, which is a plain join then; move the condition into the block",
                        queries=(_name(plan),),
                    )


def _needed(step: ir.Step, missing: frozenset[str]) -> Iterator[str]:
    """The variables of a condition that none of the ``missing`` satisfies; nothing of any other step."""
    if isinstance(step, ir.Filter) and not can_hold_for_nothing(step.predicate, missing):
        yield from ir.mentioned(step.predicate)
    elif isinstance(step, ir.SemiJoin) and not can_match_for_nothing(step.inner, missing):
        yield from step.outer


def _whens_in_vain(catalog: Catalog, query: ast.Query) -> Iterator[Finding]:
    """L206: `as of`, `during` or `ever` where no type has a period."""
    name = "(anonymous)" if query.name is None else query.name
    for where in whens_in_vain(catalog, query):
        yield Finding(
            "warning",
            WHEN_IN_VAIN,
            f"query {name} says when {where} must hold, and no type there has a period: it always holds",
            queries=(name,),
        )


def _ends_looked_at(plan: ir.Plan) -> Iterator[Finding]:
    """L207: a condition on the end of what is seen only while it holds."""
    for steps in _blocks(plan.steps):
        for period in dict.fromkeys(ends_looked_at(steps)):
            end = period.until.property
            yield Finding(
                "warning",
                END_OF_WHAT_HOLDS,
                f"query {_name(plan)} has a condition on {period.type_name}.{end}, and sees only what holds, "
                "so what has ended is not there; say `ever` to see all that is stored",
                period.type_name,
                end,
                (_name(plan),),
            )


def _blocks(steps: tuple[ir.Step, ...]) -> Iterator[tuple[ir.Step, ...]]:
    """The steps, and those of the blocks and sources inside."""
    yield steps
    for step in steps:
        if isinstance(step, ir.SemiJoin | ir.AntiJoin | ir.LeftJoin):
            yield from _blocks(step.inner)
        elif isinstance(step, ir.Rows):
            yield from _blocks(step.plan.steps)

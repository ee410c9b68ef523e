"""Merges two schemas that started from one: `merge_schemas` is the way in.

base, source, target ── join_added ──> by identity ── decide_schema ──> decided, conflicts
    ── declarations, compile ──> shape ── merged_text, numbered ──> text and IR ── compare ──> steps
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from omnigraph.lang.schema.identities import Numbering
from omnigraph.lang.schema.ir import Ir, TypeIr
from omnigraph.lang.schema.lint import REQUIRED_PROPERTY_ADDED
from omnigraph.lang.schema.merge.conflicts import RESOLVABLE, ElementConflict, in_order, invalid
from omnigraph.lang.schema.merge.decide_types import decide_schema
from omnigraph.lang.schema.merge.deciding import Deciding
from omnigraph.lang.schema.merge.declarations import (
    BrokenRules,
    compile_declarations,
    declaration,
)
from omnigraph.lang.schema.merge.element_ids import OwnTable, numbered
from omnigraph.lang.schema.merge.join_added import join_added
from omnigraph.lang.schema.merge.merged_text import merged_text
from omnigraph.lang.schema.merge.resolution_words import ResolveSchema, Words
from omnigraph.lang.schema.merge.sides import DataChanged, SchemaSide, Side, no_data_changed
from omnigraph.lang.schema.migrate.compare import compare
from omnigraph.lang.schema.migrate.data_steps import RequireProperty
from omnigraph.lang.schema.migrate.plan_steps import (
    AddProperty,
    DropType,
    SchemaStep,
    UnsupportedChange,
)


@dataclass(frozen=True, slots=True)
class MergedSchema:
    """A merged schema, and the steps that lead to it from the target."""

    ir: Ir
    text: str
    steps: tuple[SchemaStep, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaMerge:
    """What a merge of schemas comes to: a schema, or the conflicts that stand against it.

    ``resolved`` are the elements in conflict that a word of `resolve_schema` decided.
    """

    schema: MergedSchema | None
    conflicts: tuple[ElementConflict, ...] = ()
    resolved: tuple[str, ...] = ()


def merge_schemas(
    base: SchemaSide,
    source: SchemaSide,
    target: SchemaSide,
    *,
    data: DataChanged = no_data_changed,
    resolve: ResolveSchema | None = None,
    numbering: Numbering | None = None,
    own_table: OwnTable | None = None,
) -> SchemaMerge:
    """Merge what the source changed since the base into the target.

    ``resolve`` are the words of `resolve_schema`; one that cannot be followed is a BadRequest. New ids
    come from ``numbering``, without which they are provisional. ``own_table`` tells for which types
    that only the source has the target makes a table of its own; without it, only for those that get
    other columns.
    """
    words = Words(resolve)
    if source.ir == target.ir:
        words.refuse_unused()
        return SchemaMerge(MergedSchema(target.ir, target.text))
    if numbering is None:
        numbering = Numbering(max(each.ir.next_identity_id for each in (base, source, target)))
    schemas = join_added(base.ir, source.ir, target.ir, numbering.single_line_below)
    names: dict[Side, str] = {"source": source.name, "target": target.name}
    deciding = Deciding(schemas, words, data, names)
    decided = decide_schema(deciding)
    if deciding.conflicts:
        return _refused(deciding.conflicts, words)
    trees = {number: declaration(type_, decided) for number, type_ in decided.items()}
    try:
        shape = compile_declarations(trees.values())
    except BrokenRules as broken:
        return _refused([invalid(*rule) for rule in broken.rules], words)
    text, written = merged_text(shape, decided, trees, schemas, (base, source, target))
    assert written.shape_hash == shape.shape_hash, "the merged text does not say what was decided"
    ir = numbered(written, decided, schemas, numbering, own_table or _no_table)
    if _same_but_order(ir, target.ir):
        ir = target.ir
    steps = merge_steps(target.ir, ir)
    unreachable = [step for step in steps if isinstance(step, UnsupportedChange)]
    if unreachable:
        return _refused([_out_of_reach(step, words) for step in unreachable], words)
    words.refuse_unused()
    return SchemaMerge(MergedSchema(ir, text, steps), resolved=words.resolved)


def merge_steps(before: Ir, after: Ir) -> tuple[SchemaStep, ...]:
    """The steps that lead from one schema to a merged one.

    A merge can do what no apply can: drop an interface, and add a required property, whose values come
    with the rows of the source. Whether every row then has one is judged with the merged rows.
    """
    steps: list[SchemaStep] = []
    interfaces = {type_.shape.entity: type_ for type_ in before.interfaces}
    kept = {type_.type_id for type_ in after.interfaces}
    for step in compare(before, after, "soft"):
        if not isinstance(step, UnsupportedChange):
            steps.append(step)
        elif step.code == REQUIRED_PROPERTY_ADDED:
            steps += _added_as_required(after, step.entity)
        elif step.entity in interfaces and interfaces[step.entity].type_id not in kept:
            steps.append(DropType("interface", interfaces[step.entity].name, "soft"))
        else:
            steps.append(step)
    return tuple(steps)


def _added_as_required(after: Ir, element: str) -> Iterator[SchemaStep]:
    owner, _, name = element.partition(".")
    (type_,) = (each for each in after if each.shape.entity == owner)
    prop = type_.shape.property(name)
    assert prop is not None
    yield AddProperty(type_.kind, type_.name, name, prop.type.as_nullable().display)
    yield RequireProperty(type_.kind, type_.name, name)


def _out_of_reach(step: UnsupportedChange, words: Words) -> ElementConflict:
    """The conflict over what the target cannot get, such as a `U64` column in place of its `I64`."""
    found = invalid(step.entity, step.code or "unsupported_change", step.reason)
    if step.entity not in words.resolved:
        return found
    return replace(found, way='decide "ours", or let one side have a new property instead')


def _no_table(_type: TypeIr) -> bool:
    return False


def _refused(conflicts: Sequence[ElementConflict], words: Words) -> SchemaMerge:
    words.refuse_unused(each.element for each in conflicts if each.kind not in RESOLVABLE)
    return SchemaMerge(None, in_order(conflicts), words.resolved)


def _same_but_order(ir: Ir, target: Ir) -> bool:
    """Whether a merged IR says what the target's does; then the target keeps its own."""
    return replace(ir, next_identity_id=target.next_identity_id).to_json() == target.to_json()

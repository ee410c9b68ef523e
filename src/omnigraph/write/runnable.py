"""Which mutations the write path runs so far: those of plain values, one comparison, and one kind of statement."""

from __future__ import annotations

from omnigraph.errors import BadRequest, ConstraintError
from omnigraph.lang.query import ir


def require_runnable(plan: ir.MutationPlan) -> None:
    """Refuse a mutation that cannot be run, before anything is done."""
    deletes = [isinstance(statement, ir.Delete) for statement in plan.statements]
    if any(deletes) and not all(deletes):
        raise ConstraintError(
            f"{_name(plan)} mixes insert or update with delete: split it, run the "
            "writes first and then the deletes (use a branch and merge for one commit)",
            query=plan.name,
            violation="mixed_mutation",
        )
    if not is_runnable(plan):
        raise BadRequest(
            f"{_name(plan)} uses a form of mutation that cannot be run yet: statements take literals "
            "and parameters, and a `where` of one comparison"
        )


def _name(plan: ir.MutationPlan) -> str:
    return "the mutation" if plan.name is None else f"query `{plan.name}`"


def is_runnable(plan: ir.MutationPlan) -> bool:
    """Whether a mutation has only rows, values and conditions that can be run."""
    return not plan.steps and plan.returned is None and all(map(_is_plain, plan.statements))


def _is_plain(statement: ir.Mutation) -> bool:
    if isinstance(statement, ir.Insert):
        return not statement.is_upsert and _has_plain_values(statement.assignments)
    if statement.var is not None or not _is_comparison(statement.where):
        return False
    if isinstance(statement, ir.Delete):
        return True
    return statement.kind == "node" and _has_plain_values(statement.assignments)


def _has_plain_values(assignments: tuple[ir.Assignment, ...]) -> bool:
    return all(isinstance(one.value, ir.Value) for one in assignments)


def _is_comparison(where: ir.Condition | None) -> bool:
    return (
        isinstance(where, ir.Compare)
        and where.op in ("=", "!=", "<", "<=", ">", ">=")
        and isinstance(where.left, ir.PropertyOf)
        and isinstance(where.right, ir.Value)
    )

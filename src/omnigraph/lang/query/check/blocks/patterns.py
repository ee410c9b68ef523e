"""Checks the match block: bindings, sources, traversals, conditions, `not`, `exists` and `optional`, in source order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal as OneOf

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.blocks.lower import (
    BoundNode,
    Resolved,
    ResolvedOptional,
    ResolvedTest,
    Test,
    lower_block,
)
from omnigraph.lang.query.check.blocks.moments import check_moments, when_of
from omnigraph.lang.query.check.blocks.naming import introduce, refuse_optional
from omnigraph.lang.query.check.blocks.sources import list_elements, query_rows
from omnigraph.lang.query.check.blocks.traversals import traversal
from omnigraph.lang.query.check.scope import ANONYMOUS, Context, Scope
from omnigraph.lang.query.check.terms.conditions import Block, conjuncts, word_of
from omnigraph.lang.query.check.terms.entries import Entries
from omnigraph.lang.query.syntax import ast
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean


def match_steps(
    context: Context, scope: Scope, body: ast.ReadBody | ast.WriteBody
) -> tuple[ir.Step, ...]:
    """The steps of a match, and of the list before it; `scope` gains what they introduce."""
    listed = () if body.each is None else (list_elements(context, scope, body.each),)
    context.when = when_of(context, scope, body.when)
    resolved = Patterns(context, scope).clauses(body.match or ())
    check_moments(context)
    return lower_block((*listed, *resolved), (), context)


def scope_variables(scope: Scope) -> tuple[ir.Variable, ...]:
    """The named variables of a scope, by name."""
    return tuple(
        ir.Variable(
            variable.name,
            variable.kind,
            variable.type_name,
            variable.nullable,
            variable.other_types,
        )
        for name, variable in sorted(scope.variables.items())
        if not name.startswith("#")
    )


class Patterns(Entries):
    """Resolves the clauses of one block; its scope gains the variables they introduce."""

    def clauses(self, clauses: Iterable[ast.Clause]) -> tuple[Resolved, ...]:
        """Resolve the clauses in source order."""
        found: list[Resolved] = []
        for clause in clauses:
            self._clause(clause, found)
        return tuple(found)

    def _clause(self, clause: ast.Clause, found: list[Resolved]) -> None:
        match clause:
            case ast.Binding():
                found.append(self._binding(clause))
            case ast.Traversal():
                found.append(traversal(self.context, self.scope, clause))
            case ast.Comparison():
                found.append(Test(self.comparison(clause)))
            case ast.Not():
                found.append(self._test(clause, negated=True))
            case ast.Exists():
                found.append(self._test(clause, negated=False))
            case ast.Optional():
                found.append(self._optional(clause))
            case ast.Rows():
                found.append(query_rows(self.context, self.scope, clause))
            case ast.ForIn():
                found.append(list_elements(self.context, self.scope, clause))
            case _:
                self._condition(clause, found)

    def _condition(self, clause: ast.Condition, found: list[Resolved]) -> None:
        """A condition by its conjuncts; a block that is one of them is a join of its own."""
        if isinstance(clause, ast.And):
            for part in clause.parts:
                self._clause(part, found)
            return
        if isinstance(clause, ast.Bare) and isinstance(clause.expr, ast.Truth):
            self._clause(clause.expr.condition, found)
            return
        if isinstance(clause, ast.Bare) and isinstance(clause.expr, ast.Exists):
            self._clause(clause.expr, found)
            return
        inside = clause.part if isinstance(clause, ast.Negated) else None
        if isinstance(inside, ast.Bare) and isinstance(inside.expr, ast.Exists):
            inside = inside.expr
        if isinstance(inside, ast.Exists):
            found.append(self._test(inside, negated=True))
            return
        found += [Test(one) for one in conjuncts(self.condition(clause))]

    def _binding(self, clause: ast.Binding) -> BoundNode:
        context, scope = self.context, self.scope
        node = context.catalog.nodes.get(clause.type_name)
        if node is None:
            hint = did_you_mean(clause.type_name, context.catalog.nodes)
            if clause.type_name in context.catalog.interfaces:
                hint = "it is an interface; bind one of the node types that implement it"
            elif clause.type_name in context.catalog.edges:
                word = clause.type_name[0].lower() + clause.type_name[1:]
                hint = f"it is an edge type; follow it as in `$a {word} $b`"
            context.fail("T1", f"there is no node type {clause.type_name}", clause.type_span, hint)
        when = when_of(context, scope, clause.when)
        var = context.hidden() if clause.var == ANONYMOUS else clause.var
        known = scope.get(var)
        introduce(context, scope, var, node.name, clause.span)
        variable = scope.get(var)
        assert variable is not None
        if variable.judged is not None:
            place = clause.span if clause.when is None else clause.when.span
            variable.judged.bindings.append((when, place))
        filters = tuple(self.entry(var, node, entry) for entry in clause.entries)
        for entry, condition in zip(clause.entries, filters, strict=True):
            for name in ir.mentioned(condition.right):
                other = scope.get(name)
                if other is not None:
                    refuse_optional(context, scope, other, entry.span)
        return BoundNode(variable, filters, known is not None and known.nullable)

    # -------------------------------------------------------------- blocks

    def block(self, block: Block) -> ir.Exists:
        """The block of `exists` or `not` inside a condition."""
        resolved, inner = self._inner(block.clauses, "test", word_of(block), block.span)
        outer = tuple(sorted(inner.mentioned))
        return ir.Exists(outer, lower_block(resolved, outer, self.context))

    def _test(self, block: Block, *, negated: bool) -> ResolvedTest:
        """The block of `exists` or `not` as a clause of its own."""
        resolved, inner = self._inner(block.clauses, "test", word_of(block), block.span)
        return ResolvedTest(resolved, tuple(sorted(inner.mentioned)), negated)

    def _optional(self, clause: ast.Optional) -> ResolvedOptional:
        if self._inside_test():
            self.context.fail(
                "T30",
                "an `optional` block inside `not` or `exists` changes nothing",
                clause.span,
                "leave it out",
            )
        resolved, inner = self._inner(clause.clauses, "optional", "optional", clause.span)
        introduced = tuple(sorted(inner.introduced()))
        if not introduced:
            self.context.fail(
                "T30",
                "an `optional` block must introduce a variable",
                clause.span,
                "a condition alone keeps or drops rows: put it into the match",
            )
        for name in introduced:
            self.scope.variables[name] = replace(inner.variables[name], nullable=True)
        return ResolvedOptional(resolved, tuple(sorted(inner.mentioned)), introduced)

    def _inside_test(self) -> bool:
        scope: Scope | None = self.scope
        while scope is not None:
            if scope.kind == "test":
                return True
            scope = scope.outer
        return False

    def _inner(
        self,
        clauses: tuple[ast.Clause, ...],
        kind: OneOf["test", "optional"],
        word: str,
        span: Span,
    ) -> tuple[tuple[Resolved, ...], Scope]:
        """Resolve a block inside this one; it must mention a variable of this one (T9)."""
        inner = Scope(self.scope, kind)
        resolved = Patterns(self.context, inner).clauses(clauses)
        if not inner.mentioned:
            self.context.fail(
                "T9",
                f"{'an' if word[0] in 'eo' else 'a'} `{word}` block must mention a variable of the outer match",
                span,
                "connect it to a variable bound outside",
            )
        if kind == "test":
            for name in (*inner.introduced(), *inner.inner_only):
                self.scope.inner_only.setdefault(name, span)
        else:
            self.scope.inner_only.update(inner.inner_only)
        return resolved, inner

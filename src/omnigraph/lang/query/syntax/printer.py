"""Prints a syntax tree in one canonical layout: `parse(render(tree)) == tree`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final

from omnigraph.lang.query.syntax import ast
from omnigraph.lang.source import escape

WIDTH: Final = 100
_INDENT: Final = "  "


def render(tree: ast.QueryFile | ast.Query) -> str:
    """The source text of a file or of one query."""
    queries = tree.queries if isinstance(tree, ast.QueryFile) else (tree,)
    return "\n".join("".join(f"{line}\n" for line in _query(query)) for query in queries)


def _query(query: ast.Query) -> Iterator[str]:
    params = ", ".join(f"${param.name}: {param.type.display}" for param in query.params)
    head = f"query {query.name}({params})"
    annotations = [
        f"@{name}({escape(text)})"
        for name, text in (("description", query.description), ("instruction", query.instruction))
        if text is not None
    ]
    if annotations:
        yield head
        yield from (_INDENT + annotation for annotation in annotations)
        yield "{"
    else:
        yield head + " {"
    body = query.body
    lines = _read(body) if isinstance(body, ast.ReadBody) else _write(body)
    yield from (_INDENT + line for line in lines)
    yield "}"


def _read(body: ast.ReadBody) -> Iterator[str]:
    yield from _clauses("match", body.match)
    yield from _list("return {", map(_item, body.items), "}")
    if body.order:
        yield from _list("order {", map(_sort_key, body.order), "}")
    if body.limit is not None:
        yield f"limit {body.limit}"


def _clauses(word: str, clauses: tuple[ast.Clause, ...]) -> Iterator[str]:
    yield word + " {"
    for clause in clauses:
        yield from (_INDENT + line for line in _clause(clause))
    yield "}"


def _clause(clause: ast.Clause) -> Iterator[str]:
    match clause:
        case ast.Not():
            yield from _clauses("not", clause.clauses)
        case ast.Binding(entries=()):
            yield f"${clause.var}: {clause.type_name}"
        case ast.Binding():
            head = f"${clause.var}: {clause.type_name} {{"
            yield from _list(head, map(_entry, clause.entries), "}")
        case ast.Traversal():
            yield _traversal(clause)
        case ast.TextClause():
            yield _expr(clause.call)
        case ast.Comparison():
            yield f"{_expr(clause.left)} {clause.op} {_expr(clause.right)}"


def _traversal(clause: ast.Traversal) -> str:
    edge = f"<{clause.word}>" if clause.undirected else clause.word
    if clause.edge_var is not None:
        edge = f"${clause.edge_var.name}:{edge}"
    if clause.hops is not None:
        top = "" if clause.hops.max is None else clause.hops.max
        edge += f"{{{clause.hops.min},{top}}}"
    return f"${clause.src.name} {edge} ${clause.dst.name}"


def _item(item: ast.Item) -> str:
    expr = _expr(item.expr)
    return expr if item.alias is None else f"{expr} as {item.alias}"


def _sort_key(key: ast.SortKey) -> str:
    expr = _expr(key.expr)
    return expr if key.direction is None else f"{expr} {key.direction}"


def _write(body: ast.WriteBody) -> Iterator[str]:
    for statement in body.statements:
        match statement:
            case ast.Insert():
                head = f"insert {statement.type_name} {{"
                yield from _list(head, map(_entry, statement.entries), "}")
            case ast.Update():
                head = f"update {statement.type_name} set {{"  # noqa: S608 - not SQL
                tail = f"}} where {_condition(statement.where)}"
                yield from _list(head, map(_entry, statement.entries), tail)
            case ast.Delete():
                yield f"delete {statement.type_name} where {_condition(statement.where)}"


def _entry(entry: ast.Entry) -> str:
    return f"{entry.name}: {_expr(entry.value)}"


def _condition(condition: ast.Condition) -> str:
    return f"{condition.property} {condition.op} {_expr(condition.value)}"


def _list(head: str, parts: Iterable[str], tail: str) -> Iterator[str]:
    """Parts between braces: on one line where they fit, else each on its own.

    The commas matter even where the grammar allows leaving them out: `$a, as` is two items.
    """
    listed = list(parts)
    line = f"{head} {', '.join(listed)} {tail}"
    if len(line) <= WIDTH:
        yield line
        return
    yield head
    for part in listed[:-1]:
        yield f"{_INDENT}{part},"
    yield _INDENT + listed[-1]
    yield tail


def _expr(expr: ast.Expr) -> str:
    match expr:
        case ast.Literal():
            return _literal(expr)
        case ast.Var():
            return f"${expr.name}"
        case ast.PropRef():
            return f"${expr.var}.{expr.name}"
        case ast.Now():
            return "now()"
        case ast.Name():
            return expr.name
        case ast.Call():
            return f"{expr.function}({', '.join(map(_expr, expr.args))})"


def _literal(literal: ast.Literal) -> str:
    value = literal.value
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        return str(value)
    return escape(value) if literal.kind == "string" else f"{literal.kind}({escape(value)})"


def _float(value: float) -> str:
    """Digits, a point and digits: the language has no exponents."""
    digits = format(Decimal(repr(value)), "f")
    return digits if "." in digits else f"{digits}.0"

"""Prints a syntax tree in one canonical layout: `parse(render(tree)) == tree`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.print_terms import (
    clause_text,
    condition,
    entry,
    expression,
    juxtaposed,
    when_text,
)
from omnigraph.lang.source import escape

WIDTH: Final = 100
_INDENT: Final = "  "


def render(tree: ast.QueryFile | ast.Query) -> str:
    """The source text of a file or of one query."""
    queries = tree.queries if isinstance(tree, ast.QueryFile) else (tree,)
    return "\n".join("".join(f"{line}\n" for line in _query(query)) for query in queries)


def _query(query: ast.Query) -> Iterator[str]:
    body = query.body
    lines = _read(body) if isinstance(body, ast.ReadBody) else _write(body)
    params = ", ".join(f"${param.name}: {param.type.display}" for param in query.params)
    if query.name is None:
        if params:
            yield f"({params})"
        yield from lines
        return
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
    yield from (_INDENT + line for line in lines)
    yield "}"


def _read(body: ast.ReadBody) -> Iterator[str]:
    if body.each is not None:
        yield clause_text(body.each)
    yield from _clauses("match", body.match, when_text(body.when))
    yield from _returned(body.items, body.distinct)
    if body.having:
        yield from _clauses("having", body.having)
    if body.order:
        yield from _list("order {", map(_sort_key, body.order), "}")
    for word, count in (("limit", body.limit), ("offset", body.offset)):
        if count is not None:
            yield f"{word} {expression(count) if isinstance(count, ast.Var) else count}"


def _returned(items: tuple[ast.Item, ...], distinct: bool) -> Iterator[str]:
    yield from _list(f"return {'distinct ' if distinct else ''}{{", map(_item, items), "}")


def _clauses(word: str, clauses: tuple[ast.Clause, ...], after: str = "") -> Iterator[str]:
    yield word + " {"
    texts = juxtaposed([clause_text(clause) for clause in clauses], clauses)
    for clause, text in zip(clauses, texts, strict=True):
        yield from (_INDENT + line for line in _clause(clause, text))
    yield "}" + after


def _clause(clause: ast.Clause, text: str) -> Iterator[str]:
    match clause:
        case ast.Not():
            yield from _clauses("not", clause.clauses)
        case ast.Exists():
            yield from _clauses("exists", clause.clauses)
        case ast.Optional():
            yield from _clauses("optional", clause.clauses)
        case ast.Binding() if clause.entries:
            head = f"${clause.var}: {clause.type_name} {{"
            yield from _list(head, map(entry, clause.entries), "}" + when_text(clause.when))
        case _:
            yield text


def _item(item: ast.Item) -> str:
    expr = expression(item.expr)
    return expr if item.alias is None else f"{expr} as {item.alias}"


def _sort_key(key: ast.SortKey) -> str:
    expr = expression(key.expr)
    return expr if key.direction is None else f"{expr} {key.direction}"


def _write(body: ast.WriteBody) -> Iterator[str]:
    if body.each is not None:
        yield clause_text(body.each)
    if body.match is not None:
        yield from _clauses("match", body.match, when_text(body.when))
    for statement in body.statements:
        yield from _statement(statement)
    if body.items is not None:
        yield from _returned(body.items, body.distinct)


def _statement(statement: ast.Statement) -> Iterator[str]:
    where = ""
    if not isinstance(statement, ast.Insert | ast.Assert) and statement.where is not None:
        where = f" where {condition(statement.where)}"
    match statement:
        case ast.Insert():
            word = "upsert" if statement.is_upsert else "insert"
            named = "" if statement.var is None else f"{expression(statement.var)}: "
            head = f"{word} {named}{statement.type_name} {{"
            yield from _list(head, map(entry, statement.entries), "}")
        case ast.Update():
            head = f"update {_target(statement)} set {{"  # noqa: S608 - not SQL
            yield from _list(head, map(entry, statement.entries), f"}}{where}")
        case ast.Delete():
            yield f"delete {_target(statement)}{where}"
        case ast.End():
            yield f"end {_target(statement)}{where}{_at(statement.moment)}"
        case ast.Assert():
            named = "" if statement.var is None else f"{expression(statement.var)}: "
            head = f"assert {named}{statement.type_name} {{"
            yield from _list(head, map(entry, statement.entries), f"}}{_at(statement.moment)}")


def _at(moment: ast.Expr | None) -> str:
    return "" if moment is None else f" at {expression(moment)}"


def _target(statement: ast.Update | ast.Delete | ast.End) -> str:
    if statement.var is not None:
        return expression(statement.var)
    assert statement.type_name is not None
    return statement.type_name


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

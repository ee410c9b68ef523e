"""What other processes do to a graph whose schema is being changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import omnigraph as og
from omnigraph.errors import OmniGraphError


def _read(graph: og.Graph) -> Any:
    return sorted(graph.schema.catalog.nodes["Person"].properties)


def _insert(graph: og.Graph) -> Any:
    return graph.mutate(
        'query q() { insert Person { name: "beside", mail: "b", level: "guest" } }'
    ).affected_nodes


def _branch(graph: og.Graph) -> Any:
    return graph.branches.create("beside").name


def _apply(graph: og.Graph) -> Any:
    return graph.schema.apply(
        graph.schema.source.replace("age: I32?", "age: I32? tall: F64?")
    ).applied


ACTIONS: dict[str, Callable[[og.Graph], Any]] = {
    "read": _read,
    "insert": _insert,
    "branch": _branch,
    "apply": _apply,
}


def attempt(uri: str, mode: Any, action: str) -> Any:
    """Open the graph, do one thing, and tell the outcome: what it gave, or the code of its error."""
    try:
        with og.open(uri, mode=mode) as graph:
            return ACTIONS[action](graph)
    except OmniGraphError as error:
        return error.code


def attempt_all(uri: str, calls: list[tuple[Any, str]]) -> list[Any]:
    """The outcomes of several attempts, one after the other."""
    return [attempt(uri, mode, action) for mode, action in calls]


def insert_many(uri: str, count: int) -> tuple[list[str], list[str]]:
    """Insert rows, by mutation and by load in turn: the names that were accepted, and codes of errors."""
    made, refused = [], []
    with og.open(uri) as graph:
        for number in range(count):
            row = {"name": f"n{number}", "mail": "m", "level": "guest"}
            try:
                if number % 2:
                    graph.load([{"type": "Person", "data": row}], mode="append")
                else:
                    body = ", ".join(f'{name}: "{value}"' for name, value in row.items())
                    graph.mutate(f"query q() {{ insert Person {{ {body} }} }}")
            except OmniGraphError as error:
                refused.append(error.code)
            else:
                made.append(row["name"])
    return made, refused

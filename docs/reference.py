"""Write the Python reference, `docs/user/api.md`, from the docstrings of the public names.

    python docs/reference.py

`./dev docs` runs it, and a test compares the page with what it would write.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph import spark
from omnigraph.graph.facets.algorithms import Algorithms
from omnigraph.graph.facets.blobs import Blobs
from omnigraph.graph.facets.branches import Branches, Tags
from omnigraph.graph.facets.commits import Changes, Commits
from omnigraph.graph.facets.schema import Schema
from omnigraph.pipeline.frame_options import FrameOptions
from omnigraph.pipeline.load_options import LoadOptions

PAGE = Path(__file__).parent / "user" / "api.md"
WIDTH = 100

HEAD = """# Python reference

Every public name of `import omnigraph as og`, from its docstring. This page is made by `docs/reference.py`: change the
docstring, not the page. The other pages say how things are used together, and
[Result types](results.md) lists what each result has at a glance.
"""
TARGETS = """## Naming a state

Every reading call ends in `**target`: `branch`, alone or with `version` or `time`; `snapshot`, a commit id; `tag`; or
`at`, a value of `og.at`, a `Snapshot`, a commit or a `datetime`. Without any it is the head of `main`
([Branches, tags and time](time-travel.md)).
"""
FACETS = {
    "branches": Branches,
    "tags": Tags,
    "commits": Commits,
    "changes": Changes,
    "schema": Schema,
    "blobs": Blobs,
    "algorithms": Algorithms,
}
FUNCTIONS = ("init", "open", "at", "parse_schema", "lint")
APART = {*FUNCTIONS, "Graph", "Session", "errors", "policy", "__version__"}


def page() -> str:
    """Return the whole page."""
    parts = [HEAD, "## Functions\n"]
    parts += [_function(f"og.{name}", getattr(og, name)) for name in FUNCTIONS]
    parts.append("### `og.__version__`\n\nThe version of the package, a text.\n")
    parts.append(TARGETS)
    parts.append(f"## `og.Graph`\n\n{_prose(og.Graph)}\n")
    own = set(_members(og.Graph)) - set(_members(og.Session))
    parts += [_member("graph", name, og.Graph) for name in sorted(own)]
    parts.append(f"## `og.Session`\n\n{_prose(og.Session)}\n\nA `Graph` has all of these too.\n")
    parts += [_member("graph", name, og.Session) for name in sorted(_members(og.Session))]
    for facet, kind in FACETS.items():
        parts.append(f"## `graph.{facet}`\n\n{_prose(kind)}\n")
        parts += [_member(f"graph.{facet}", name, kind) for name in _members(kind)]
    parts.append("## Options of loads\n")
    parts.append(_options("load", LoadOptions))
    parts.append(_options("load_nodes` and `load_edges", FrameOptions))
    parts.append("## Results and values\n")
    parts += [_class(f"og.{name}", getattr(og, name)) for name in og.__all__ if name not in APART]
    parts.append(f"## `og.policy`\n\n{_prose(og.policy)}\n")
    for name in og.policy.__all__:
        member = getattr(og.policy, name)
        parts.append(
            (_class if inspect.isclass(member) else _function)(f"og.policy.{name}", member)
        )
    parts.append(
        "## `og.errors`\n\nEvery class of the tree, with its code, is in [Errors](errors.md).\n"
    )
    parts.append("## `og.spark`\n\nNeeds the extra `spark` ([Spark](spark.md)).\n")
    parts += [
        _function(f"og.spark.{name}", getattr(spark, name)) for name in ("register", "in_thread")
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _members(kind: type) -> Iterator[str]:
    """The public names of a class, in the order of their definition."""
    seen: dict[str, None] = {}
    ours = [base for base in reversed(kind.__mro__) if base.__module__.startswith("omnigraph")]
    for base in ours:
        for name, value in vars(base).items():
            known = inspect.isfunction(value) or isinstance(
                value, property | cached_property | classmethod | staticmethod
            )
            if known and not name.startswith("_"):
                seen[name] = None
    yield from seen


def _member(owner: str, name: str, kind: type) -> str:
    value = inspect.getattr_static(kind, name)
    if isinstance(value, property | cached_property):
        return f"### `{owner}.{name}`\n\n{_prose(value)}\n"
    return _function(f"{owner}.{name}", getattr(kind, name))


def _function(name: str, function: Callable[..., Any]) -> str:
    return f"### `{name}`\n\n```py\n{_call(name, function)}\n```\n\n{_prose(function)}\n"


def _call(name: str, function: Callable[..., Any]) -> str:
    """The signature as one would write it, without the object it is called on."""
    signature = inspect.signature(function)
    shown = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(_parameter(parameter))
    result = _annotation(signature.return_annotation)
    line = f"{name}({', '.join(shown)}) -> {result}"
    if len(line) <= WIDTH:
        return line
    inner = "".join(f"    {each},\n" for each in shown)
    return f"{name}(\n{inner}) -> {result}"


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    text = f"{parameter.name}: {_annotation(parameter.annotation)}"
    return (
        text if parameter.default is parameter.empty else f"{text} = {_default(parameter.default)}"
    )


def _default(value: object) -> str:
    """A default; that of a value with fields is the call that makes it."""
    return f"{type(value).__name__}()" if is_dataclass(value) else repr(value)


def _annotation(given: object) -> str:
    text = given if isinstance(given, str) else getattr(given, "__name__", str(given))
    return text.strip("'\"")


def _prose(documented: object) -> str:
    """A docstring with the marks of Markdown for those of code."""
    text = inspect.cleandoc(getattr(documented, "__doc__", None) or "")
    if "::" in text:  # an example: what follows stands indented already
        text = re.sub(r"::\n", ":\n", text)
    return re.sub(r"(?<!`)``(?!`)", "`", text)


def _options(call: str, kind: Any) -> str:
    rows = "".join(
        f"| `{each.name}` | `{_annotation(each.type)}` | {_field_default(each)} |\n"
        for each in fields(kind)
        if each.name != "shared"
    )
    table = "| Option | Type | Default |\n|---|---|---|\n" + rows.replace(" | None`", " \\| None`")
    return f"### Of `{call}`\n\n{_prose(kind)}\n\n{_escaped(table)}"


def _field_default(each: Field[Any]) -> str:
    return "" if each.default is MISSING else f"`{each.default!r}`"


def _escaped(table: str) -> str:
    """A table whose code may hold the sign that separates cells."""
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"(?<!\\)\|", r"\\|", code[0]), table)


def _class(name: str, kind: Any) -> str:
    text = f"### `{name}`\n\n{_prose(kind)}\n"
    if is_dataclass(kind):
        shown = [each for each in fields(kind) if not each.name.startswith("_") and each.repr]
        if shown:
            listed = ", ".join(f"`{each.name}: {_annotation(each.type)}`" for each in shown)
            text += "\n" + textwrap.fill(f"Fields: {listed}.", 118, break_long_words=False) + "\n"
    if isinstance(kind, type) and issubclass(kind, Enum):
        text += "\n" + textwrap.fill(", ".join(f"`{each.value}`" for each in kind), 118) + "\n"
    methods = [member for member in _members(kind) if _is_for_users(kind, member)]
    if methods:
        lines = "".join(f"- {_short(kind, member)}\n" for member in methods)
        text += f"\n{lines}"
    return text


def _is_for_users(kind: type, member: str) -> bool:
    """Not what the package itself calls: how a result is made from a commit that was there already."""
    return member != "replay" and bool(
        getattr(inspect.getattr_static(kind, member), "__doc__", None)
    )


def _short(kind: type, member: str) -> str:
    """One line of a method or property: how it is called, and the first sentence of what it does."""
    value = inspect.getattr_static(kind, member)
    sentence = _prose(getattr(kind, member) if callable(value) else value).split("\n\n")[0]
    sentence = " ".join(sentence.split())
    if isinstance(value, property | cached_property):
        return f"`.{member}`: {sentence}"
    parameters = [
        each
        for each in inspect.signature(getattr(kind, member)).parameters.values()
        if each.name != "self"
    ]
    inside = ", ".join(
        f"**{each.name}"
        if each.kind is each.VAR_KEYWORD
        else each.name
        if each.default is each.empty
        else f"{each.name}={_default(each.default)}"
        for each in parameters
    )
    return f"`.{member}({inside})`: {sentence}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}")

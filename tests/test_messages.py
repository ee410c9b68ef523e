"""Messages and pages name only what there is: commands, functions, variables."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest
from typer.main import get_command

import omnigraph
from omnigraph import settings
from omnigraph.cli.app import build
from tests.cli.surfaces import PLANNED

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/user/*.md"), *ROOT.glob("examples/**/*.md")])

COMMAND = re.compile(r"(run |use |with |`|\$ )?\bomnigraph ([a-z][a-z-]*)((?: [a-z][a-z-]*)?)")
#: Read by others, or only by tests.
# The second is what a server prints when it listens.
FOREIGN = {"OMNIGRAPH_FAILPOINTS", "OMNIGRAPH_LISTEN_ADDR", "OMNIGRAPH_METRICS_ADDR"}


@functools.cache
def texts(path):
    """The string constants of a module, as a reader of messages meets them: parts joined."""
    return tuple(_texts(path))


def _texts(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def everything():
    for path in SOURCES:
        yield from ((path.relative_to(ROOT), text) for text in texts(path))
    yield from ((path.relative_to(ROOT), path.read_text("utf-8")) for path in PAGES)


@functools.cache
def command_line():
    return get_command(build())


def missing(text):
    """The commands a text names that the command line does not have."""
    if "omnigraph " not in text:
        return
    tree = command_line()
    for lead, word, second in COMMAND.findall(text):
        if not lead and word not in PLANNED:
            continue  # a sentence about the product, not a command
        group = tree.commands.get(word)
        if group is None:
            yield word
        elif lead and second and hasattr(group, "commands"):
            inner = second.strip()
            if inner not in group.commands:
                yield f"{word} {inner}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("run omnigraph levitate", ["levitate"]),
        ("`omnigraph flock` does that", ["flock"]),
        ("then omnigraph embed-file", ["embed-file"]),
        ("run omnigraph branch levitate", ["branch levitate"]),
        ("run omnigraph repair, or omnigraph load", []),
        ("this omnigraph knows 3", []),
        ("$ omnigraph branch list", []),
    ],
)
def test_a_command_that_is_not_there_is_noticed(text, found):
    assert list(missing(text)) == found


def test_every_command_that_is_named_exists():
    found = [f"{path}: {name}" for path, text in everything() for name in missing(text)]
    assert found == []


def test_every_public_function_that_is_named_exists():
    named = {
        (str(path), name)
        for path in SOURCES
        for text in texts(path)
        if " " in text  # a key of metadata is no sentence
        for name in re.findall(r"\bomnigraph\.([a-z_]+)\b", text)
        # Modules are imported by their names in texts too.
        if not (ROOT / "src" / "omnigraph" / name).exists()
        and not (ROOT / "src" / "omnigraph" / f"{name}.py").exists()
    }
    assert [one for one in sorted(named) if not hasattr(omnigraph, one[1])] == []


VARIABLES = {
    value.variable for value in vars(settings).values() if isinstance(value, settings.Setting)
}


def test_every_variable_that_is_named_is_read():
    found = {
        name
        for _, text in everything()
        for name in re.findall(r"\bOMNIGRAPH_[A-Z_]*[A-Z]\b|\b[A-Z]+_API_KEY\b", text)
    }
    assert found - FOREIGN == VARIABLES


@pytest.mark.parametrize("variable", sorted(VARIABLES))
def test_every_variable_is_in_the_table_of_settings(variable):
    assert f"| `{variable}` |" in (ROOT / "docs" / "user" / "settings.md").read_text("utf-8")

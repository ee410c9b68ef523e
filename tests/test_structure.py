"""The shape of the source: no import circles, no crowded folders, no package without a word.

Imports inside functions and imports for type checkers count too. They do not fail at run time, but
two modules that need each other in any way cannot be understood, moved or tested apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import omnigraph

PACKAGE = Path(omnigraph.__file__).parent
FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py")})
MOST_MODULES = 15

Imports = Mapping[str, frozenset[str]]


def modules(package: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(package: Path) -> Imports:
    """Which modules of the package each of them imports, anywhere in its text.

    ``from package import module`` counts as an import of the module, not of its package.
    """
    known = modules(package)
    return {name: frozenset(_imported(name, path, known)) - {name} for name, path in known.items()}


def _imported(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            source = _source(name, path, node)
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                if inner in known or source in known:
                    yield inner if inner in known else source


def _source(name: str, path: Path, node: ast.ImportFrom) -> str:
    """The dotted name behind ``from``, with the dots of a relative import resolved."""
    if node.level == 0:
        return node.module or ""
    above = name.split(".")
    up = node.level - (path.name == "__init__.py")
    return ".".join([*above[: len(above) - up], *([node.module] if node.module else [])])


def circles(graph: Imports) -> list[list[str]]:
    """The groups of modules that all reach each other (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return sorted(found)


def test_no_modules_import_each_other():
    assert circles(imports(PACKAGE)) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_folder_can_be_taken_in_at_a_glance(folder):
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    assert len(names) <= MOST_MODULES, names


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_package_says_what_it_holds(folder):
    assert says_something((folder / "__init__.py").read_text(encoding="utf-8"))


def says_something(source: str) -> bool:
    """Whether a module has a docstring of at least one short sentence that is no placeholder."""
    words = (ast.get_docstring(ast.parse(source)) or "").split()
    return len(words) >= 5 and not {"TODO", "TBD", "FIXME"} & {word.strip(".:") for word in words}


# -- the checks themselves


def write(root: Path, **texts: str) -> Path:
    """A package ``made`` of modules with these texts; a double underscore stands for a folder."""
    for name, text in texts.items():
        path = (root / "made" / name.replace("__", "/")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in (path.parent, root / "made"):
            (folder / "__init__.py").touch()
        path.write_text(text)
    return root / "made"


PLAIN = "from made.b import x"
LAZY = "def f():\n    import made.b"
TYPE_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made import b as other\n"
RELATIVE = "from .b import x"


@pytest.mark.parametrize("there", [PLAIN, LAZY, TYPE_ONLY, RELATIVE])
def test_a_circle_of_two_is_seen(tmp_path, there):
    made = write(tmp_path, a=there, b="class C:\n    def f(self):\n        from made.a import y")
    assert circles(imports(made)) == [["made.a", "made.b"]]


def test_a_long_circle_through_a_folder_is_seen_once(tmp_path):
    made = write(
        tmp_path,
        a="from made.inner import b",
        inner__b="from ..c import x",
        c="import made.d\nimport made.e",
        d="from made.a import y",
        e="import json",
    )
    assert circles(imports(made)) == [["made.a", "made.c", "made.d", "made.inner.b"]]


def test_two_circles_are_told_apart(tmp_path):
    made = write(
        tmp_path,
        a="import made.b",
        b="import made.a\nimport made.c",
        c="import made.d",
        d="import made.c",
    )
    assert circles(imports(made)) == [["made.a", "made.b"], ["made.c", "made.d"]]


def test_a_ladder_is_no_circle(tmp_path):
    made = write(tmp_path, a="import made.b, made.c", b="from made import c", c="x = 1")
    assert circles(imports(made)) == []


@pytest.mark.parametrize(
    ("source", "fine"),
    [
        ('"""The rooms of the house, and who may enter."""', True),
        ('"""TODO: say what this is for."""', False),
        ('"""Things."""', False),
        ("x = 1", False),
    ],
)
def test_placeholders_are_seen(source, fine):
    assert says_something(source) is fine

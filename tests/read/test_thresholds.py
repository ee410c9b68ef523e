"""Thresholds are handed down from the reader: no test patches a constant of a module instead.

A constant that is imported by name has a copy in each module, and a patch changes one of them only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.read.thresholds import DEFAULTS, MatchThresholds, Thresholds, ViewThresholds
from tests.graphs import person
from tests.opened import fresh_reader, read_with
from tests.read.view_helpers import SCHEMA, view_of

TESTS = Path(__file__).parents[1]
ROOM = "omnigraph.read"
ALLOWED: dict[str, str] = {
    "omnigraph.read.view.state_files._PATIENCE_SECONDS": "a wait for another process, on a machine that is busy",
}
"""Constants that a test may patch all the same, `module.NAME` to the reason."""

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")


def patched(source: str) -> Iterator[str]:
    """The constants of ``omnigraph.read`` that a test sets, as `module.NAME`."""
    if ROOM not in source and "from omnigraph import" not in source:
        return
    tree = ast.parse(source)
    known = dict(_modules(tree))
    for node in ast.walk(tree):
        for owner, name in _settings(node):
            # What a loop or an argument hands in may be any module that the test imports.
            modules = [known[owner]] if owner in known else known.values() if owner else [""]
            found = {f"{module}.{name}".strip(".") for module in modules}
            yield from (one for one in found if one.startswith(f"{ROOM}."))


def _modules(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What names may stand for modules in a test."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            # compiled = pytest.importorskip("omnigraph.read.kernels.hops_numba")
            called, given = node.value.func, node.value.args
            if ast.unparse(called).endswith(("importorskip", "import_module")) and given:
                for target in node.targets:
                    yield ast.unparse(target), str(getattr(given[0], "value", ""))


def _settings(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Owner and name of a constant that a statement sets; no owner where the name is dotted."""
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and _CONSTANT.fullmatch(target.attr):
                yield ast.unparse(target.value), target.attr
    if not isinstance(node, ast.Call):
        return
    # setattr, monkeypatch.setattr, ...
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    )
    if not called.endswith("setattr"):
        return
    match node.args:
        case [ast.Constant(value=str(dotted)), *_]:
            if _CONSTANT.fullmatch(dotted.rpartition(".")[2]):
                yield "", dotted
        case [owner, ast.Constant(value=str(name)), *_]:
            if _CONSTANT.fullmatch(name):
                yield ast.unparse(owner), name


def test_no_test_patches_a_constant_of_reading():
    texts = ((path, path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py"))
    found = {
        f"{path.relative_to(TESTS)} sets {constant}"
        for path, text in texts
        if ROOM in text
        for constant in set(patched(text)) - ALLOWED.keys()
    }
    assert not found, "build other `Thresholds`, or hand the kernel another size"


IMPORT = "from omnigraph.read.match.lookups import fetch\n"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (
            IMPORT + 'monkeypatch.setattr(fetch, "FEW", 0)',
            {"omnigraph.read.match.lookups.fetch.FEW"},
        ),
        (IMPORT + "fetch.FEW = 0", {"omnigraph.read.match.lookups.fetch.FEW"}),
        (
            IMPORT + 'for one in x:\n    setattr(one, "_FEW", 0)',
            {"omnigraph.read.match.lookups.fetch._FEW"},
        ),
        (
            'patch.setattr("omnigraph.read.view.edges._MANY", 0)',
            {"omnigraph.read.view.edges._MANY"},
        ),
        (
            'made = pytest.importorskip("omnigraph.read.kernels.x")\npatch.setattr(made, "X", 1)',
            {"omnigraph.read.kernels.x.X"},
        ),
        (IMPORT + 'monkeypatch.setattr(fetch, "fetch", None)', set()),
        ('from omnigraph.manifest import publisher\npatch.setattr(publisher, "AT", 1)', set()),
        ('monkeypatch.setattr("omnigraph.runner.spark_runner.FETCHED_ROWS", 1)', set()),
    ],
)
def test_patches_are_seen(source, found):
    assert set(patched(source)) == found


def test_a_graph_reads_with_the_thresholds_it_was_given(tmp_path):
    chosen = Thresholds(match=MatchThresholds(small_seconds=0.0), view=ViewThresholds(views=1))
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([person("a")])
        assert view_of(graph).thresholds == DEFAULTS
        read_with(graph, chosen)
        assert fresh_reader(graph).thresholds is view_of(graph).thresholds is chosen
        query = 'query q() { match { $p: Person { name: "a" } } return { $p.name } }'
        assert graph.explain(query).path == "indexed"
        read_with(graph, DEFAULTS)
        assert graph.explain(query).path == "csr"

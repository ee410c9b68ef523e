"""The documentation is run.

The ``python`` blocks of a page run in order, in one namespace, in a directory that holds a copy of
``examples``. A ``text`` block right after one is what it prints. A ``pg`` block must compile, and a
``gq`` block must pass lint against the last ``pg`` block above it.
"""

import contextlib
import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph as og

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "user").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    language: str
    text: str
    line: int
    follows_directly: bool


def blocks(page):
    source = page.read_text("utf-8")
    end = 0
    for match in FENCE.finditer(source):
        gap = source[end : match.start()]
        line = source.count("\n", 0, match.start()) + 1
        yield Block(match[1], match[2], line, follows_directly=not gap.strip())
        end = match.end()


@pytest.fixture
def run_python(tmp_path, monkeypatch):
    """Run a block where the examples are at hand; return what it prints."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__docs__"}

    def run(page, block):
        # Leading newlines make the line numbers of a traceback those of the page.
        code = compile("\n" * block.line + block.text, str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        return printed.getvalue()

    return run


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_the_page_shows(page, run_python):
    printed = ""
    before = None
    for block in blocks(page):
        if block.language == "python":
            printed = run_python(page, block)
        elif block.language == "text" and before == "python" and block.follows_directly:
            assert printed.rstrip() == block.text.rstrip(), f"{page.name}:{block.line}"
        before = block.language


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_schema_and_query_blocks_are_valid(page):
    schema = None
    for block in blocks(page):
        if block.language == "pg":
            schema = og.parse_schema(block.text)
        elif block.language == "gq":
            assert schema is not None, f"{page.name}:{block.line} has no schema above it"
            report = og.lint(schema, block.text)
            assert report.status == "ok", f"{page.name}:{block.line} {report}"


def test_the_demo_runs(capsys):
    from examples import demo

    demo.main(records=3_000, engine="local")
    shown = capsys.readouterr().out
    assert "did you mean" in shown
    assert "local engine" in shown
    # The first company has the most people in it, so they write the most.
    assert re.search(r"^company +\| articles\n.*\n.* & Co 0 +\|", shown, re.MULTILINE)

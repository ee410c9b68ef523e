"""The documentation is run.

The ``python`` blocks of a page run in order, in one namespace, in a directory that holds a copy of
``examples``. A ``text`` block right after one is what it prints. A ``pg`` block must compile, and a
``gq`` block must pass lint against the last ``pg`` block above it. ``console`` blocks are run by
``tests/cli/test_manual.py``, which also compares the manual of the command line with its commands; all
blocks of pages that start a server are run by ``tests/server/test_manual.py``. Errors and settings are
compared with their pages in ``tests/test_project.py``. A block of any other kind is listed in
``NOT_RUN_HERE``, with the reason.
"""

import ast
import codeop
import contextlib
import inspect
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

import omnigraph as og
from omnigraph.cli.app import build
from omnigraph.cli.operator.config import read_operator
from omnigraph.cluster.declared.cluster_yaml import read_config
from omnigraph.cluster.declared.diagnostics import Diagnostics
from omnigraph.pipeline.load_options import LoadOptions
from tests.served_pages import SERVED_PAGES

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    *sorted((ROOT / "docs" / "user").glob("*.md")),
    *sorted((ROOT / "src" / "omnigraph" / "skill").glob("*.md")),
]
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
    monkeypatch.setenv("PATH", f"{_programs(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}")
    namespace = {"__name__": "__docs__"}

    def run(page, block):
        # Leading newlines make the line numbers of a traceback those of the page.
        code = compile("\n" * block.line + block.text, str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        return printed.getvalue()

    yield run
    for started in namespace.values():  # where a page failed before it ended its server
        if isinstance(started, subprocess.Popen) and started.poll() is None:
            started.terminate()
            started.communicate()


def _programs(place):
    """The scripts of the package, as an installation has them."""
    place.mkdir()
    server = place / "omnigraph-server"
    start = "import sys; from omnigraph.server.process.main import main; sys.exit(main())"
    server.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n', "utf-8")
    server.chmod(0o755)
    return place


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in SERVED_PAGES], ids=lambda page: page.name
)
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


def test_the_first_page_can_be_pasted_into_the_plain_prompt():
    """Line by line, as the prompt reads it: a statement with a body ends with an empty line."""
    page = ROOT / "docs" / "user" / "getting-started.md"
    for block in blocks(page):
        if block.language != "python":
            continue
        pasted: list[str] = []
        for line in block.text.splitlines():
            pasted.append(line)
            if codeop.compile_command("\n".join(pasted), str(page), "single") is not None:
                pasted.clear()
        assert not pasted, f"{page.name}:{block.line} waits for an empty line"


def test_the_first_page_can_be_followed_again(run_python):
    page = ROOT / "docs" / "user" / "getting-started.md"
    for _ in range(2):
        for block in blocks(page):
            if block.language == "python":
                run_python(page, block)


NOT_RUN_HERE = {
    ("spark.md", "py"): "tests/spark/test_datasource.py runs them",
    ("citations-on-spark.md", "py"): "tests/spark/test_algorithms.py runs them",
    ("streams.md", "py"): "tests/spark/test_change_stream.py runs them",
    ("api.md", "py"): "signatures, made from the source",
    ("graphs.md", "py"): "needs a store that is somewhere else",
    ("deploy-spark.md", "py"): "a part of deploy/load.py, which tests/spark runs on a cluster",
    ("mcp.md", "json"): "the configuration of a program that starts agents",
    ("cli.md", "yaml"): "the operator's file, read below",
    ("clusters.md", "yaml"): "a cluster with a store that is somewhere else, read below",
    **{(page.name, "sh"): "installs and clusters; read below" for page in PAGES},
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_there_is_a_reason(page):
    found = [block.language for block in blocks(page)]
    fences = re.findall(r"^ *```", page.read_text("utf-8"), re.MULTILINE)
    assert len(fences) == 2 * len(found), "a block without a language, or inside a list"
    run = {"python", "text", "pg", "gq", "console"}
    assert {one for one in found if (page.name, one) not in NOT_RUN_HERE} <= run


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_not_run_can_be_read(page, tmp_path, monkeypatch):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    for block in blocks(page):
        if block.language == "py" and page.name != "api.md":
            ast.parse(block.text)
        elif block.language == "sh":
            subprocess.run(["sh", "-n"], input=block.text, text=True, check=True)
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.startswith("omnigraph "):
                    read_command(shlex.split(line, comments=True)[1:])
            for named in re.findall(r"omnigraph\[([\w,-]+)\]", block.text):
                assert set(named.split(",")) <= extras.keys()
        elif block.language == "yaml" and page.name == "clusters.md":
            (tmp_path / "cluster.yaml").write_text(block.text, "utf-8")
            diagnostics = Diagnostics()
            assert set(read_config(str(tmp_path), diagnostics).graphs) == {"shop", "staff"}
            assert diagnostics.found == []
        elif block.language == "yaml":
            (tmp_path / "config.yaml").write_text(block.text, "utf-8")
            monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
            operator = read_operator()
            assert (operator.unknown, operator.faults) == ((), {})


def read_command(words):
    """Parse a command line as `omnigraph` would; a word that it does not know raises an error."""
    command = get_command(build())
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("omnigraph", words)


REFERENCE = runpy.run_path(str(ROOT / "docs" / "reference.py"))
DIAGRAMS = runpy.run_path(str(ROOT / "docs" / "diagram.py"))
API = (ROOT / "docs" / "user" / "api.md").read_text("utf-8")


def test_the_python_reference_is_what_the_docstrings_say():
    assert REFERENCE["page"]() == API, "run `./dev docs`"


@pytest.mark.parametrize("name", DIAGRAMS["FIGURES"])
def test_a_diagram_is_what_the_project_says(name):
    drawn = DIAGRAMS["FIGURES"][name]()
    assert (ROOT / "docs" / "dev" / name).read_text("utf-8") == drawn, "run `./dev docs`"


@pytest.mark.parametrize("name", og.__all__)
def test_every_public_name_is_in_the_reference_with_a_docstring(name):
    section = re.search(
        rf"^##+ `og\.{re.escape(name)}`\n\n(.+?)(?=^##|\Z)", API, re.MULTILINE | re.DOTALL
    )
    assert section is not None
    # A data class without a docstring is given its call.
    assert not section[1].startswith(f"{name}(")


@pytest.mark.parametrize(
    ("owner", "kind"),
    [("graph", og.Graph), ("graph", og.Session)]
    + [(f"graph.{name}", kind) for name, kind in REFERENCE["FACETS"].items()],
)
def test_every_call_of_a_graph_is_in_the_reference_with_a_docstring(owner, kind):
    for name in (name for name in dir(kind) if not name.startswith("_")):
        section = re.search(
            rf"^### `{owner}\.{name}`\n\n(?:```py\n.*?```\n\n)?(.*)", API, re.MULTILINE | re.DOTALL
        )
        assert section is not None, name
        assert section[1].strip(), name
        assert not section[1].startswith("#"), f"{owner}.{name} has no docstring"


def test_the_help_of_a_load_names_every_option():
    told = inspect.getdoc(og.Graph.load)
    assert all(f"``{field.name}" in told for field in fields(LoadOptions))


def test_every_facet_of_a_graph_is_in_the_reference(tmp_path):
    with og.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        kinds = {
            name: type(getattr(graph, name)) for name in dir(graph) if not name.startswith("_")
        }
        facets = {
            name: kind
            for name, kind in kinds.items()
            if kind.__module__.startswith("omnigraph.graph.facets")
        }
    assert facets == REFERENCE["FACETS"]


def test_the_site_leads_to_every_page():
    def pages(entry):
        if isinstance(entry, str):
            return [entry]
        inner = entry.values() if isinstance(entry, dict) else entry
        return [page for each in inner for page in pages(each)]

    listed = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])
    there = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(there)


def test_pages_of_the_site_link_only_to_pages_of_the_site():
    for page in (ROOT / "docs").rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).resolve().is_relative_to(ROOT / "docs"), (
                    page,
                    target,
                )


def test_the_demo_tells_its_story_and_draws_it(capsys, tmp_path):
    from examples import demo

    demo.main(records=3_000, engine="local", plots=tmp_path / "plots", installing=40)
    shown = capsys.readouterr().out
    assert "did you mean" in shown
    assert "local engine" in shown
    # The first company has the most people in it, so they write the most.
    assert re.search(r"^company +\| articles\n.*\n.* & Co 0 +\|", shown, re.MULTILINE)
    assert re.search(r"^steps \| people\n-.*\n +\d+ \| \[", shown, re.MULTILINE)
    assert re.search(r"^level +\| people \| articles \| each\n", shown, re.MULTILINE)
    assert re.search(r"^ *2025 \| ", shown, re.MULTILINE)
    assert "main has 600 people now" in shown  # a fifth of the records
    assert "finds 1 conflict" in shown
    assert "add node Club" in shown
    assert "merged beside an edit of p7 on main: 2 inserted, 1 updated" in shown
    assert "schema_drop_vs_change: node:Person.city was dropped in slim" in shown
    assert "resolve_schema=ours: p7 still lives in Oslo" in shown
    assert re.search(r"p7 now: .*'age': 40\b", shown)
    assert "the past that a tag names stays: 600 people" in shown
    *_, plots, took = shown.splitlines()
    assert plots == f"plots: {tmp_path / 'plots'}"
    assert re.fullmatch(
        r"installing 40\.0 s, the load \(local engine\) \d+\.\d s, in all \d+\.\d s", took
    )
    drawn = {path.name for path in (tmp_path / "plots").iterdir()}
    assert drawn == {"companies.svg", "history.svg", "network.svg"}
    for path in (tmp_path / "plots").iterdir():
        ET.fromstring(path.read_text("utf-8"))

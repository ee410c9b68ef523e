"""The manual is complete, and what it shows is what happens; so are the commands of other pages.

A ``console`` block holds commands after ``$`` and below each what it prints, stderr and stdout
together; ``…`` stands for anything, and ``[exit N]`` for an exit code that is not 0. The blocks run
in order, in a directory that holds a copy of ``examples``; those of other pages in an empty one, after
the ``python`` blocks above them.
"""

import re
import shutil
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from typer.main import get_command

from omnigraph.cli.app import build
from omnigraph.cli.operator.config import SCOPE_KINDS, Alias, Defaults, NamedGraph, Operator
from omnigraph.cli.process import ENDING, SIGNALLED
from omnigraph.errors import OmniGraphError
from tests.cli.running import environment
from tests.served_pages import SERVED_PAGES, without_a_shell

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "user" / "cli.md").read_text("utf-8")
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OTHERS = [
    page
    for page in [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "src" / "omnigraph" / "skill").glob("*.md")),
    ]
    if page.name != "cli.md" and "```console" in page.read_text("utf-8")
    if page not in SERVED_PAGES
]
SHARED = {
    *("--store", "--server", "--cluster", "--graph", "--profile", "--as", "--yes"),
    *("--quiet", "--verbose", "--log-level", "--json", "--help", "-h"),
}


def sections():
    """Heading to text."""
    parts = re.split(r"^#{2,3} (.+)\n", MANUAL, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands(command=None, path=("omnigraph",)):
    """Every command that help lists, by its words."""
    command = command or get_command(build())
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path), command
        return
    for name, child in inner.items():
        if not child.hidden:
            yield from commands(child, (*path, name))


COMMANDS = dict(commands())


def error_classes(kind=OmniGraphError):
    yield kind
    for child in kind.__subclasses__():
        yield from error_classes(child)


def options(command):
    """The spellings of the options that help lists."""
    context = command.make_context("x", [], resilient_parsing=True)
    return {
        spelling
        for parameter in command.get_params(context)
        if parameter.param_type_name == "option" and not parameter.hidden
        for spelling in parameter.opts
    }


def mentioned(text):
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def test_every_command_has_a_section_and_every_section_a_command():
    documented = {heading.strip("`") for heading in sections() if heading.startswith("`omnigraph")}
    assert documented == COMMANDS.keys()


@pytest.mark.parametrize(("name", "command"), COMMANDS.items(), ids=COMMANDS)
def test_every_option_of_a_command_is_in_its_section(name, command):
    assert options(command) - SHARED <= mentioned(sections()[f"`{name}`"])


def test_the_flags_of_every_command_are_listed():
    listed = mentioned(sections()["Flags of every command"])
    assert listed >= SHARED
    root = options(get_command(build()))
    assert root - SHARED == {"-v", "--version"}
    assert root - SHARED <= mentioned(sections()["`omnigraph version`"])


def test_every_key_of_the_operators_file_is_in_its_section():
    text = sections()["Files of your own"]
    keys = {field.name for kind in (Defaults, NamedGraph, Alias) for field in fields(kind)}
    top = {field.name for field in fields(Operator)} - {"path", "unknown", "faults", "actor"}
    known = keys - {"name", "bindings"} | {*top, *SCOPE_KINDS, "operator", "actor", "url", "root"}
    assert known <= set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", text))))


def test_every_exit_code_is_in_the_table():
    listed = set(re.findall(r"^\| (\d+) \|", sections()["Results and failures"], re.MULTILINE))
    codes = {str(kind.exit_code) for kind in error_classes()}
    ended = {str(SIGNALLED + number) for number in (*ENDING, signal.SIGINT)}
    assert listed == {"0", "2", *codes, *ended}


def test_aliases_are_mentioned():
    hidden = {
        f"{group} {name}"
        for group, inner in get_command(build()).commands.items()
        for name, child in getattr(inner, "commands", {}).items()
        if child.hidden
    }
    hidden |= {name for name, child in get_command(build()).commands.items() if child.hidden}
    assert hidden == {"schema get", "read", "change", "check"}
    assert all(f"`{alias}`" in MANUAL for alias in hidden)


def steps(block):
    """The commands of a block, each with what it is to print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        yield line, expected


@pytest.fixture
def typed(tmp_path, launcher):
    """Type a line: what it prints, and its exit code. A shell runs it where it needs one."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, module in (("omnigraph", "-m omnigraph"), ("python", "")):
        program = tools / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n', "utf-8")
        program.chmod(0o755)
    env = environment(tmp_path / "home")
    env["PATH"] = f"{tools}:{env['PATH']}"

    def run(line):
        argv = without_a_shell(line)
        if argv is not None:
            result = launcher.run(argv, tmp_path, together=True)
            return result.stdout, result.exit
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout, done.returncode

    return run


def check(typed, block):
    for line, expected in steps(block):
        printed, code = typed(line)
        printed += f"[exit {code}]\n" if code else ""
        pattern = "(?s:.*)".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, printed), f"$ {line}\n{printed}"


def test_the_examples_print_what_the_manual_shows(tmp_path, typed):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for language, block in BLOCK.findall(MANUAL):
        if language == "console":
            check(typed, block)


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.name)
def test_the_commands_of_other_pages_print_what_they_show(page, tmp_path, typed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for language, block in BLOCK.findall(page.read_text("utf-8")):
        if language == "console":
            check(typed, block)
        else:
            exec(block, namespace)

"""The shell as a person at a terminal sees it."""

import stat

import pytest

import omnigraph as og
from tests.cli.conftest import SCHEMA
from tests.cli.running import SRC
from tests.cli.screen import CTRL_C, CTRL_D, ENTER, TAB, UP, Terminal

PEOPLE = 3_000
COUNT = "query n() { match { $p: Person } return { count($p) as n } }"
LONG = "query long() { match { $a: Person $b: Person $c: Person $a.age < $b.age $b.age < $c.age } return { count($a) as n } }"
"""Ages of 4.5 thousand million triples are compared, so that it still runs when it is stopped."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("prompt")
    people = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(PEOPLE)]
    with og.init(place / "g.omni", SCHEMA) as graph:
        graph.load(people)
        graph.tags.create("v1")
    return place


def shows_prompt(label, after):
    """Return whether the last line is an empty prompt, with some text above."""
    return lambda screen: after in screen and screen.splitlines()[-1].rstrip() == f"{label}>"


def test_a_session(place):
    with Terminal(("shell", "g.omni"), place) as terminal:
        terminal.wait_for(".help", "main>")
        # Tab completes types, edges and properties; lines go on until the braces close.
        terminal.type(f'q{TAB}a() {{ m{TAB} $p: P{TAB} {{ n{TAB}"p1" }}{ENTER}$p k{TAB} $q{ENTER}')
        terminal.wait_for("main> query a() { match { $p: Person", "$p knows $q")
        terminal.type(f"}} ret{TAB} $q.n{TAB} }} }}{ENTER}")
        screen = terminal.wait_until(shows_prompt("main", "ms"))
        assert "..... " in screen
        assert "0 rows from branch main via a" in screen
        # Where several words fit they are listed.
        terminal.type(f".p{TAB}{TAB}")
        terminal.wait_for(".params", ".profile")
        terminal.type(CTRL_C)
        terminal.wait_until(shows_prompt("main", ".p"))
        # An error is underlined where it is, and the shell goes on.
        terminal.type(f"query b() {{ match {{ $g: Ghost }} return {{ $g.name }} }}{ENTER}")
        terminal.wait_until(shows_prompt("main", "^^^^^"))
        # Tables are cut after the first rows and fit the screen.
        terminal.type(f"query c() {{ match {{ $p: Person }} return {{ $p.name }} }}{ENTER}")
        terminal.wait_until(shows_prompt("main", "the first 100 of 3,000 rows"))
        terminal.type(f".at tag:v1{ENTER}")
        terminal.wait_until(shows_prompt("tag:v1", ""))
        terminal.type(CTRL_D)
        assert terminal.wait_for_end() == 0


def test_ctrl_c_stops_what_runs_and_keeps_the_shell(place):
    with Terminal(("shell", "g.omni"), place) as terminal:
        terminal.wait_for("main>")
        terminal.type(f"query half() {{{ENTER}")
        terminal.wait_for(".....")
        terminal.type(CTRL_C)
        terminal.wait_until(shows_prompt("main", "....."))
        # The answer to the first of two statements shows that the second one runs.
        terminal.type(f"{COUNT} {LONG}{ENTER}")
        terminal.wait_for("via n", " ms")
        terminal.type(CTRL_C)
        screen = terminal.wait_until(shows_prompt("main", "interrupted"))
        assert "via long" not in screen
        terminal.type(f".branch{ENTER}")
        terminal.wait_until(shows_prompt("main", "* main"))
        terminal.type(f".quit{ENTER}")
        assert terminal.wait_for_end() == 0
    kept = place / "home" / "shell_history"
    assert "+.quit" in kept.read_text("utf-8")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with Terminal(("shell", "g.omni"), place) as terminal:
        terminal.wait_for("main>")
        terminal.type(f"{UP}{UP}{UP}")
        terminal.wait_for("main> query n()")
        terminal.type(CTRL_C + CTRL_D)
        assert terminal.wait_for_end() == 0


def test_without_prompt_toolkit_the_prompt_says_how_to_get_it(place, launcher):
    (place / "prompt_toolkit.py").write_text("raise ImportError", "utf-8")
    env = {"PYTHONPATH": f"{place}:{SRC}"}
    with Terminal(("shell", "g.omni"), place, env) as terminal:
        assert terminal.wait_for_end() == 1
        assert "pip install 'omnigraph[shell]'" in terminal.text.replace("\n", "")

"""The process contract: exit codes, streams, failures, and what is loaded for which command."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import omnigraph as og
from omnigraph import cli, failpoints
from tests.cli.running import environment

INSERT = 'query add() { insert Person { name: "ada" } }'
PEOPLE = "query people() { match { $p: Person } return { $p.name } }"
ENGINE = {"lance", "pyarrow", "numpy", "duckdb", "pandas", "obstore", "omnigraph.graph"}


def loaded_by(argv, place):
    """The modules a command line loads in a fresh interpreter."""
    program = (
        "import sys\n"
        "from omnigraph.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "print(*sys.modules, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *argv],
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


class TestLoading:
    @pytest.mark.parametrize("argv", [("version",), ("-v",)])
    def test_the_version_loads_no_parser_and_no_engine(self, place, argv):
        assert loaded_by(argv, place).isdisjoint({*ENGINE, "typer", "rich", "lark"})

    @pytest.mark.parametrize("argv", [("--help",), ("branch", "create", "--help")])
    def test_help_loads_no_engine(self, place, argv):
        assert loaded_by(argv, place).isdisjoint({*ENGINE, "lark", "rich"})

    def test_a_query_loads_neither_other_surfaces_nor_other_commands(self, place, graph):
        argv = ("query", "-e", PEOPLE, "--store", graph)
        loaded = loaded_by(argv, place)
        assert loaded >= {"lance", "omnigraph.cli.commands.query"}
        assert loaded.isdisjoint(
            {
                *("fastapi", "cedarpy", "mcp", "httpx2", "prompt_toolkit", "pyspark", "rich"),
                *("pandas", "polars", "scipy", "numba", "duckdb", "lark", "ruamel", "networkx"),
                *("omnigraph.cli.commands.load", "omnigraph.cli.completion"),
            }
        )

    def test_lint_against_a_file_loads_no_engine(self, place):
        (place / "q.gq").write_text("query a() { match { $p: Person } return { $p.name } }")
        argv = ("lint", "--schema", "people.pg", "--query", "q.gq")
        assert loaded_by(argv, place).isdisjoint(ENGINE)


class TestExitCodes:
    """In fresh interpreters: what a shell sees."""

    def test_done(self, fresh):
        result = fresh("init", "--schema", "people.pg", "g.omni")
        assert (result.exit, result.stdout) == (0, "initialized g.omni\n")
        assert fresh("branch", "list", "--uri", "g.omni").stdout == "main\n"

    def test_failed(self, fresh):
        result = fresh("snapshot", "nowhere.omni", "--json")
        assert result.exit == 1
        assert result.json["code"] == "not_found"
        assert result.stderr == f"error: {result.json['error']}\n"

    @pytest.mark.parametrize(
        "argv",
        [
            (),
            ("frobnicate",),
            ("branch",),
            ("branch", "frobnicate"),
            ("init", "g.omni"),
            ("init", "--schema", "people.pg"),
            ("snapshot", "a", "b"),
            ("snapshot", "--frobnicate"),
            ("snapshot", "--store"),
        ],
    )
    def test_misused(self, omnigraph, argv):
        result = omnigraph(*argv)
        assert (result.exit, result.stdout) == (2, "")
        assert result.stderr.startswith("error: ")
        assert "omnigraph --help" in result.stderr

    @pytest.mark.parametrize(
        ("argv", "told"),
        [
            (("branch", "create", "g", "v2", "x"), "(x); omnigraph branch create takes URI NAME"),
            (("branch", "list", "g", "x"), "(x); omnigraph branch list takes URI"),
            (("snapshot", "a", "b"), "(b); omnigraph snapshot takes URI"),
            (("version", "a"), "(a); omnigraph version takes no words but options"),
            (("query", "--at-version", "x"), "'--at-version': expected a whole number, got x"),
            (("cleanup", "--keep", "1.5"), "'--keep': expected a whole number, got 1.5"),
            (
                ("commit", "list", "--limit", "0"),
                "'--limit': expected a whole number, 1 or more, got 0",
            ),
        ],
        ids=" ".join,
    )
    def test_it_says_what_to_write_instead(self, omnigraph, argv, told):
        result = omnigraph(*argv)
        assert result.exit == 2
        assert result.stderr.splitlines()[0].endswith(told)

    @pytest.mark.parametrize("before", [True, False])
    def test_a_flag_that_is_refused_is_told_before_what_is_missing(self, omnigraph, before):
        flag, words = ("--store", "g9"), ("init", "--schema", "people.pg", "--json")
        result = omnigraph(*flag, *words) if before else omnigraph(*words, *flag)
        assert result.exit == 1
        assert result.json["error"].startswith("--store cannot be used with init (direct command):")

    def test_misused_in_json(self, fresh):
        result = fresh("snapshot", "--json", "--frobnicate")
        assert result.exit == 2
        assert result.json.keys() == {"error", "kind", "code"}
        assert result.json["code"] == "bad_request"
        assert "--frobnicate" in result.json["error"]

    @pytest.mark.parametrize(
        ("argv", "is_json"),
        [
            (("--json", "snapshot", "--frobnicate"), True),
            (("query", "-e", "--json", "--frobnicate"), False),
            (("load", "--node", "A", "--json", "--frobnicate"), False),
            (("--store", "--json", "snapshot", "--frobnicate"), False),
            (("snapshot", "--frobnicate", "--", "--json"), False),
        ],
        ids=str,
    )
    def test_the_value_of_a_flag_asks_for_no_json(self, omnigraph, argv, is_json):
        result = omnigraph(*argv)
        assert result.exit == 2
        assert (result.stdout != "") is is_json

    def test_interrupted(self, fresh, place):
        fresh("init", "--schema", "people.pg", "g.omni")
        pause = place / "pause"
        child = subprocess.Popen(
            [sys.executable, "-m", "omnigraph", "branch", "create", "x", "--uri", "g.omni"],
            cwd=place,
            env=environment(
                place / "home", {"OMNIGRAPH_FAILPOINTS": f"branch.before_create=pause:{pause}"}
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        waiting = failpoints.FilePause(pause)
        waiting.wait_until_reached()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=600)
        assert child.returncode == 130
        assert (out, err) == (
            "",
            "omnigraph branch create -> g.omni (direct, local)\ninterrupted\n",
        )
        # The lock went with the process, and nothing was made.
        assert fresh("branch", "create", "y", "--uri", "g.omni").exit == 0
        assert fresh("branch", "list", "--uri", "g.omni").stdout == "main\ny\n"


class TestInternalErrors:
    """A fault of the product itself, made by a failpoint."""

    @pytest.fixture
    def broken(self, place, monkeypatch):
        og.init(place / "g.omni", place / "people.pg").close()
        monkeypatch.chdir(place)
        with failpoints.arm("branch.before_create", ZeroDivisionError("boom")):
            yield ["branch", "create", "x", "--uri", "g.omni", "--quiet"]

    def test_no_traceback_but_a_hint(self, broken, capsys):
        assert cli.main(broken) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: internal error: ZeroDivisionError: boom\n")
        assert "report" in err
        assert "OMNIGRAPH_DEBUG=1" in err
        assert "Traceback" not in err

    def test_the_body(self, broken, capsys):
        assert cli.main([*broken, "--json"]) == 1
        assert json.loads(capsys.readouterr().out) == {
            "error": "internal error: ZeroDivisionError: boom",
            "kind": "internal",
            "code": "internal",
        }

    def test_the_whole_story_on_demand(self, broken, capsys, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_DEBUG", "1")
        assert cli.main(broken) == 1
        assert "Traceback" in capsys.readouterr().err


class TestStreams:
    def start(self, place, argv, stdout):
        return subprocess.run(
            [sys.executable, "-m", "omnigraph", *argv],
            cwd=place,
            env=environment(place / "home"),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    def test_a_reader_that_went_away_is_no_error_to_talk_about(self, place, graph):
        reading, writing = os.pipe()
        os.close(reading)
        done = self.start(place, ["schema", "show", graph], writing)
        os.close(writing)
        assert (done.returncode, done.stderr) == (1, "")

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    @pytest.mark.parametrize("more", [[], ["--json"]])
    def test_output_that_cannot_be_written_is_a_failure(self, place, graph, more):
        with open("/dev/full", "w") as full:
            done = self.start(place, ["schema", "show", graph, *more], full)
        assert done.returncode == 1
        assert done.stderr.count("cannot write the output") == 1
        assert "Traceback" not in done.stderr

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    @pytest.mark.parametrize("argv", [["--help"], ["branch", "--help"], ["load", "-h"]], ids=str)
    def test_help_that_cannot_be_written_is_no_fault_of_the_product(self, place, argv):
        with open("/dev/full", "w") as full:
            done = self.start(place, argv, full)
        assert done.returncode == 1
        assert (
            done.stderr
            == "error: runtime error: cannot write the output: No space left on device\n"
        )

    def test_help_that_nobody_reads(self, place):
        reading, writing = os.pipe()
        os.close(reading)
        done = self.start(place, ["load", "--help"], writing)
        os.close(writing)
        assert (done.returncode, done.stderr) == (1, "")

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    @pytest.mark.parametrize(
        ("argv", "has_commit", "told"),
        [
            (
                ["load", "--mode", "merge", "--data", "p.jsonl", "g.omni"],
                True,
                "is made on branch main",
            ),
            (
                ["ingest", "--data", "p.jsonl", "--branch", "b", "g.omni"],
                True,
                "is made on branch b",
            ),
            (["mutate", "-e", INSERT, "--store", "g.omni", "--json"], True, "is made"),
            (["branch", "create", "b", "--uri", "g.omni"], False, "branch b is made"),
            (["branch", "delete", "old", "--uri", "g.omni"], False, "branch old is deleted"),
            (["init", "--schema", "people.pg", "h.omni"], False, "the graph at h.omni is made"),
        ],
        ids=lambda value: value[0] if isinstance(value, list) else "",
    )
    def test_what_is_done_is_told_when_the_result_cannot_be(
        self, place, graph, argv, has_commit, told
    ):
        (place / "p.jsonl").write_text('{"type":"Person","data":{"name":"ada"}}\n', "utf-8")
        with og.open(place / graph) as opened:
            opened.branches.create("old")
        with open("/dev/full", "w") as full:
            done = self.start(place, [*argv, "--quiet"], full)
        assert done.returncode == 1
        lines = [line for line in done.stderr.splitlines() if "deprecated" not in line]
        assert len(lines) == 1
        assert lines[0].startswith("error: runtime error: cannot write the output: ")
        assert told in lines[0]
        if has_commit:
            branch = "b" if "on branch b" in told else "main"
            with og.open(place / graph, mode="r") as opened:
                head = opened.snapshot(branch=branch).graph_commit_id
            assert f"commit {head} is made" in lines[0]

    def test_a_commit_is_told_also_when_nobody_reads_the_result(self, place, graph):
        reading, writing = os.pipe()
        os.close(reading)
        argv = ["mutate", "-e", INSERT, "--store", graph, "--quiet"]
        done = self.start(place, argv, writing)
        os.close(writing)
        with og.open(place / graph, mode="r") as opened:
            head = opened.snapshot().graph_commit_id
        assert done.returncode == 1
        assert done.stderr == f"nobody read the result, but commit {head} is made on branch main\n"

    def test_the_text_of_a_query_is_no_flag(self, omnigraph, graph):
        result = omnigraph("query", "-e", "--json", "--store", graph)
        assert (result.exit, result.stdout) == (1, "")
        assert "parse error" in result.stderr

    def test_names_an_encoding_cannot_carry_are_spelled_out(self, fresh):
        result = fresh("snapshot", "größe-☃.omni", "--json", env={"PYTHONIOENCODING": "ascii"})
        assert result.exit == 1
        assert "größe-☃.omni" in result.json["error"]
        assert "\\u2603" in result.stderr

    def test_data_cannot_steer_the_terminal(self, omnigraph):
        result = omnigraph("lint", "--query", "a\x1b[2J\x07.gq", "--schema", "people.pg")
        assert result.exit == 1
        assert "a\\x1b[2J\\x07.gq" in result.stderr
        assert "\x1b" not in result.stderr


def test_a_table_is_drawn_on_a_terminal_only(place, graph):
    import pty

    mine, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "omnigraph", "branch", "list", "--uri", graph],
        cwd=place,
        env=environment(place / "home", {"TERM": "xterm", "COLUMNS": "80"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        check=True,
    )
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            chunk = os.read(mine, 4096)
        except OSError:  # Linux: all writers are gone
            break
        if not chunk:
            break
        shown += chunk
    os.close(mine)
    assert "───" in shown.decode()
    assert "main" in shown.decode()

"""The conformance cases of the command line, each as processes in a fresh directory."""

from pathlib import Path

import pytest

from tests.cli import surfaces
from tests.cli.running import Result
from tests.cli.surfaces import (
    CliCase,
    Running,
    at,
    check,
    cli_cases,
    missing_command,
    missing_option,
)


@pytest.mark.parametrize("case", cli_cases(), ids=str)
def test_case(case: CliCase, launcher, tmp_path):
    if (reason := case.missing()) is not None:
        pytest.skip(reason)
    Running(case, tmp_path, launcher.run).whole()


class TestTheRunner:
    """It must be able to fail."""

    @pytest.mark.parametrize(
        ("argv", "missing"),
        [
            (["levitate", "g.omni"], "levitate"),
            (["branch", "levitate", "x"], "branch levitate"),
            (["frobnicate"], None),
            (["branch", "frobnicate"], None),
            (["snapshot", "g.omni"], None),
            (["--help"], None),
        ],
    )
    def test_a_planned_command_is_told_from_nonsense(self, argv, missing, monkeypatch):
        monkeypatch.setattr(surfaces, "PLANNED", [*surfaces.PLANNED, "levitate"])
        monkeypatch.setitem(surfaces.PLANNED_INNER, "branch", {"levitate"})
        assert missing_command(argv) == missing

    @pytest.mark.parametrize(
        ("argv", "missing"),
        [
            (["load", "--levitate", "g.omni"], "--levitate"),
            (["branch", "create", "x", "--levitate"], "--levitate"),
            (["load", "--mode", "merge", "g.omni"], None),
            (["load", "--frobnicate", "g.omni"], None),
        ],
    )
    def test_a_planned_option_is_told_from_nonsense(self, argv, missing, monkeypatch):
        monkeypatch.setattr(surfaces, "PLANNED_OPTIONS", ["--levitate", "--mode"])
        assert missing_option(argv) == missing

    def test_what_single_cases_miss_is_said_of_cases_that_exist(self):
        assert surfaces.NOT_BUILT.keys() <= {str(case) for case in cli_cases()}

    @pytest.mark.parametrize(
        "expect",
        [
            {"exit": 0},
            {"stdout": ["absent"]},
            {"stderr": ["absent"]},
            {"not_stdout": ["tables"]},
            {"not_stderr": ["oops"]},
            {"stdout_lines": []},
            {"stdout_line_count": 2},
            {"stdout_line_json": {0: [{"at": ["tables", 0, "n"], "eq": 2}]}},
            {"stdout_json": [{"at": ["tables", {"find": {"k": "b"}}, "n"], "eq": 1}]},
            {"stdout_json": [{"at": ["tables", {"find": {"k": "c"}}], "exists": True}]},
            {"stdout_json": [{"at": ["tables"], "exists": False}]},
            {"stdout_json": [{"at": ["tables", 0, "n"], "type": "boolean"}]},
            {"stdout_json": [{"at": ["tables", 0, "flag"], "type": "integer"}]},
            {"stdout_json": [{"at": ["tables"], "len": 1}]},
            {"stdout_json": [{"at": ["tables", 0, "n"], "gt": 1}]},
            {"stdout_json": [{"at": ["tables", 0, "k"], "matches": "^b"}]},
            {"stdout_json": [{"at": ["nowhere"], "ne": 1}]},
            {"path_exists": ["nowhere"]},
            {"path_absent": ["."]},
            {"file_mode": {"file": "0600"}},
            {"colour": "red"},
        ],
        ids=str,
    )
    def test_a_missed_expectation_fails(self, expect, tmp_path: Path):
        (tmp_path / "file").touch(mode=0o644)
        (tmp_path / "file").chmod(0o644)
        tables = '{"tables": [{"k": "a", "n": 1, "flag": true}, {"k": "b", "n": 2}]}'
        result = Result(["x"], 1, f"{tables}\n", "error: oops\n")
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check(result, expect, tmp_path)

    def test_paths(self):
        document = {"a": [{"k": 1, "v": "x"}, {"k": 2, "v": "y"}]}
        assert at(document, ["a", {"find": {"k": 2}}, "v"]) == "y"
        assert at(document, ["a", 0, "v"]) == "x"
        assert at(document, []) == document

"""`--verbose` and `--log-level`: the log of the package on stderr."""

import json

import pytest

SCHEMA = "node Person { name: String @key }"


@pytest.fixture
def made(omnigraph, place):
    (place / "schema.pg").write_text(SCHEMA)
    (place / "rows.jsonl").write_text(json.dumps({"type": "Person", "data": {"name": "ada"}}))
    assert omnigraph("init", "--schema", "schema.pg", "g.omni").exit == 0
    return "g.omni"


def load(omnigraph, made, *flags):
    return omnigraph("load", "--data", "rows.jsonl", "--mode", "merge", made, *flags)


def test_nothing_is_logged_unless_asked(omnigraph, made):
    assert "omnigraph.commit" not in load(omnigraph, made).stderr


@pytest.mark.parametrize(
    "flags", [["--verbose"], ["--log-level", "info"], ["--log-level", "DEBUG"]]
)
def test_commits_are_logged(omnigraph, made, flags):
    result = load(omnigraph, made, *flags, "--json")
    assert result.exit == 0
    commit = result.json["commit"]["graph_commit_id"]
    line = f"INFO    omnigraph.commit.protocol: commit {commit}: load on branch `main`"
    assert line in result.stderr


def test_a_higher_level_hides_them(omnigraph, made):
    result = load(omnigraph, made, "--verbose", "--log-level", "error")
    assert result.exit == 0
    assert "INFO" not in result.stderr


def test_flags_may_stand_before_the_command(omnigraph, made):
    assert "opened" in omnigraph("--verbose", "status", made).stderr


def test_another_level_is_refused(omnigraph, made):
    result = omnigraph("status", made, "--log-level", "loud")
    assert result.exit == 1
    assert "debug, info, warning, error" in result.stderr

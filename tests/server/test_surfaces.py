"""The conformance cases of servers, each with processes of its own in a fresh directory."""

import pytest

from tests.cli.surfaces import CliCase
from tests.server.surfaces import (
    Answer,
    ServedCase,
    body_of,
    check_answer_of,
    mapped,
    numbered,
    served_cases,
    server_arguments,
    with_files,
)


@pytest.mark.parametrize("case", served_cases(), ids=str)
def test_case(case: CliCase, launcher, tmp_path):
    ServedCase(case, tmp_path, launcher.run, launcher=launcher).whole()


class TestTheRunner:
    """It must be able to fail."""

    @pytest.mark.parametrize(
        "expect",
        [
            {"status": 201},
            {"headers": {"X-Colour": "red"}},
            {"headers": {"content-type": "text/html"}},
            {"absent_headers": ["content-TYPE"]},
            {"json": [{"at": ["n"], "eq": 2}]},
            {"json": [{"at": ["m"], "exists": True}]},
            {"body": ["absent"]},
            {"not_body": ['"n"']},
            {"body_line_count": 2},
            {"colour": "red"},
        ],
        ids=str,
    )
    def test_a_missed_expectation_fails(self, expect):
        answer = Answer(200, [("Content-Type", "application/json")], b'{"n": 1}\n')
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check_answer_of(answer, expect)

    def test_what_is_met_passes(self):
        answer = Answer(200, [("Content-Type", "application/json")], b'{"n": 1}\n')
        met = {"status": 200, "headers": {"content-type": "json"}, "body_line_count": 1}
        check_answer_of(
            answer, {**met, "json": [{"at": ["n"], "eq": 1}], "absent_headers": ["X-A"]}
        )

    def test_a_traceback_in_an_answer_fails(self):
        with pytest.raises(AssertionError):
            check_answer_of(Answer(200, [], b"Traceback (most recent call last)"), {})

    def test_values_are_filled_in(self):
        assert numbered({"a": "${i}", "b": ["n${i}"]}, 7) == {"a": 7, "b": ["n7"]}
        fixtures = {"f": "text"}
        assert with_files({"x": {"$file": "f"}, "y": [1]}, fixtures) == {"x": "text", "y": [1]}
        assert with_files({"$file": "/etc/passwd"}, fixtures) == {"$file": "/etc/passwd"}
        assert body_of({"body_fill": {"char": "a", "bytes": 3}}) == b"aaa"
        assert body_of({}) is None

    def test_a_server_gets_all_that_a_case_says(self):
        argv = server_arguments(
            {"graphs": {"a": "g.omni"}, "unauthenticated": True, "args": ["--drain-delay", "1"]}
        )
        assert argv == ["--graph", "a=g.omni", "--unauthenticated", "--drain-delay", "1"]
        bound = {"policy": {"a": "p.yaml"}, "queries": "q", "server_policy": "s.yaml"}
        assert server_arguments({"store": "g.omni", **bound}) == [
            *("--store", "g.omni", "--policy", "a=p.yaml", "--queries", "q"),
            *("--server-policy", "s.yaml"),
        ]

    def test_an_unknown_error_is_no_case(self):
        with pytest.raises(KeyError):
            mapped({"kind": "no_such_kind"})

"""The log: which fields a record has, in which form, and what never gets into it."""

import io
import json
import logging

import pytest

from omnigraph.server.process.logs import set_up_logs, write_to


@pytest.fixture(autouse=True)
def _loggers_as_before():
    """What the process under test sets up for good is put back."""
    root, ours = logging.getLogger(), logging.getLogger("omnigraph")
    before = root.handlers[:], root.level, ours.level, logging.raiseExceptions
    yield
    root.handlers[:], root.level = before[0], before[1]
    ours.setLevel(before[2])
    logging.raiseExceptions = before[3]
    logging.captureWarnings(capture=False)


@pytest.fixture
def written():
    return io.StringIO()


def records(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


REQUEST = {
    "request_id": "r-1",
    "method": "POST",
    "route": "query",
    "status": 200,
    "ms": 3.1,
    "actor": "ada",
    "graph": "default",
}


class TestJson:
    def test_the_fields_of_a_request(self, written):
        write_to(written, "info", "json")
        logging.getLogger("omnigraph.server").info("request", extra=REQUEST)
        (record,) = records(written)
        assert list(record) == ["ts", "level", "event", *REQUEST]
        assert {name: record[name] for name in REQUEST} == REQUEST
        assert (record["level"], record["event"]) == ("info", "request")
        assert record["ts"].endswith("Z")

    def test_nothing_else_is_written(self, written):
        write_to(written, "info", "json")
        more = {
            "params": {"name": "secret"},
            "query": "secret",
            "token": "secret",
            "rows": ["secret"],
        }
        logging.getLogger("omnigraph.server").info("request", extra={**REQUEST, **more})
        assert "secret" not in written.getvalue()

    def test_a_record_stays_on_its_line(self, written):
        write_to(written, "info", "json")
        logging.getLogger("omnigraph.x").info("two\nlines\u2028", extra={"actor": "a\r\nb\x1b[2J"})
        (line,) = written.getvalue().splitlines()
        assert json.loads(line)["event"] == "two\nlines\u2028"
        assert json.loads(line)["actor"] == "a\r\nb\x1b[2J"

    def test_a_failure_has_its_traceback(self, written):
        write_to(written, "info", "json")
        failure = ValueError("broken")
        logging.getLogger("omnigraph.server").error("internal", exc_info=failure)
        (record,) = records(written)
        assert record["level"] == "error"
        assert "ValueError: broken" in record["traceback"]

    def test_half_a_character_is_written_too(self, written):
        write_to(written, "info", "json")
        logging.getLogger("omnigraph").info("a %s", "\udcff")
        assert records(written)[0]["event"] == "a \udcff"


class TestText:
    def test_a_line_to_read(self, written):
        write_to(written, "info", "text")
        logging.getLogger("omnigraph.server").info("request", extra=REQUEST)
        (line,) = written.getvalue().splitlines()
        assert line.endswith(
            "info    request request_id=r-1 method=POST route=query status=200 ms=3.1 actor=ada "
            "graph=default"
        )

    def test_clients_cannot_write_lines_of_their_own(self, written):
        write_to(written, "info", "text")
        logging.getLogger("omnigraph.x").info("a\nb", extra={"actor": "x\n\x1b[2Jy"})
        (line,) = written.getvalue().splitlines()
        assert "\x1b" not in line


class TestLevels:
    @pytest.mark.parametrize(
        ("level", "shown"),
        [
            ("debug", ["debug", "info", "warning", "error"]),
            ("info", ["info", "warning", "error"]),
            ("warning", ["warning", "error"]),
            ("error", ["error"]),
        ],
    )
    def test_records_below_the_level_are_left_out(self, level, shown, written):
        write_to(written, level, "json")
        for name in ("debug", "info", "warning", "error"):
            getattr(logging.getLogger("omnigraph.x"), name)("said")
        assert [record["level"] for record in records(written)] == shown

    def test_libraries_only_warn(self, written):
        """Theirs may hold addresses, headers and keys."""
        write_to(written, "debug", "json")
        for name in ("debug", "info", "warning"):
            getattr(logging.getLogger("botocore"), name)("said")
        assert [record["level"] for record in records(written)] == ["warning"]


class TestEnvironment:
    def test_json_unless_it_is_a_terminal(self, written, monkeypatch):
        set_up_logs(written)
        logging.getLogger("omnigraph").info("said")
        assert records(written)[0]["event"] == "said"
        terminal = io.StringIO()
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        set_up_logs(terminal)
        logging.getLogger("omnigraph").info("said")
        assert terminal.getvalue().endswith("info    said\n")

    @pytest.mark.parametrize("form", ["json", "text", "JSON"])
    def test_the_form_can_be_chosen(self, form, written, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_LOG_FORMAT", form)
        set_up_logs(written)
        logging.getLogger("omnigraph").info("said")
        assert written.getvalue().startswith("{") is (form != "text")

    def test_the_level_can_be_chosen(self, written, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_LOG", "warning")
        set_up_logs(written)
        logging.getLogger("omnigraph").info("said")
        assert written.getvalue() == ""

    def test_a_value_that_is_none_is_a_warning(self, written, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_LOG", "loud")
        monkeypatch.setenv("OMNIGRAPH_LOG_FORMAT", "xml")
        set_up_logs(written)
        logging.getLogger("omnigraph").info("said")
        found = records(written)
        assert [record["level"] for record in found] == ["warning", "warning", "info"]
        assert "OMNIGRAPH_LOG" in found[0]["event"]
        assert "OMNIGRAPH_LOG_FORMAT" in found[1]["event"]

"""The pages about servers and clients: a reader who follows them sees what they show."""

import re
from pathlib import Path

import pytest

from omnigraph import settings
from omnigraph.server.openapi.failures import FAILURES
from omnigraph.service.operations import OPERATIONS
from tests.served_pages import SERVED_PAGES, Reader, steps
from tests.server.running import run_server

PAGE = (Path(__file__).parents[2] / "docs" / "user" / "server.md").read_text("utf-8")

LIMITS = [
    settings.PER_ACTOR_INFLIGHT_MAX,
    settings.PER_ACTOR_BYTES_MAX,
    settings.READ_CONCURRENCY,
    settings.QUERY_TIMEOUT_MS,
    settings.QUERY_MAX_ROWS,
    settings.QUERY_MAX_MB,
    settings.ANSWERS_MB,
    settings.LOAD_BODY_MAX_MB,
    settings.BLOB_BODY_MAX_MB,
]


@pytest.mark.parametrize("page", SERVED_PAGES, ids=lambda page: page.name)
def test_a_reader_sees_what_the_page_shows(page, tmp_path, launcher):
    reader = Reader(tmp_path, launcher)
    try:
        reader.follow(page)
    finally:
        reader.stop()


def test_every_route_is_listed():
    listed = set(re.findall(r"`((?:GET|POST|PUT|DELETE) G/[^`?]+)`", PAGE))
    assert listed - {"POST G/mcp"} == {f"{one.method} G/{one.path}" for one in OPERATIONS.values()}


def test_every_option_is_listed():
    helped = run_server("--help").stdout
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", helped)) - {"--help", "--version"}
    table = PAGE.partition("## Options")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(--[a-z][a-z-]+)", table)) == options


def test_every_status_and_kind_of_a_failure_is_listed():
    table = PAGE.partition("## Failures")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([\d, ]+) \| (.*) \|$", table, re.MULTILINE))
    statuses = {int(status) for cell in rows for status in cell.split(",")}
    assert statuses == {*FAILURES, 503}
    for status, failure in FAILURES.items():
        (row,) = (text for cell, text in rows.items() if str(status) in cell)
        assert f"`{failure.example['kind']}`" in row or status in {409, 500}


def test_every_limit_that_can_be_set_is_listed():
    table = PAGE.partition("## Limits")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(OMNIGRAPH_\w+)`", table))
    assert listed == {each.variable for each in LIMITS}


class TestTheReader:
    """It must be able to fail."""

    @pytest.mark.parametrize(
        "page",
        [
            "```console\n$ echo a\nb\n```\n",
            "```console\n$ exit 3\n```\n",
            "```python\nprint(1)\n```\n```text\n2\n```\n",
            "```python\n1 / 0\n```\n",
        ],
    )
    def test_what_is_not_as_shown_fails(self, page, tmp_path, launcher):
        (tmp_path / "page.md").write_text(page)
        with pytest.raises((AssertionError, ZeroDivisionError)):
            Reader(tmp_path, launcher).follow(tmp_path / "page.md")

    def test_what_is_as_shown_passes(self, tmp_path, launcher):
        page = "```console\n$ echo one two\none …\n$ exit 3\n[exit 3]\n```\n"
        (tmp_path / "page.md").write_text(page)
        Reader(tmp_path, launcher).follow(tmp_path / "page.md")

    def test_lines_and_what_they_print(self):
        assert list(steps("$ a\nx\ny\n$ b\n")) == [("a", "x\ny\n"), ("b", "")]

"""Panels: what people see of a result, as text that fits a screen and as HTML."""

import pytest

from omnigraph.display.panel import LISTED_ROWS, Panel
from omnigraph.display.text import moment_text, size_text, width_of
from tests.display.html_tables import HtmlTable

PANEL = Panel(
    "2 tables of Ada",
    facts=[("commit", "01J"), ("a longer name", None), ("seconds", 0.5)],
    columns=["table", "rows"],
    rows=[["node:Person", 1_234], ["edge:Knows", 7]],
    notes=["look at it"],
)


class TestText:
    def test_facts_and_columns_are_aligned_and_numbers_stand_right(self):
        assert PANEL.text(80).splitlines() == [
            "2 tables of Ada",
            "commit         01J",
            "a longer name  -",
            "seconds        0.50",
            "table       |  rows",
            "------------+------",
            "node:Person | 1,234",
            "edge:Knows  |     7",
            "look at it",
        ]

    @pytest.mark.parametrize("width", [40, 60, 100])
    def test_lines_of_a_table_fit_the_screen(self, width):
        names = [f"column{number}" for number in range(12)]
        rows = [["wide 日本 " * 9] * 12, [None] * 12]
        lines = Panel("", columns=names, rows=rows).text(width).splitlines()
        assert max(map(width_of, lines[1:-1])) <= width
        shown = lines[1].count("|") + 1
        assert 0 < shown < 12
        assert lines[-1].startswith(f"{12 - shown} columns not shown: column{shown}, ")
        assert lines[-1].endswith("column11")

    def test_one_column_wider_than_the_screen_is_cut(self):
        assert (
            Panel("", columns=["x"], rows=[["y" * 99]]).text(40).splitlines()[3] == "y" * 39 + "…"
        )

    def test_of_many_rows_the_first_are_shown_and_the_others_counted(self):
        panel = Panel.of_rows("many", ["n"], [[number] for number in range(LISTED_ROWS + 1_234)])
        lines = panel.text(80).splitlines()
        assert lines[3:] == [*(str(n).rjust(2) for n in range(LISTED_ROWS)), "… 1,234 more"]

    def test_no_text_steers_the_terminal_or_makes_lines_of_its_own(self):
        evil = "a\n\x1b[31mb\u202e"
        shown = Panel(evil, [(evil, evil)], [evil], [[evil]], notes=[evil]).text(80)
        assert len(shown.splitlines()) == 6
        assert "\x1b" not in shown
        assert "\u202e" not in shown


class TestHtml:
    def test_it_holds_what_the_text_holds(self):
        table = HtmlTable(PANEL.html())
        assert table.lines == ["2 tables of Ada", "look at it"]
        assert table.rows == [
            ["commit", "01J"],
            ["a longer name", "-"],
            ["seconds", "0.50"],
            ["table", "rows"],
            ["node:Person", "1,234"],
            ["edge:Knows", "7"],
        ]

    @pytest.mark.parametrize(
        "evil",
        [
            "<script>alert(1)</script>",
            '"><img src=x onerror=alert(1)>',
            "</td></table><iframe>",
            "&lt;b&gt;",
            "' onmouseover='x",
        ],
    )
    def test_no_text_becomes_markup(self, evil):
        panel = Panel(evil, [(evil, evil)], [evil, "x"], [[evil, 1]], more=evil, notes=[evil])
        table = HtmlTable(panel.html())
        assert table.lines == [evil] * 3
        assert table.rows == [[evil, evil], [evil, "x"], [evil, "1"]]

    def test_a_huge_value_is_cut(self):
        table = HtmlTable(Panel("", columns=["x"], rows=[["\n" * 10_000_000]]).html())
        assert len(table.rows[1][0]) < 500
        assert table.rows[1][0].endswith("…")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_500_000_000, "1.5 GB"),
        (2_500_000_000_000_000, "2500.0 TB"),
    ],
)
def test_sizes_are_in_the_unit_that_fits(size, text):
    assert size_text(size) == text


def test_a_moment_is_shown_to_the_second():
    assert moment_text(1_999_999) == "1970-01-01 00:00:01 UTC"
    # The last microsecond that a commit may record.
    assert moment_text(253_402_300_799_999_999) == "9999-12-31 23:59:59 UTC"

"""Reads the HTML of a panel as a browser would: its lines, heads and cells, and no other element."""

from html.parser import HTMLParser

ALLOWED = {"div", "table", "thead", "tbody", "tr", "th", "td"}


class HtmlTable(HTMLParser):
    """The lines around the tables, the title first, and the rows of all tables.

    Elements or attributes that a panel never writes are an error.
    """

    def __init__(self, text):
        super().__init__()
        self.lines = []
        self.rows = []
        self.open = []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        assert tag in ALLOWED, tag
        assert {name for name, _ in attributes} <= {"style"}, attributes
        self.open.append(tag)
        if self.open == ["div", "div"]:
            self.lines.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open == ["div", "div"]:
            self.lines[-1] += data
        else:
            assert self.open[-1] in {"td", "th"}, (self.open, data)
            self.rows[-1][-1] += data

"""Reads the HTML of a panel as a browser would: caption, head and cells, and no other element."""

from html.parser import HTMLParser

ALLOWED = {"table", "caption", "br", "thead", "tbody", "tr", "th", "td"}


class HtmlTable(HTMLParser):
    """One table. Elements or attributes that a panel never writes are an error."""

    def __init__(self, text):
        super().__init__()
        self.caption = []
        self.rows = []
        self.open = []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        assert tag in ALLOWED, tag
        assert {name for name, _ in attributes} <= {"style", "colspan"}, attributes
        if tag == "br":
            self.caption.append("")
            return
        self.open.append(tag)
        if tag == "caption":
            self.caption.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "caption":
            self.caption[-1] += data
        else:
            assert self.open[-1] in {"td", "th"}, (self.open, data)
            self.rows[-1][-1] += data

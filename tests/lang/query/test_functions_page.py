"""The page of operators and functions is the one that their table makes."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_written_from_the_table():
    spec = importlib.util.spec_from_file_location("functions_writer", DOCS / "functions.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.PAGE.read_text("utf-8") == writer.text(), "write it again with ./dev docs"

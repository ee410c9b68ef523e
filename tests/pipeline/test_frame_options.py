"""Files as they come: renamed and surplus columns, and CSV files of every look."""

from __future__ import annotations

import dataclasses
import json

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from omnigraph.errors import BadRequest, InputError
from omnigraph.pipeline.frame_options import FRAME_OPTIONS, FrameKeywords, FrameOptions
from omnigraph.pipeline.load_options import LoadKeywords
from tests.graphs import graph_of
from tests.stored import read_back

SCHEMA = """
node Customer { customerID: String @key  city: String?  active: Bool?  rating: F64? }
edge Knows: Customer -> Customer { since: I32? }
"""


graph = graph_of(SCHEMA)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A graph that every test leaves empty."""
    with og.init(tmp_path_factory.mktemp("empty") / "g", SCHEMA) as graph:
        yield graph


def stored(graph):
    return read_back(graph).nodes["Customer"]


def test_the_keywords_are_those_of_both_lists():
    names = {field.name for field in dataclasses.fields(FrameOptions)} - {"shared"}
    assert set(FRAME_OPTIONS) == names
    assert set(FrameKeywords.__annotations__) == names | set(LoadKeywords.__annotations__)


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "pandas"])
def test_columns_are_renamed_and_undeclared_ones_left_out(graph, tmp_path, kind):
    table = pa.table(
        {"CustomerID": ["a", "b"], "City": ["Oslo", None], "Fax": ["1", "x"], "rating": [1.5, 2.0]}
    )
    frame = table
    if kind == "csv":
        frame = tmp_path / "c.csv"
        # What Fax holds changes its look beyond the first block that Arrow guesses types from.
        frame.write_text("CustomerID,City,Fax,rating\na,Oslo,1,1.5\nb,,x,2\n")
    elif kind == "parquet":
        frame = tmp_path / "c.parquet"
        parquet.write_table(table, frame)
    elif kind == "pandas":
        frame = table.to_pandas()
    renames = {"CustomerID": "customerID", "City": "city"}
    with pytest.raises(InputError, match='no property "Fax"'):
        graph.load_nodes("Customer", frame, columns=renames)
    done = graph.load_nodes("Customer", frame, columns=renames, ignore_extra=True)
    assert done.total_rows == 2
    assert {key: row["city"] for key, row in stored(graph).items()} == {"a": "Oslo", "b": None}
    assert [row["rating"] for row in stored(graph).values()] == [1.5, 2.0]


def test_a_column_that_is_left_out_may_change_its_look(graph, tmp_path, monkeypatch):
    from omnigraph.pipeline.formats import csv_rows

    monkeypatch.setattr(csv_rows.open_csv, "__defaults__", (64, None))
    path = tmp_path / "c.csv"
    path.write_text("customerID,Fax\n" + "".join(f"c{n},{n}\n" for n in range(50)) + "last,text\n")
    graph.load_nodes("Customer", path, ignore_extra=True)
    assert len(stored(graph)) == 51


def test_the_ends_of_an_edge_go_by_their_new_names(graph):
    graph.load_nodes("Customer", pa.table({"customerID": ["a", "b"]}))
    edges = pd.DataFrame({"src": ["a"], "Friend": ["b"], "since": ["2020"]})
    renames = {"src": "from", "Friend": "friend"}
    graph.load_edges("Knows", edges, to_col="friend", columns=renames)
    (_, source, target, data) = read_back(graph).edges["Knows"][0]
    assert (source, target, data) == ("a", "b", {"since": 2020})


def test_a_csv_of_another_look(graph, tmp_path):
    path = tmp_path / "c.csv"
    path.write_bytes("a;Zürich;1;n/a\nb;-;0;2.5\nc\nd;x;yes;1\n".encode("latin-1"))
    options = {
        "delimiter": ";",
        "header": False,
        "names": ["customerID", "city", "active", "rating"],
        "null": ["-", "n/a"],
        "encoding": "latin-1",
    }
    rejects = tmp_path / "bad.jsonl"
    done = graph.load_nodes("Customer", path, on_bad="skip", rejects=rejects, **options)
    assert stored(graph) == {
        "a": {"customerID": "a", "city": "Zürich", "active": True, "rating": None},
        "b": {"customerID": "b", "city": None, "active": False, "rating": 2.5},
    }
    found = [json.loads(line) for line in rejects.read_text("utf-8").splitlines()]
    assert [entry["row"] for entry in found] == [
        3,
        4,
    ]  # the first line is row 1: there is no header
    assert "1 values for 4 columns" in found[0]["reason"]
    assert '"yes"' in found[1]["reason"]
    assert done.skipped == 2


@pytest.mark.parametrize("head", ["customerID,city\n", "città,customerID\n"])
def test_bytes_that_are_not_of_the_encoding_are_told(empty, tmp_path, head):
    path = tmp_path / "c.csv"
    path.write_bytes(head.encode() + b"a,b\n" * 10 + b"\xff,b\n")
    renames = {"città": "city"} if "città" in head else {}
    with pytest.raises(InputError, match="is not ascii text"):
        empty.load_nodes("Customer", path, encoding="ascii", columns=renames)
    assert stored(empty) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": {"nope": "city"}}, 'no column "nope"'),
        ({"columns": {"id": "city", "customerID": "city"}}, "`city` to two columns"),
        ({"columns": {"customerID": "nope"}, "ignore_extra": True}, 'no property "nope"'),
        ({"columns": ["customerID"]}, "dict from the names"),
        ({"delimiter": ";;"}, "one ASCII character"),
        ({"header": False}, "give names"),
        ({"names": ["a"]}, "without a header"),
        ({"null": "NA"}, "list of texts"),
        ({"encoding": "klingon"}, "no encoding"),
        ({"encoding": "rot13"}, "no encoding"),
        ({"encoding": "quopri"}, "no encoding"),
        ({"encoding": "punycode"}, "no encoding"),
        ({"encoding": "latin\0001"}, "no encoding"),
        ({"encoding": "latin\ud800"}, "no encoding"),
        ({"ignore_extra": 1}, "True or False"),
        ({"delimiter": ";"}, "there is none"),
    ],
)
def test_wrong_options_are_refused(empty, options, said):
    frame = pa.table({"customerID": ["a"]})
    with pytest.raises((BadRequest, InputError), match=said):
        empty.load_nodes("Customer", frame, **options)
    assert stored(empty) == {}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_folders_of_a_directory_are_columns(graph, tmp_path, kind):
    root = tmp_path / "customers"
    rows = {"city=New%20York/rating=1.5": "a", "city=__HIVE_DEFAULT_PARTITION__/rating=2": "b"}
    for place, name in {**rows, "_temporary/city=x": "half"}.items():
        folder = root / place
        folder.mkdir(parents=True)
        if kind == "csv":
            (folder / "part.csv").write_text(f"customerID\n{name}\n")
        else:
            parquet.write_table(pa.table({"customerID": [name]}), folder / "part.parquet")
    graph.load_nodes("Customer", root)
    assert {key: (row["city"], row["rating"]) for key, row in stored(graph).items()} == {
        "a": ("New York", 1.5),
        "b": (None, 2.0),
    }


def test_a_folder_that_is_no_column_is_refused_and_the_file_itself_wins(empty, tmp_path):
    folder = tmp_path / "customers" / "run=1" / "city=Rome"
    folder.mkdir(parents=True)
    (folder / "part.csv").write_text("customerID,city\na,Oslo\n")
    with pytest.raises(InputError, match='no property "run"'):
        empty.load_nodes("Customer", tmp_path / "customers")
    checked = empty.load_nodes(
        "Customer",
        tmp_path / "customers",
        ignore_extra=True,
        columns={"city": "rating"},
        on_bad="skip",
        check=True,
    )
    assert "Oslo" in checked.bad_records["first"][0]["reason"]


def test_a_load_of_json_lines_takes_no_option_of_frames(empty):
    with pytest.raises(TypeError, match="no columns"):
        empty.load([], columns={"a": "b"})

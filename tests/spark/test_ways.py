"""A load here, a load on Spark and `df.write` of the same rows do the same."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.pipeline.load_options import MODES, ON_BAD
from omnigraph.spark import register
from tests.sampling import seed
from tests.spark.ways import KINDS, Given, Ways, compare, start

# Of the rows; `./dev faults --seed S` draws others.
SEED = seed()


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    return start(tmp_path_factory.mktemp("started") / "g")


@pytest.fixture
def ways(tmp_path, started, spark):
    register(spark)
    made = Ways(tmp_path, started, spark)
    yield made
    made.close()


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on_bad", ON_BAD)
@pytest.mark.parametrize("mode", MODES)
def test_the_same_is_stored_left_out_and_refused(ways, mode, on_bad, kind):
    compare(ways, f"{SEED} {mode} {on_bad} {kind}", mode, on_bad, kind)


def headerless(ways):
    """A CSV file without a header, in Latin-1, with a column too many and texts for no value."""
    path = ways.place / "people.csv"
    text = "zoë;y;3;-;1\np1;x;;m1;2\nbob;z;1;;3\nada;x;12;m9;4\nzoë;x;4;m7;5\n"
    path.write_bytes(text.encode("latin-1"))
    names = ["Login", "Kind", "N", "Mail", "Fax"]
    shape = {
        "columns": {"Login": "name", "Kind": "kind", "N": "n", "Mail": "mail"},
        "ignore_extra": True,
    }
    file_shape = {
        "header": False,
        "names": names,
        "delimiter": ";",
        "null": ["-"],
        "encoding": "latin-1",
    }
    reader = ways.spark.read.options(sep=";", encoding="ISO-8859-1", nullValue="-")
    return Given("P", path, reader.csv(str(path)).toDF(*names), shape, file_shape), 2


def folders(ways):
    """A directory as Spark and Hive leave it: a column in the names of its folders."""
    place = ways.place / "people"
    for kind, names in {"x": ["p2", "cy"], "y": ["di", None]}.items():
        (place / f"kind={kind}").mkdir(parents=True)
        table = pa.table({"name": pa.array(names, pa.string()), "n": ["7", "8"]})
        pq.write_table(table, place / f"kind={kind}" / "part-0.parquet")
    (place / "_SUCCESS").touch()
    return Given("P", place, ways.spark.read.parquet(str(place))), 1


@pytest.mark.parametrize("source", [headerless, folders])
def test_files_as_they_come(ways, source):
    given, bad = source(ways)
    checked = [
        ways.load(given, graph, engine=engine, on_bad="skip", check=True)
        for graph, engine in ((ways.here, "local"), (ways.there, "spark"))
    ]
    assert checked[0] == checked[1]
    assert not checked[0]["commit"]
    again = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
    first = ways.go(given, "first", "merge", "skip", again)
    assert first["bad_records"]["total"] == bad
    assert {**checked[0], "commit": True} == first
    heads = [graph.snapshot().graph_commit_id for graph in (ways.here, ways.there, ways.written)]
    assert ways.go(given, "again", "merge", "skip", again)["replayed"]
    assert heads == [
        graph.snapshot().graph_commit_id for graph in (ways.here, ways.there, ways.written)
    ]

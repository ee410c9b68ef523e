"""A type may have a table on each of two branches; merges go on between them."""

import pytest

import omnigraph as og

BEFORE = "node Ship { imo: String @key }\n"
AFTER = BEFORE + "node Port { code: String @key }\n"


def load(graph, branch, code):
    graph.load([{"type": "Port", "data": {"code": code}}], branch=branch)


def codes(graph, branch):
    text = "query q() { match { $p: Port } return { $p.code as code } order { code } }"
    return [row["code"] for row in graph.query(text, branch=branch).rows]


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", BEFORE) as graph:
        graph.branches.create("one")
        graph.branches.create("two")
        graph.schema.apply(AFTER, branch="one")
        yield graph


def test_an_empty_table_takes_the_rows_of_the_one_that_a_merge_made(graph):
    """The rows of `below` are in a fork of the table of `one`, so `two` makes a table of its own."""
    graph.branches.create("below", from_="one")
    load(graph, "below", "BGO")
    graph.branches.merge("below", "two")
    graph.branches.merge("two", "one")
    assert codes(graph, "one") == codes(graph, "two") == ["BGO"]
    load(graph, "one", "OSL")
    graph.branches.merge("one", "below")
    assert codes(graph, "below") == ["BGO", "OSL"]


@pytest.mark.parametrize("target", ["one", "below", "main"])
def test_a_type_that_two_branches_added_is_merged_on(graph, target):
    load(graph, "one", "OSL")
    graph.branches.create("below", from_="one")
    graph.schema.apply(AFTER, branch="two")
    load(graph, "two", "BGO")
    graph.branches.merge("one", "two")
    graph.branches.merge("two", target)
    assert codes(graph, target) == ["BGO", "OSL"]


@pytest.mark.parametrize("codes_there", [[], ["BGO"]])
@pytest.mark.parametrize(
    ("given", "value"), [("since: I32?", None), ("since: I32 @default(7)", 7), ("", None)]
)
def test_a_new_type_gets_what_its_interface_has_in_the_target(tmp_path, codes_there, given, value):
    """The table of the source has other columns, and stays as it is: the target makes one of its own."""
    before = "interface Named { name: String? }\nnode Ship implements Named { imo: String @key }\n"
    after = before + "interface Flagged { flag: String? }\n"
    after += "node Port implements Named { code: String @key }\n"
    with og.init(tmp_path / "g", before) as graph:
        graph.branches.create("one")
        graph.schema.apply(after, branch="one")
        for code in codes_there:
            load(graph, "one", code)
        graph.schema.apply(before.replace("name: String?", given))
        graph.branches.merge("one", "main")
        names = [] if not given else ["since"]
        assert list(graph.schema.catalog.nodes["Port"].properties) == ["code", *names]
        text = "query q() { match { $p: Port } return { $p.* } }"
        assert graph.query(text).rows == [
            {f"p.{name}": code if name == "code" else value for name in ("code", *names)}
            for code in codes_there
        ]
        load(graph, "one", "OSL")
        assert codes(graph, "main") == codes_there
        assert codes(graph, "one") == [*codes_there, "OSL"]

"""`omnigraph purge`: what it says where something goes, where nothing does, and where something is in the way."""

import pytest

import omnigraph as og

CONFIRM = "nothing was changed; pass --confirm to purge"


@pytest.fixture
def graph(place):
    with og.init(place / "g.omni", "node Person { name: String @key }") as graph:
        graph.load([{"type": "Person", "data": {"name": name}} for name in ("ann", "ben")])
        yield graph


def test_it_only_shows_what_would_go_until_it_is_confirmed(omnigraph, graph):
    shown = omnigraph("purge", "g.omni", "Person=ann", "Person=nobody")
    assert shown.stdout.split("\n")[1:3] == ["Person         1", "1 id found nowhere"]
    assert CONFIRM in shown.stderr
    assert graph.entity("node", "Person", "ann") is not None
    done = omnigraph("purge", "g.omni", "Person=ann", "--confirm")
    assert "salt" in done.stdout
    assert graph.entity("node", "Person", "ann") is None


@pytest.mark.parametrize("flags", [(), ("--confirm",)], ids=["dry run", "confirmed"])
def test_where_there_is_nothing_to_purge_it_says_no_more(omnigraph, graph, flags):
    shown = omnigraph("purge", "g.omni", "Person=nobody", "Person=none", *flags)
    assert (shown.exit, shown.stdout) == (0, "nothing to purge: 2 ids found nowhere\n")
    assert "--confirm" not in shown.stderr
    assert graph.commits.list(limit=1)[0].operation == "load"


def test_what_is_in_the_way_comes_before_the_consent(omnigraph, graph):
    graph.branches.create("side")
    shown = omnigraph("purge", "g.omni", "Person=ann")
    assert "in the way: branch side keeps rows of node:Person" in shown.stdout
    assert "a purge is refused until nothing is in the way" in shown.stderr
    assert CONFIRM not in shown.stderr


def test_an_empty_file_is_answered_in_the_words_of_the_command(omnigraph, graph, place):
    (place / "ids.txt").write_text("\n")
    for flags in ((), ("--from-file", "ids.txt")):
        refused = omnigraph("purge", "g.omni", *flags)
        assert refused.exit == 1
        assert "TYPE=ID, such as Person=ann" in refused.stderr

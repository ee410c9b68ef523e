"""`omnigraph cleanup`: what it shows, what it removes, and its exit codes."""

import pytest

import omnigraph as og

UPDATE = 'query q() { update Person set { age: 1 } where name = "ada" }'


@pytest.fixture
def graph(place):
    with og.init(place / "g.omni", "node Person { name: String @key  age: I32? }") as graph:
        graph.load([{"type": "Person", "data": {"name": "ada"}}])
        for _ in range(3):
            graph.mutate(UPDATE)
    return "g.omni"


def rows(result):
    return {row["table_key"]: row for row in result.json["tables"]}


def test_it_only_shows_what_would_go_until_it_is_confirmed(omnigraph, graph):
    shown = omnigraph("cleanup", graph, "--keep", "2", "--json")
    assert shown.exit == 0
    assert "--confirm" in shown.stderr
    assert "warning:" in shown.stderr
    assert (shown.json["preview"], shown.json["keep_versions"]) == (True, 2)
    assert shown.json["older_than_secs"] is None
    assert rows(shown)["node:Person"]["old_versions_removed"] == 3
    assert rows(shown)["node:Person"]["why_kept"] == {"4": ["keep"], "5": ["head:main", "keep"]}
    done = omnigraph("cleanup", graph, "--keep", "2", "--confirm", "--json")
    assert done.exit == 0
    assert done.json == {key: value for key, value in shown.json.items() if key != "preview"}
    for version, kind in (("1", "history_reclaimed"), ("99", "version_not_found")):
        read = omnigraph("snapshot", graph, "--at-version", version, "--json")
        assert (read.exit, read.json["kind"]) == (1, kind)
    text = omnigraph("cleanup", graph, "--keep", "2")
    assert "node:Person  main" in text.stdout


def test_the_policy(omnigraph, graph):
    assert omnigraph("cleanup", graph, "--json").json["keep_versions"] == 10
    young = omnigraph("cleanup", graph, "--older-than", "2h", "--json").json
    assert (young["keep_versions"], young["older_than_secs"]) == (None, 7200)
    both = omnigraph("cleanup", graph, "--older-than", "0s", "--keep", "3", "--json")
    assert both.json["older_than_secs"] == 0
    assert "warning" not in both.stderr
    assert rows(both)["node:Person"]["old_versions_removed"] == 2


@pytest.mark.parametrize(
    ("flags", "code"),
    [(("--older-than", "2"), 1), (("--older-than", "-1d"), 1), (("--older-than", "1.5h"), 1),
     (("--older-than", "9" * 5000 + "s"), 1), (("--older-than", "9" * 18 + "w"), 1),
     (("--keep", "0"), 2), (("--as", "ada"), 1)],
)  # fmt: skip
def test_bad_policies(omnigraph, graph, flags, code):
    refused = omnigraph("cleanup", graph, "--confirm", *flags)
    assert refused.exit == code
    assert "internal error" not in refused.stderr


def test_a_table_that_fails_is_named_after_the_full_report(omnigraph, fresh, graph):
    broken = {"OMNIGRAPH_FAILPOINTS": "cleanup.before_table=raise,times=1"}
    done = fresh("cleanup", graph, "--keep", "1", "--confirm", "--json", env=broken)
    assert done.exit == 1
    assert "node:Person" in done.stderr.splitlines()[-1]
    assert rows(done)["node:Person"]["error"]
    assert rows(done)["__manifest"]["error"] is None
    assert omnigraph("cleanup", graph, "--keep", "1", "--confirm").exit == 0

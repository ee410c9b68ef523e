"""Vectors that were made of another text, or by another model, than the merged schema says are no vectors of it."""

import pytest

import omnigraph as og

SCHEMA = (
    "node A {\n  k: String @key\n  n: I32?\n  t: String\n  u: String?\n  v: Vector(2)? @embed(t)\n}"
)
OTHER_MODEL = SCHEMA.replace("@embed(t)", '@embed(t, model="m")')
OTHER_TEXT = SCHEMA.replace("@embed(t)", "@embed(u)")
OLD, NEW = [1.0, 0.0], [0.0, 1.0]


def record(key, vector, n=0):
    return {"type": "A", "data": {"k": key, "n": n, "t": key, "u": key, "v": vector}}


def rows(graph, branch="main"):
    """The numbers and vectors by key."""
    text = "query q() { match { $a: A } return { $a.k as k, $a.n as n, $a.v as v } }"
    return {row["k"]: (row["n"], row["v"]) for row in graph.query(text, branch=branch).rows}


@pytest.fixture
def graph(tmp_path):
    """A graph with two rows, and a branch `other` of it."""
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([record("a", OLD), record("b", OLD)])
        graph.branches.create("other")
        yield graph


@pytest.mark.parametrize("changed", [OTHER_MODEL, OTHER_TEXT], ids=["model", "text"])
@pytest.mark.parametrize("into", ["main", "other"])
def test_vectors_of_the_side_without_the_change_are_pending(graph, changed, into):
    """Whichever side changed the `@embed`, rows that the other side wrote have no vector then."""
    source = "other" if into == "main" else "main"
    graph.schema.apply(changed, branch="main", allow_data_loss=True)
    graph.load([record("b", OLD, n=1), record("c", OLD)], branch="other")
    merged = graph.branches.merge(source, into)
    assert rows(graph, into) == {"a": (0, None), "b": (1, None), "c": (0, None)}
    assert merged.stats.resolved == 0


class Counting:
    """A provider that notes the texts it is asked about."""

    model = "m"

    def __init__(self):
        self.texts = []

    def embed(self, texts, dimension):
        self.texts += texts
        return [[float(len(text))] * dimension for text in texts]


@pytest.mark.parametrize("into", ["main", "other"])
def test_a_merge_asks_no_provider_and_says_which_vectors_wait(tmp_path, into):
    """Rows of the side without the change wait for the job, as those that were there at the change do."""
    source, provider = "other" if into == "main" else "main", Counting()
    with og.init(tmp_path / "g", SCHEMA, embedder=provider) as graph:
        graph.branches.create("other")
        graph.schema.apply(OTHER_TEXT, allow_data_loss=True)
        new = record("c", OLD)
        new["data"]["u"] = "other text"
        graph.load([new], branch="other")
        merged = graph.branches.merge(source, into)
        assert (rows(graph, into), provider.texts) == ({"c": (0, None)}, [])
        # Those that wait of the rows that the merge wrote; into `other` it brings the change alone.
        assert merged.stats.embeddings_pending == (into == "main")
        assert graph.embed(branch=into).filled == 1
        assert (rows(graph, into), provider.texts) == ({"c": (0, [10.0, 10.0])}, ["other text"])


@pytest.mark.parametrize("into", ["main", "other"])
def test_vectors_made_since_the_change_are_merged(graph, into):
    source = "other" if into == "main" else "main"
    graph.schema.apply(OTHER_MODEL, allow_data_loss=True)
    graph.load([record("a", NEW)])
    graph.load([record("b", OLD, n=1)], branch="other")
    graph.branches.merge(source, into)
    assert rows(graph, into) == {"a": (0, NEW), "b": (1, None)}


def test_a_change_without_vectors_takes_over_no_state_with_old_ones(tmp_path):
    """The table that changed its `@embed` had no vectors, so it has the state of the base still."""
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([record("a", None)])
        graph.branches.create("other")
        graph.load([record("b", OLD)])
        graph.schema.apply(OTHER_MODEL, branch="other")
        graph.branches.merge("main", "other")
        assert rows(graph, "other") == {"a": (0, None), "b": (0, None)}


@pytest.mark.parametrize("into", ["main", "other"])
def test_a_deleted_row_stays_deleted_though_the_other_side_lost_its_vector(graph, into):
    """Only the schema changed it, and nobody who has to be asked."""
    source = "other" if into == "main" else "main"
    graph.schema.apply(OTHER_MODEL, allow_data_loss=True)
    graph.mutate('query q() { delete A where k = "a" }', branch="other")
    graph.branches.merge(source, into)
    assert rows(graph, into) == {"b": (0, None)}


def test_a_dropped_type_is_in_conflict_with_the_change_and_not_with_rows(graph):
    graph.schema.apply("node B { k: String @key }", branch="other")
    graph.schema.apply(OTHER_MODEL, allow_data_loss=True)
    (found,) = graph.branches.merge("other", "main", dry_run=True).conflicts
    assert found.detail["element"] == "node:A"
    assert (found.detail["changed"], found.detail["rows"]) == (["change_embed"], 0)

"""Text predicates against the oracle, in every state an index can be in."""

from __future__ import annotations

import functools
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import StorageError
from omnigraph.read.search import scratch_index
from omnigraph.read.search.text_match import terms_within, texts_with_terms
from omnigraph.read.thresholds import SearchThresholds, Thresholds
from omnigraph.storage.tables import inline_residual
from omnigraph.storage.tables.indexing import index_health
from omnigraph.storage.tables.indexing.full_text import analysed
from tests.opened import read_with, workspace_of
from tests.oracle.analysis import analyse, within_edits
from tests.read.texts import (
    SCHEMA,
    WORDS,
    document,
    expected,
    expected_of,
    found,
    maintain,
    random_text,
    text_predicate,
    texts_of,
    view_of,
)
from tests.storage.table_places import compact

QUERIES = [
    "run", "running", "generously", "resume", "résumé", "strasse", "straße", "computes", "happy",
    "comparison network", "the", "the towers", "wörld hello", "nothing", "", "lodz", "it's", "3 14",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "caché %20#x"))


@pytest.fixture
def rng():
    return random.Random(8)


@pytest.fixture
def graph(tmp_path, rng):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([document(f"d{at:03d}", random_text(rng)) for at in range(150)])
        yield graph


def check(graph, branch="main"):
    """Every query finds what the oracle finds, read by rows and through a throw-away index."""
    view = view_of(graph, branch)
    texts = texts_of(view)
    for query in QUERIES:
        wanted = expected_of(texts, query, 0)
        assert found(view, text_predicate("search", query)) == wanted, query
        assert found(view, text_predicate("match_text", query)) == wanted, query
        for edits in (1, 2, 3):
            wanted = expected_of(texts, query, edits)
            assert found(view, text_predicate("fuzzy", query, edits)) == wanted, (query, edits)


THROW_AWAY = SearchThresholds(unindexed_rows=0)


@pytest.fixture(params=["read", "throw-away"])
def without_index(request, graph):
    """How rows that no index covers are looked at."""
    if request.param == "throw-away":
        read_with(graph, Thresholds(search=THROW_AWAY))


@pytest.mark.usefixtures("without_index")
def test_the_index_makes_no_difference(graph, rng):
    check(graph)
    graph.ensure_indices()
    check(graph)
    graph.load([document(f"e{at:03d}", random_text(rng)) for at in range(40)])
    check(graph)
    graph.load([document(f"d{at:03d}", random_text(rng)) for at in range(0, 60, 3)])
    check(graph)
    graph.mutate('query q() { delete Doc where ref = "d001" }')
    graph.mutate('query q() { delete Doc where ref = "e001" }')
    check(graph)
    maintain(graph, compact)
    check(graph)
    graph.load([document(f"d{at:03d}", random_text(rng)) for at in range(0, 60, 5)])
    maintain(graph, inline_residual.optimize_indices)
    check(graph)
    maintain(graph, compact)
    graph.ensure_indices()
    check(graph)


def test_changed_text_is_found_by_its_new_words_only(graph):
    graph.load([document("a", "solar"), document("b", "solar"), document("c", "solar")])
    graph.ensure_indices()
    graph.mutate('query q() { update Doc set { body: "wind" } where ref = "a" }')
    graph.mutate('query q() { delete Doc where ref = "b" }')
    graph.load([document("d", "solar wind")])
    for settle in (lambda: None, lambda: maintain(graph, compact), graph.ensure_indices):
        settle()
        view = view_of(graph)
        assert found(view, text_predicate("search", "solar")) == ["c", "d"]
        assert found(view, text_predicate("fuzzy", "solr", 1)) == ["c", "d"]
        assert found(view, text_predicate("search", "wind")) == ["a", "d"]


def test_a_branch_is_searched_as_it_is(graph):
    graph.load([document("a", "solar")])
    graph.ensure_indices()
    graph.load([document("b", "solar"), document("a", "wind")], branch="dev", from_branch="main")
    assert found(view_of(graph), text_predicate("search", "solar")) == ["a"]
    assert found(view_of(graph, "dev"), text_predicate("search", "solar")) == ["b"]
    check(graph, "dev")


@pytest.mark.parametrize("stage", ["none", "whole", "partial"])
@pytest.mark.usefixtures("without_index")
def test_corners_of_the_analysis(tmp_path, stage):
    texts = {
        "40": "y" * 40, "41": "z" * 41, "cjk": "東京 タワー", "cjk2": "東京都", "empty": "",
        "fold": "ŒUVRE ﬁn", "mixed": "e-mail@host.org", "null": None, "stop": "the of",
        "digits": "٣ 3", "upper": "STRASSE",
    }  # fmt: skip
    rows = [document(ref, body) for ref, body in texts.items()]
    with og.init(tmp_path / "c", SCHEMA) as graph:
        graph.load(rows[:5] if stage == "partial" else rows)
        if stage != "none":
            graph.ensure_indices()
        if stage == "partial":
            graph.load(rows[5:])
        view = view_of(graph)

        def hits(query, edits=0):
            return found(view, text_predicate("fuzzy", query, edits))

        assert hits("y" * 40) == ["40"]
        assert hits("z" * 41) == []
        assert hits("y" * 39, 1) == ["40"]
        assert hits("z" * 40, 1) == []
        assert hits("東京") == ["cjk"]
        assert hits("東京", 1) == ["cjk", "cjk2"]
        assert hits("大京", 1) == ["cjk"]
        assert hits("oeuvre") == ["fold"]
        assert hits("mail") == ["mixed"]
        # Stemming comes before folding, so one is `strasse` and the other `strass`.
        assert hits("straße") == []
        assert hits("straße", 1) == ["upper"]
        assert hits("the of") == hits("") == hits(" \n-") == []
        assert hits("the of", 2) == []
        # The query is stemmed before edits are counted.
        assert hits("strassing", 0) == ["upper"]


def test_nothing_asked_is_nothing_found(graph):
    view = view_of(graph)
    assert found(view, text_predicate("search", None)) == []
    assert found(view, text_predicate("fuzzy", "run", -1)) == []
    predicate = text_predicate("fuzzy", "run")
    by_default = expected(view, "run", 2)
    assert found(view, predicate) == by_default
    assert by_default != expected(view, "run", 1)


def test_any_number_of_edits(graph):
    view = view_of(graph)
    graph.ensure_indices()
    indexed = view_of(graph)
    for edits in (4, 5, 7, 12, 40, 10**6, 2**62):
        wanted = expected(view, "comparisons generously", edits)
        assert found(view, text_predicate("fuzzy", "comparisons generously", edits)) == wanted
        assert found(indexed, text_predicate("fuzzy", "comparisons generously", edits)) == wanted


def test_a_large_vocabulary_is_searched_to_its_end(tmp_path):
    """More terms lie within reach than Lance looks at by default."""
    rng = random.Random(1)
    letters = "bcdfghjklm"
    words = sorted({"".join(rng.choices(letters, k=4)) for _ in range(2000)})
    with og.init(tmp_path / "v", SCHEMA) as graph:
        graph.load([document(word, word) for word in words])
        graph.ensure_indices()
        for query, edits in (("bcdf", 2), ("mlkj", 3), ("bbbb", 1)):
            view = view_of(graph)
            wanted = expected(view, query, edits)
            assert edits == 1 or len(wanted) > 50
            assert found(view, text_predicate("fuzzy", query, edits)) == wanted


def test_an_index_of_another_analyser_is_not_used(graph):
    def foreign(table):
        dataset = table.dataset
        dataset.create_scalar_index("body", "INVERTED", name="theirs", stem=False)
        return type(table)(table.ref, dataset)

    maintain(graph, foreign)
    check(graph)


# -- without an index


def test_words_are_analysed_like_texts():
    for line in (" ".join(WORDS), "naïve\u3000café\u00a0x\u2028y", "a\tb\vc", "e\u0301té"):
        apart = [term for word in line.split() for term in analysed(word)]
        assert apart == analysed(line)


def test_the_oracle_analyses_like_lance(rng):
    for _ in range(300):
        line = random_text(rng) or ""
        assert analysed(line) == analyse(line)


def test_distances_are_exact(rng):
    terms = sorted({"".join(rng.choices("abé", k=rng.randint(0, 7))) for _ in range(300)})
    for want in ("", "a", "abab", "ébabaé", "東京"):
        for edits in range(6):
            near = [term for term in terms if within_edits(want, term, edits)]
            assert terms_within(terms, [want], edits) == near
    assert terms_within([], ["a"], 2) == []


def test_distances_count_characters_and_may_be_of_any_size():
    terms = ["\U0001f600", "e\u0301", "é", "東"]
    assert terms_within(terms, ["\U0001f601"], 1) == ["\U0001f600", "é", "東"]
    assert terms_within(terms, ["é"], 1) == ["\U0001f600", "é", "東"]
    assert terms_within(terms, ["x", "y"], 2**70) == terms
    assert terms_within(terms, [], 2**70) == []
    assert terms_within(["a" * 300, "b"], ["a"], 255) == ["b"]


def test_texts_are_read_in_parts():
    texts = pa.array(["a run", None, "", "runs", "the", "walk", "running man"])
    assert texts_with_terms(texts, ["run"], 0, 3).tolist() == [
        True, False, False, True, False, False, True,
    ]  # fmt: skip
    assert texts_with_terms(texts[2:5], ["run"], 0, 3).tolist() == [False, True, False]
    assert texts_with_terms(texts[:0], ["run"], 0, 3).tolist() == []
    assert (
        texts_with_terms(pa.array([None, ""], pa.string()), ["run"], 9, 3).tolist() == [False] * 2
    )
    assert texts_with_terms(pa.array(["x-run a-b-c", "b"]), ["b"], 0, 3).tolist() == [True, True]


# -- throw-away indexes


@pytest.fixture
def _always_throw_away(graph):
    read_with(graph, Thresholds(search=THROW_AWAY))


def kept():
    directory = scratch_index._directory()
    return sorted(directory.iterdir()) if directory.exists() else []


@pytest.mark.usefixtures("_always_throw_away")
def test_a_throw_away_index_is_made_once(graph):
    view = view_of(graph)
    wanted = expected(view, "run", 0)
    assert found(view, text_predicate("search", "run")) == wanted
    (place,) = kept()
    made = place.stat().st_ino
    scratch_index._open.clear()
    assert found(view_of(graph), text_predicate("search", "run")) == wanted
    assert [one.stat().st_ino for one in kept()] == [made]
    graph.load([document("new", "run")])
    assert found(view_of(graph), text_predicate("search", "run")) == [*wanted, "new"]
    assert len(kept()) == 2


def test_another_graph_in_the_same_place_has_its_own(tmp_path):
    for words in ("solar", "wind"):
        with og.init(tmp_path / "same", SCHEMA) as graph:
            read_with(graph, Thresholds(search=THROW_AWAY))
            graph.load([document("a", words)])
            hits = found(view_of(graph), text_predicate("search", "solar"))
            assert hits == (["a"] if words == "solar" else [])
        (tmp_path / "same").rename(tmp_path / f"gone-{words}")


@pytest.mark.usefixtures("_always_throw_away")
def test_a_removed_or_damaged_index_is_made_again(graph):
    view = view_of(graph)
    wanted = found(view, text_predicate("search", "run"))
    (place,) = kept()
    for file in sorted(path for path in place.rglob("*") if path.is_file()):
        file.write_bytes(b"")
    scratch_index._open.clear()
    other = text_predicate("search", "happy")
    assert found(view, other) == expected(view, "happy", 0)
    (place,) = kept()
    scratch_index._remove(place)
    assert kept() == []
    assert found(view, text_predicate("search", "run")) == wanted


@pytest.mark.usefixtures("_always_throw_away")
def test_an_index_that_another_process_removed_is_no_damage_to_be_told(graph, caplog):
    view = view_of(graph)
    wanted = found(view, text_predicate("search", "run"))
    (place,) = kept()
    scratch_index._remove(place)
    # As where it was opened and not searched yet: its files are looked at before the first search.
    index_health.forget_damage()
    assert found(view, text_predicate("search", "happy")) == expected(view, "happy", 0)
    assert "is not used" not in caplog.text
    assert kept() == [place]
    assert found(view, text_predicate("search", "run")) == wanted


def _files(place):
    return sorted(path for path in place.rglob("*") if path.is_file())


def _flip(place, rng):
    path = rng.choice([path for path in _files(place) if path.stat().st_size])
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _cut(place, rng):
    path = rng.choice([path for path in _files(place) if path.stat().st_size])
    os.truncate(path, rng.randrange(path.stat().st_size))


def _plant(place, rng):
    """What another index holds, with a seal that is right for it."""
    other = place.with_name("0" * 40)
    shutil.copytree(place, other)
    shutil.rmtree(place)
    other.rename(place)
    rng.choice(_files(place)).chmod(0o644)


DAMAGE = {
    "flipped": _flip,
    "cut": _cut,
    "missing": lambda place, rng: rng.choice(_files(place)).unlink(),
    "one more file": lambda place, _: (place / "more").write_text(""),
    "no seal": lambda place, _: (place / "seal").unlink(),
    "readable by others": _plant,
    "writable by others": lambda place, rng: rng.choice(_files(place)).chmod(0o666),
    "open directory": lambda place, _: place.chmod(0o777),
    "a link": lambda place, rng: _link(rng.choice(_files(place))),
    "a file in its place": lambda place, _: (shutil.rmtree(place), place.write_text("")),
}


def _link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.usefixtures("_always_throw_away")
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_an_index_that_is_not_what_was_written_is_not_used(graph, rng, damage):
    view = view_of(graph)
    predicate, wanted = text_predicate("search", "run"), expected(view_of(graph), "run", 0)
    assert found(view, predicate) == wanted
    for _ in range(3):
        (place,) = kept()
        made = sorted(place.iterdir())
        damage(place, rng)
        scratch_index._open.clear()
        assert found(view, predicate) == wanted
        (place,) = kept()
        assert sorted(place.iterdir()) != made, "it was not built again"
        assert {stat.S_IMODE(path.stat().st_mode) for path in _files(place)} == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.usefixtures("_always_throw_away")
@pytest.mark.parametrize("whole", [False, True])
def test_an_index_of_another_user_is_not_used(graph, whole):
    view = view_of(graph)
    predicate, wanted = text_predicate("search", "run"), expected(view_of(graph), "run", 0)
    found(view, predicate)
    (place,) = kept()
    made = sorted(place.iterdir())
    for path in [place, *place.rglob("*")] if whole else [place / "seal"]:
        os.chown(path, 12345, 12345)
    scratch_index._open.clear()
    assert found(view, predicate) == wanted
    (place,) = kept()
    assert sorted(place.iterdir()) != made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
@pytest.mark.usefixtures("_always_throw_away")
def test_a_directory_of_another_user_is_not_used(graph, monkeypatch, tmp_path):
    directory = scratch_index._directory()
    os.chown(directory, 12345, 12345)
    (tmp_path / "here").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "here"))
    monkeypatch.setattr(scratch_index, "_own_directory", scratch_index._own_directory.__wrapped__)
    view = view_of(graph)
    assert found(view, text_predicate("search", "run")) == expected(view, "run", 0)
    assert list(directory.iterdir()) == []


@pytest.mark.usefixtures("_always_throw_away")
def test_what_cannot_be_removed_is_gone_around(graph, monkeypatch, tmp_path):
    view = view_of(graph)
    wanted = found(view, text_predicate("search", "run"))
    (place,) = kept()
    (place / "more").write_text("")
    (tmp_path / "here").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "here"))
    own = functools.cache(scratch_index._own_directory.__wrapped__)
    monkeypatch.setattr(scratch_index, "_own_directory", own)
    monkeypatch.setattr(scratch_index, "_remove", lambda _: None)
    for _ in range(2):
        scratch_index._open.clear()
        assert found(view, text_predicate("search", "run")) == wanted
    assert len(list(own(os.getpid()).iterdir())) == 1


@pytest.mark.usefixtures("_always_throw_away")
def test_the_longest_unused_indexes_make_room(graph):
    views = []
    for at in range(3):
        graph.load([document(f"new{at}", "run")])
        views.append(view_of(graph))
        found(views[-1], text_predicate("search", "run"))
    first, *_ = by_use = sorted(kept(), key=lambda place: place.stat().st_mtime_ns)
    assert len(by_use) == 3
    for hour, place in enumerate(by_use):
        # The clock of a file system may stand still between two uses.
        os.utime(place, (3600 * hour, 3600 * hour))
    room = int(2.5 * scratch_index._bytes_below(first))
    read_with(graph, Thresholds(search=replace(THROW_AWAY, scratch_bytes=room)))
    found(views[0], text_predicate("search", "run"))
    graph.load([document("new3", "run")])
    found(view_of(graph), text_predicate("search", "run"))
    assert len(kept()) == 2
    assert first in kept()
    assert found(views[1], text_predicate("search", "run")) == expected(views[1], "run", 0)


@pytest.mark.usefixtures("_always_throw_away")
def test_threads_share_one_index(graph):
    view = view_of(graph)
    wanted, answers = expected(view, "run", 0), []

    def ask():
        answers.append(found(view_of(graph), text_predicate("search", "run")))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [wanted] * 6
    assert len(kept()) == 1


@pytest.mark.usefixtures("_always_throw_away")
def test_without_a_cache_directory_the_process_has_its_own(graph, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "here"))
    monkeypatch.setattr(scratch_index, "_own_directory", scratch_index._own_directory.__wrapped__)
    view = view_of(graph)
    assert found(view, text_predicate("search", "run")) == expected(view, "run", 0)
    [place] = (tmp_path / "here").iterdir()
    assert len(list(place.iterdir())) == 1


@pytest.mark.usefixtures("_always_throw_away")
def test_a_cache_directory_that_cannot_be_written_is_named(graph, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    monkeypatch.setattr(scratch_index, "_own_directory", scratch_index._own_directory.__wrapped__)
    with pytest.raises(StorageError, match="OMNIGRAPH_CACHE_DIR"):
        found(view_of(graph), text_predicate("search", "run"))


def test_own_directories_end_with_the_process(graph, tmp_path):
    """A process that may not write its cache directory leaves nothing behind."""
    program = (
        "import omnigraph, sys\n"
        "with omnigraph.open(sys.argv[1], mode='r') as graph:\n"
        "    text = 'query q() { match { $a: Doc } return { $a }"
        ' order { bm25($a.body, "run") } }\'\n'
        "    print(len(graph.query(text).rows))\n"
    )
    (tmp_path / "file").write_text("")
    (tmp_path / "here").mkdir()
    environment = {
        **os.environ,
        "OMNIGRAPH_CACHE_DIR": str(tmp_path / "file"),
        "TMPDIR": str(tmp_path / "here"),
    }
    run = [sys.executable, "-c", program, str(workspace_of(graph).root)]
    printed = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert int(printed.stdout) > 0
    assert list((tmp_path / "here").iterdir()) == []

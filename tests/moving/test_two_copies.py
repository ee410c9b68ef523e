"""Copies that are written by processes of their own, with one cache directory; answers against a model."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import omnigraph as og
from tests.graphs import person
from tests.moving.places import copy, names
from tests.sampling import runs_all, seed

SCHEMA = """
node Doc { slug: String @key  text: String @index  n: I32 }
edge Next: Doc -> Doc { }
"""
WORDS = ("apple", "pear", "plum", "fig", "grape")
SEARCH = "query q($w: String) { match { $d: Doc  search($d.text, $w) } return { $d.slug } order { $d.slug } }"
NEXT = (
    "query q($s: String) { match { $d: Doc { slug: $s }  $d next $e } "
    "return { $e.slug } order { $e.slug } }"
)


def doc(slug, text, n=0):
    return {"type": "Doc", "data": {"slug": slug, "text": text, "n": n}}


def link(one, other):
    return {"edge": "Next", "from": one, "to": other, "data": {"id": f"{one}-{other}"}}


class Model:
    """What a branch holds: the texts of documents, and who is next to whom."""

    def __init__(self, texts=(), links=()):
        self.texts, self.links = dict(texts), set(links)

    def search(self, word):
        return sorted(slug for slug, text in self.texts.items() if word in text.split())

    def next(self, slug):
        return sorted(other for one, other in self.links if one == slug)

    def step(self, rng, graph, branch, name):
        """Write something, to the graph and here."""
        if rng.random() < 0.25 and len(self.texts) > 3:
            gone = rng.choice(sorted(self.texts))
            graph.mutate(f'query q() {{ delete Doc where slug = "{gone}" }}', branch=branch)
            del self.texts[gone]
            self.links = {pair for pair in self.links if gone not in pair}
            return
        slug = rng.choice([*sorted(self.texts), f"{name}{rng.randrange(40)}"])
        text = " ".join(rng.sample(WORDS, 2))
        other = rng.choice([*sorted(self.texts), slug])
        graph.load([doc(slug, text), link(slug, other)], branch=branch)
        self.texts[slug] = text
        self.links.add((slug, other))

    def check(self, rng, graph, branch):
        word = rng.choice(WORDS)
        found = [row["d.slug"] for row in graph.query(SEARCH, {"w": word}, branch=branch).rows]
        assert found == self.search(word), (branch, word)
        slug = rng.choice(sorted(self.texts))
        found = [row["e.slug"] for row in graph.query(NEXT, {"s": slug}, branch=branch).rows]
        assert found == self.next(slug), (branch, slug)


def run(uri, state, name, number, steps):
    """The program of one process: it opens its copy anew now and then, and writes and asks."""
    rng = random.Random(f"{number} {name}")
    models = {branch: Model(texts, map(tuple, links)) for branch, texts, links in json.loads(state)}
    for _ in range(2):
        with og.open(uri) as graph:
            for _ in range(steps):
                branch = rng.choice(sorted(models))
                models[branch].step(rng, graph, branch, name)
                models[branch].check(rng, graph, branch)
            if rng.random() < 0.5:
                graph.ensure_indices(rng.choice(sorted(models)))


def test_two_copies_with_one_cache_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_DISK_CACHE_MB", "256")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = random.Random(seed())
    models = {"main": Model(), "side": Model()}
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        graph.load([doc("a", "apple pear"), doc("b", "plum fig"), link("a", "b")])
        models["main"] = Model({"a": "apple pear", "b": "plum fig"}, {("a", "b")})
        graph.branches.create("side")
        models["side"] = Model(models["main"].texts, models["main"].links)
        for _ in range(4):
            branch = rng.choice(["main", "side"])
            models[branch].step(rng, graph, branch, "old")
            models[branch].check(rng, graph, branch)
    copies = [str(tmp_path / name) for name in ("one", "two")]
    for place in copies:
        copy(str(tmp_path / "graph"), place)
    state = json.dumps([(name, m.texts, sorted(m.links)) for name, m in models.items()])
    program = "import sys; from tests.moving.test_two_copies import run; run(*sys.argv[1:5], int(sys.argv[5]))"
    steps = "20" if runs_all() else "6"
    running = [
        # One name for both: the same slugs, and the same numbers of versions with other rows.
        subprocess.Popen(
            [sys.executable, "-c", program, place, state, "n", f"{seed()} {at}", steps]
        )
        for at, place in enumerate([*copies, str(tmp_path / "graph")])
    ]
    assert [process.wait(timeout=600) for process in running] == [0, 0, 0], f"seed {seed()}"


def test_a_copy_that_is_made_while_writers_run(made, tmp_path, monkeypatch):
    """In the order of names: the copy has a first part of each history, and works."""
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "600000")  # however long the others take
    uri, _ = made
    ended, written = threading.Event(), {"main": [], "side": [], "lazy": []}
    errors = []

    def write(branch):
        try:
            with og.open(uri) as graph:
                while not ended.is_set():
                    name = f"{branch} {len(written[branch]):04}"
                    graph.load([person(name)], branch=branch)
                    written[branch].append(name)
        except Exception as error:  # noqa: BLE001 - the test says what it was
            errors.append(error)

    threads = [threading.Thread(target=write, args=(branch,)) for branch in written]
    for thread in threads:
        thread.start()
    while not errors and min(len(names) for names in written.values()) < 2:
        ended.wait(0.05)
    before = {branch: len(made_) for branch, made_ in written.items()}
    for name in sorted(path.relative_to(uri).as_posix() for path in Path(uri).iterdir()):
        _copy_in_order(Path(uri, name), tmp_path / "copy" / name)
    ended.set()
    for thread in threads:
        thread.join()
    assert errors == []
    with og.open(tmp_path / "copy") as graph:
        for branch, all_names in written.items():
            found = [name for name in names(graph, branch) if name.startswith(f"{branch} ")]
            assert found == all_names[: len(found)]
            assert len(found) >= before[branch]
            for commit in graph.commits.list(branch)[:5]:
                graph.snapshot(snapshot=commit.graph_commit_id)
                names(graph, snapshot=commit.graph_commit_id)
            graph.load([person("own")], branch=branch)
            assert names(graph, branch).count("own") == 1
        assert graph.repair().drifted == ()


def _copy_in_order(source, target):
    """Copy files in the order of their names, as they are found at that moment."""
    with suppress(FileNotFoundError):  # what is temporary
        if source.is_dir():
            for each in sorted(source.iterdir(), key=lambda path: path.name):
                _copy_in_order(each, target / each.name)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())

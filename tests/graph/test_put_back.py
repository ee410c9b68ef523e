"""A backup put back in its place, and written to, in the process that wrote to what was there before."""

from __future__ import annotations

import random
import shutil

import pytest

import omnigraph as og

SCHEMA = "node P { k: String @key  t: String  n: I32 }"
VALUE = "query q($k: String) { match { $p: P { k: $k } } return { $p.n } }"
ALL = "query q() { match { $p: P } return { $p.k, $p.n } }"


def records(values: dict[str, int]) -> list[dict[str, object]]:
    return [{"type": "P", "data": {"k": k, "t": f"w{n}", "n": n}} for k, n in values.items()]


def write(root, rng: random.Random, prefix: str, branch: str) -> None:
    """A history of its own, whose rows are compared with a model after every commit."""
    with og.open(root) as graph:
        model = {row["p.k"]: row["p.n"] for row in graph.query(ALL, branch=branch)}
        for step in range(6):
            changed = rng.sample(sorted(model), rng.randint(1, 20))
            fresh = [f"{prefix}{rng.randint(0, 60)}" for _ in range(rng.randint(0, 30))]
            new = {key: rng.randint(0, 9999) for key in (*changed, *fresh)}
            graph.load(records(new), branch=branch)
            model.update(new)
            if step == 3:
                graph.optimize()
            for key in rng.sample(sorted(model), 5):
                rows = graph.query(VALUE, {"k": key}, branch=branch).rows
                assert [row["p.n"] for row in rows] == [model[key]]
        found = sorted((row["p.k"], row["p.n"]) for row in graph.query(ALL, branch=branch))
        assert found == sorted(model.items())


@pytest.mark.parametrize("seed", range(3))
def test_versions_of_the_same_numbers_are_told_apart(tmp_path, seed):
    """Rows that are there were not found by the second history, and inserted once more."""
    rng, root = random.Random(seed), tmp_path / "g"
    with og.init(root, SCHEMA) as graph:
        graph.load(records({f"a{at}": at for at in range(300)}))
        graph.branches.create("b")
        graph.load(records({"b0": 1}), branch="b")
    shutil.copytree(root, tmp_path / "backup")
    for prefix in ("x", "y"):
        for branch in ("main", "b"):
            write(root, rng, prefix, branch)
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "backup", root)

"""The operations of the workers: how one is chosen, done, and what it does to the plain content."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import omnigraph as og
from omnigraph.errors import BranchNotFound
from omnigraph.graph import Graph
from tests.histories.model import Commit, Content, merge_bases, three_way
from tests.histories.plain import MUTATIONS, as_record, random_mutation, random_rows

Intent = Mapping[str, Any]
BRANCHES = ("b0", "b1", "b2")
TAGS = ("t0", "t1", "t2")
EXTRAS = ("e0", "e1", "e2")
INSERT = """
query both($name: String, $n: I32) {
    insert Person { name: $name, n: $n }
    insert Place { code: $name, size: $n }
}
"""


def schema(extras: tuple[str, ...]) -> str:
    """The schema of the histories, with these properties added to Place and without rules for where people live."""
    more = "".join(f"\n  {name}: I32?" for name in extras)
    return (
        "node Person {\n  name: String @key\n  n: I32?\n  note: String?\n}\n"
        f"node Place {{\n  code: String @key\n  size: I32?{more}\n}}\n"
        "edge Knows: Person -> Person { w: I32? }\n"
        "edge LivesIn: Person -> Place { since: Date?  until: Date? }\n"
    )


@dataclass(frozen=True)
class State:
    """A commit of the plain history, with the properties that Place has besides its own."""

    commit: Commit
    extras: tuple[str, ...]


Draw = Callable[[Random, Graph, str], dict[str, Any] | None]
Run = Callable[[Graph, Intent, str], str | None]
Effect = Callable[[Intent, State, Commit | None, Callable[[str], State]], State | Content]


@dataclass(frozen=True)
class Work:
    """A kind of operation.

    ``draw`` chooses one that may be possible now, or gives None. ``run`` does it and gives the id of the commit
    that it was told of. ``effect`` gives the content after its commit, from the state before, the merged
    commit, and every known commit by id.
    """

    weight: int
    draw: Draw
    run: Run
    effect: Effect


def _same(_intent: Intent, before: State, _merged: Commit | None, _known: Any) -> Content:
    return before.commit.content


def _any_branch(chance: Random, graph: Graph) -> str:
    return chance.choice(graph.branches.list())


def _seed(chance: Random) -> int:
    return chance.getrandbits(64)


# ------------------------------------------------------------------ rows


def _draw_insert(chance: Random, graph: Graph, actor: str) -> dict[str, Any]:
    return {"branch": _any_branch(chance, graph), "name": actor, "n": chance.randrange(9)}


def _run_insert(graph: Graph, intent: Intent, actor: str) -> str | None:
    params = {"name": intent["name"], "n": intent["n"]}
    made = graph.mutate(INSERT, params=params, branch=intent["branch"], actor=actor)
    assert made.commit is not None
    return made.commit.graph_commit_id


def _inserted(intent: Intent, before: State, _merged: Commit | None, _known: Any) -> Content:
    name, n = intent["name"], intent["n"]
    place = {"code": name, "size": n, **dict.fromkeys(before.extras)}
    return {
        **before.commit.content,
        ("node:Person", name): {"name": name, "n": n, "note": None},
        ("node:Place", name): place,
    }


def _draw_mutation(chance: Random, graph: Graph, _actor: str) -> dict[str, Any]:
    return {"branch": _any_branch(chance, graph), "seed": _seed(chance)}


def _run_mutation(graph: Graph, intent: Intent, actor: str) -> str | None:
    name, params, _ = random_mutation(Random(intent["seed"]), {})
    made = graph.mutate(MUTATIONS, name, params, branch=intent["branch"], actor=actor)
    return None if made.commit is None else made.commit.graph_commit_id


def _mutated(intent: Intent, before: State, _merged: Commit | None, _known: Any) -> Content:
    return random_mutation(Random(intent["seed"]), before.commit.content)[2]


def _rows(intent: Intent) -> Content:
    return random_rows(Random(intent["seed"]), {}, 0)


def _records(intent: Intent) -> list[dict[str, Any]]:
    return [as_record(key, image) for key, image in _rows(intent).items()]


def _draw_load(chance: Random, graph: Graph, _actor: str) -> dict[str, Any]:
    return {"branch": _any_branch(chance, graph), "seed": _seed(chance)}


def _run_load(graph: Graph, intent: Intent, actor: str) -> str | None:
    made = graph.load(_records(intent), branch=intent["branch"], actor=actor, engine="local")
    return made.commit.graph_commit_id


def _run_spark_load(graph: Graph, intent: Intent, actor: str) -> str | None:
    made = graph.load(_records(intent), branch=intent["branch"], actor=actor, engine="spark")
    return made.commit.graph_commit_id


def _loaded(intent: Intent, before: State, _merged: Commit | None, _known: Any) -> Content:
    rows = _rows(intent)
    extras = dict.fromkeys(before.extras)
    places = {key: {**image, **extras} for key, image in rows.items() if key[0] == "node:Place"}
    return {**before.commit.content, **rows, **places}


# ------------------------------------------------------------------ history


def _draw_merge(chance: Random, graph: Graph, _actor: str) -> dict[str, Any] | None:
    branches = graph.branches.list()
    if len(branches) < 2:
        return None
    source, into = chance.sample(branches, 2)
    return {"branch": into, "source": source}


def _run_merge(graph: Graph, intent: Intent, actor: str) -> str | None:
    made = graph.branches.merge(intent["source"], intent["branch"], actor=actor, resolve="theirs")
    return None if made.commit is None else made.commit.graph_commit_id


def _merged(_intent: Intent, before: State, merged: Commit | None, _known: Any) -> Content:
    assert merged is not None
    base = merge_bases(merged, before.commit)[0]
    sides = (base.content, merged.content, before.commit.content)
    result = three_way(*sides, by_property=False, resolve="theirs", one_home=False)
    assert not result.conflicts
    return result.content


def _draw_revert(chance: Random, graph: Graph, _actor: str) -> dict[str, Any] | None:
    branch = _any_branch(chance, graph)
    commits = [one for one in graph.commits.list(branch, limit=6) if one.parent_ids]
    if not commits:
        return None
    return {"branch": branch, "reverted": chance.choice(commits).graph_commit_id}


def _run_revert(graph: Graph, intent: Intent, actor: str) -> str | None:
    options: dict[str, Any] = {"branch": intent["branch"], "actor": actor, "resolve": "theirs"}
    made = graph.commits.revert(intent["reverted"], **options)
    return None if made.commit is None else made.commit.graph_commit_id


def _reverted(
    intent: Intent, before: State, _merged: Commit | None, known: Callable[[str], State]
) -> Content:
    commit = known(intent["reverted"]).commit
    sides = (commit.content, commit.first.content, before.commit.content)
    result = three_way(*sides, by_property=False, resolve="theirs", one_home=False)
    assert not result.conflicts
    return result.content


def _draw_branch(chance: Random, graph: Graph, _actor: str) -> dict[str, Any]:
    return {"name": chance.choice(BRANCHES), "from": _any_branch(chance, graph)}


def _run_branch(graph: Graph, intent: Intent, _actor: str) -> str | None:
    return graph.branches.create(intent["name"], from_=intent["from"]).head_commit_id


def _draw_delete(chance: Random, graph: Graph, _actor: str) -> dict[str, Any] | None:
    others = [name for name in graph.branches.list() if name != "main"]
    return {"name": chance.choice(others)} if others else None


def _run_delete(graph: Graph, intent: Intent, _actor: str) -> str | None:
    graph.branches.delete(intent["name"])
    return None


def _draw_tag(chance: Random, graph: Graph, _actor: str) -> dict[str, Any]:
    return {"name": chance.choice(TAGS), "branch": _any_branch(chance, graph)}


def _run_tag(graph: Graph, intent: Intent, _actor: str) -> str | None:
    return graph.tags.create(intent["name"], at=og.at(branch=intent["branch"])).graph_commit_id


def _draw_untag(chance: Random, graph: Graph, _actor: str) -> dict[str, Any] | None:
    tags = [tag.name for tag in graph.tags.list()]
    return {"name": chance.choice(tags)} if tags else None


def _run_untag(graph: Graph, intent: Intent, _actor: str) -> str | None:
    graph.tags.delete(intent["name"])
    return None


# ------------------------------------------------------------------ schema and upkeep


def _draw_schema(chance: Random, _graph: Graph, _actor: str) -> dict[str, Any]:
    wanted = [name for name in EXTRAS if chance.random() < 0.5]
    return {"branch": "main", "extras": wanted, "hard": chance.random() < 0.5}


def _run_schema(graph: Graph, intent: Intent, actor: str) -> str | None:
    wanted = schema(tuple(intent["extras"]))
    made = graph.schema.apply(wanted, allow_data_loss=intent["hard"], actor=actor)
    return None if made.commit is None else made.commit.graph_commit_id


def _with_schema(intent: Intent, before: State, _merged: Commit | None, _known: Any) -> State:
    wanted = tuple(intent["extras"])
    gone = set(before.extras) - set(wanted)
    content = {
        key: (
            {name: value for name, value in image.items() if name not in gone}
            | {name: None for name in wanted if name not in before.extras}
            if key[0] == "node:Place"
            else image
        )
        for key, image in before.commit.content.items()
    }
    commit = before.commit
    return State(Commit(commit.id, commit.parents, content, "", 0, commit.home), wanted)


def _draw_upkeep(chance: Random, graph: Graph, _actor: str) -> dict[str, Any]:
    return {"branch": _any_branch(chance, graph)}


def _run_indices(graph: Graph, intent: Intent, _actor: str) -> str | None:
    graph.ensure_indices(branch=intent["branch"], engine="local")
    return None


def _run_optimize(graph: Graph, intent: Intent, _actor: str) -> str | None:
    report = graph.optimize(branch=intent["branch"], engine="local")
    assert [row.error for row in report if row.error] == []
    return None


def _draw_cleanup(chance: Random, _graph: Graph, _actor: str) -> dict[str, Any]:
    return {"keep": chance.choice([1, 2, 5])}


def _run_cleanup(graph: Graph, intent: Intent, _actor: str) -> str | None:
    report = graph.cleanup(keep_versions=intent["keep"])
    assert [row.error for row in report if row.error] == []
    return None


WORK = {
    "insert": Work(4, _draw_insert, _run_insert, _inserted),
    "mutate": Work(4, _draw_mutation, _run_mutation, _mutated),
    "load": Work(5, _draw_load, _run_load, _loaded),
    "tag": Work(2, _draw_tag, _run_tag, _same),
    "untag": Work(2, _draw_untag, _run_untag, _same),
    "ensure_indices": Work(1, _draw_upkeep, _run_indices, _same),
    "optimize": Work(2, _draw_upkeep, _run_optimize, _same),
    "cleanup": Work(1, _draw_cleanup, _run_cleanup, _same),
    "branch": Work(3, _draw_branch, _run_branch, _same),
    "delete_branch": Work(2, _draw_delete, _run_delete, _same),
    "merge": Work(4, _draw_merge, _run_merge, _merged),
    "revert": Work(2, _draw_revert, _run_revert, _reverted),
    "schema_apply": Work(3, _draw_schema, _run_schema, _with_schema),
    "spark_load": Work(1, _draw_load, _run_spark_load, _loaded),
}
BRANCHING = {"branch", "delete_branch", "merge", "revert"}
SEASONS = {
    "branches": tuple(set(WORK) - {"schema_apply", "spark_load"}),
    "schemas": tuple(set(WORK) - BRANCHING - {"spark_load"}),
    "spark": ("spark_load",),
}
"""What is done to one graph: a schema can only change while `main` is the only branch."""


def choose(chance: Random, graph: Graph, season: str, actor: str) -> dict[str, Any]:
    """The next operation."""
    names = sorted(SEASONS[season])
    while True:
        (kind,) = chance.choices(names, [WORK[name].weight for name in names])
        # Another worker may delete the branch that was just chosen.
        with contextlib.suppress(BranchNotFound):
            drawn = WORK[kind].draw(chance, graph, actor)
            if drawn is not None:
                return {"kind": kind, **drawn}

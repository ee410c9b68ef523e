"""Random sequences of edits, commands, kills and changes behind the cluster's back, against a plain model.

`./dev faults --all` runs every sequence, and `--steps N` longer ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from contextlib import ExitStack
from copy import deepcopy

import pytest

from omnigraph import failpoints
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import force_unlock, import_cluster, refresh, status
from omnigraph.cluster.planning import approve
from omnigraph.cluster.stored import lock
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from tests.cluster.conftest import QUERIES, Cluster
from tests.cluster.model import Live, Model

GRAPHS = ("a", "b")
SCHEMAS = (
    "node Author {\n    name: String @key\n}\n",
    "node Author {\n    name: String @key\n    born: I32?\n}\n",
    "node Author {\n    name: String @key\n    home: String?\n}\n",
)
TEXTS = (QUERIES, QUERIES.replace("return", "// another\n    return"))
STEPS = int(os.environ.get("FAULTS_STEPS", "14"))
ACTIONS = (
    *("edit",) * 5,
    *("apply",) * 4,
    *("killed apply",) * 4,
    *("approve",) * 2,
    *(
        "refresh",
        "killed refresh",
        "status",
        "migrate",
        "remove",
        "make",
        "lose blob",
        "spoil blob",
    ),
)


class Killed(BaseException):
    """Ends a command as a kill does."""


class Sequence:
    """A cluster and its model, side by side."""

    def __init__(self, path, seed):
        self.chance = random.Random(f"cluster {seed}")
        self.cluster, self.place = Cluster(path), str(path)
        self.model = Model()
        self.done = []
        self.edit()
        assert import_cluster(self.place)["ok"]
        self.model.statuses = dict.fromkeys(self.model.wanted(), ("pending", None))

    def run(self, steps):
        for _ in range(steps):
            self.do(self.chance.choice(ACTIONS))
        self.settle()

    def do(self, action):
        self.done.append(action)
        word, _, rest = action.partition(" ")
        if word == "killed":
            self.kill(rest)
        elif word in {"apply", "refresh"}:
            self.command(word)
        else:
            getattr(self, action.replace(" ", "_"))()

    # ---------------------------------------------------------------- edits and foreign changes

    def edit(self):
        declared = {}
        for name in GRAPHS:
            if self.chance.random() < 0.7:
                declared[name] = (self.chance.randrange(3), self.chance.choice((None, 0, 1)))
        self.declare(declared)

    def declare(self, declared):
        self.model.declared = declared
        graphs = {}
        for name, (schema, query) in declared.items():
            self.cluster.write(f"{name}.pg", SCHEMAS[schema])
            graphs[name] = {"schema": f"{name}.pg"}
            if query is not None:
                self.cluster.write(f"{name}.gq", TEXTS[query].replace("authors", "q"))
                graphs[name]["queries"] = f"{name}.gq"
        self.cluster.config(json.dumps({"version": 1, "graphs": graphs}))

    def root(self, name):
        return self.cluster.path / f"graphs/{name}.omni"

    def foreign(self):
        """A graph that is there and no delete of which is under way."""
        deleted = {one.graph for one in self.model.recoveries if one.move == "delete"}
        names = sorted(self.model.live.keys() - deleted)
        return self.chance.choice(names) if names else None

    def migrate(self):
        name = self.foreign()
        if name is None:
            return
        live, wanted = self.model.live[name], self.chance.randrange(3)
        if live.schema != wanted:
            with open_graph(str(self.root(name)), upkeep="off") as graph:
                graph.schema.apply(SCHEMAS[wanted])
            self.model.live[name] = Live(wanted, live.commits + 1)

    def remove(self):
        name = self.foreign()
        if name is not None:
            shutil.rmtree(self.root(name))
            del self.model.live[name]

    def make(self):
        begun = {one.graph for one in self.model.recoveries}
        names = [one for one in GRAPHS if one not in self.model.live and one not in begun]
        if names:
            name, schema = self.chance.choice(names), self.chance.randrange(3)
            init(str(self.root(name)), SCHEMAS[schema], upkeep="off").close()
            self.model.live[name] = Live(schema)

    def lose_blob(self):
        self.harm_blob(lambda file: file.unlink())

    def spoil_blob(self):
        self.harm_blob(lambda file: file.write_text("query q() {}"))

    def harm_blob(self, harm):
        files = sorted((self.cluster.path / "__cluster/resources/query").rglob("*.gq"))
        if not files:
            return
        file = self.chance.choice(files)
        name = file.parts[-3]
        digests = [digest_of(text.replace("authors", "q")) for text in TEXTS]
        query = digests.index(file.stem)
        harm(file)
        if file.exists():
            self.model.blobs[name, query] = False
        else:
            del self.model.blobs[name, query]

    # ---------------------------------------------------------------- commands

    def command(self, name):
        expected = list(getattr(self.model, name)())
        passed = []
        with ExitStack() as armed:
            for point in watched():
                armed.enter_context(failpoints.arm(point, passed.append))
            document = {"apply": apply, "refresh": refresh}[name](self.place)
        assert passed == expected, document["diagnostics"]
        self.compare(name, document)

    def kill(self, name):
        """Run a command that dies at one of its points, chosen by chance; its lock stays."""
        ahead = list(getattr(deepcopy(self.model), name)())
        last = self.chance.randrange(len(ahead))
        left = iter(range(last, -1, -1))

        def die(_):
            if next(left, 0) == 0:
                raise Killed

        with ExitStack() as armed, pytest.MonkeyPatch.context() as patched:
            for point in watched():
                armed.enter_context(failpoints.arm(point, die))
            patched.setattr(lock, "_unlock", lambda *_: lock.BEFORE_UNLOCK.hit())
            with pytest.raises(Killed):
                {"apply": apply, "refresh": refresh}[name](self.place)
        running = getattr(self.model, name)()
        for _ in range(last + 1):
            next(running)
        running.close()
        self.done[-1] = f"{name} killed at {ahead[last]}"
        told = apply(self.place)["diagnostics"]
        assert [one["code"] for one in told] == ["state_lock_held"]
        seen = status(self.place)["state_observations"]
        assert force_unlock(self.place, seen["lock_id"])["lock_removed"]
        self.compare_stored()

    def approve(self):
        name = self.chance.choice(GRAPHS)
        done = approve(self.place, f"graph.{name}", "ada")
        assert done["ok"] == self.model.approve(name), done["diagnostics"]

    def status(self):
        shown = status(self.place)["resource_statuses"]
        spoilt = {
            f"query.{name}.q": "payload_mismatch"
            if (name, query) in self.model.blobs
            else "payload_missing"
            for name, query in self.model.queries.items()
            if not self.model.blobs.get((name, query))
        }
        expected = self.model.statuses | {at: ("drifted", why) for at, why in spoilt.items()}
        assert statuses_of(shown) == expected

    # ---------------------------------------------------------------- comparing

    def compare(self, name, document):
        model = self.model
        assert document["ok"] == model.is_ok, document["diagnostics"]
        if name == "apply":
            found = {
                one["resource"]: (one["operation"], one["disposition"], one.get("reason"))
                for one in document["changes"]
            }
            assert found == {
                at: (one.operation, one.becomes, one.reason) for at, one in model.changes.items()
            }
            assert document["converged"] == model.converged
        assert statuses_of(document["resource_statuses"]) == model.statuses
        self.compare_stored()

    def compare_stored(self):
        """The ledger, graphs, recovery files and approvals are those of the model."""
        model, stored = self.model, self.cluster.path / "__cluster"
        ledger = json.loads((stored / "state.json").read_text())
        applied = ledger["applied_revision"]
        assert applied["resources"].keys() == model.ledger().keys()
        for name, schema in model.schemas.items():
            assert (
                applied["resources"][f"schema.{name}"]["digest"]
                == f"sha256:{digest_of(SCHEMAS[schema])}"
            )
        assert statuses_of(ledger["resource_statuses"]) == model.statuses
        recoveries = [
            json.loads(one.read_text()) for one in sorted((stored / "recoveries").glob("*"))
        ]
        words = {"graph_create": "create", "schema_apply": "migrate", "graph_delete": "delete"}
        assert [(words[one["operation"]], one["graph_id"]) for one in recoveries] == [
            (one.move, one.graph) for one in model.recoveries
        ]
        approvals = [
            json.loads(one.read_text()) for one in sorted((stored / "approvals").glob("*"))
        ]
        assert [one["consumed_at"] is not None for one in approvals] == [
            one.is_used for one in model.approvals
        ]
        for name in GRAPHS:
            live = model.live.get(name)
            if live is None:
                assert not self.root(name).exists()
            elif not live.is_half_deleted:
                with open_graph(str(self.root(name)), mode="r") as graph:
                    assert graph.schema.source == SCHEMAS[live.schema]
                    assert len(graph.commits.list()) == live.commits

    def settle(self):
        """Whatever happened: refresh, approve and apply, and everything is as declared."""
        self.do("refresh")
        self.do(
            "refresh"
        )  # what the first could not attribute, the second finds as it is in the ledger
        for name in GRAPHS:
            approve(self.place, f"graph.{name}", "ada")
            self.model.approve(name)
        self.do("apply")
        assert self.model.converged
        assert self.model.graphs == self.model.declared.keys()
        for name, (schema, _) in self.model.declared.items():
            assert self.model.live[name].schema == schema
        again = apply(self.place)
        assert (again["changes"], again["converged"], again["state_written"]) == ([], True, False)


def watched():
    return [one for one in failpoints.registered() if one.startswith(("cluster.", "graph_delete."))]


def digest_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


def statuses_of(shown):
    return {at: (one["status"], (one.get("conditions") or [None])[0]) for at, one in shown.items()}


@pytest.mark.sampled(4, every=())
@pytest.mark.parametrize("seed", range(150))
def test_a_sequence_goes_as_the_model_says(tmp_path, seed):
    sequence = Sequence(tmp_path, seed)
    try:
        sequence.run(STEPS)
    except BaseException as error:
        error.add_note(f"seed {seed}: {', '.join(sequence.done)}")
        raise

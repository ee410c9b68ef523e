"""Mutations that share a commit: each is answered as if it were alone, and the commit says who did what."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cancel import Cancel, within
from omnigraph.clock import new_ulid
from omnigraph.errors import (
    BadRequest,
    ConstraintError,
    OmniGraphError,
    PolicyDenied,
    PreconditionFailed,
    QueryCancelled,
    StorageError,
    TypeCheckError,
)
from omnigraph.graph.graph import state_of
from omnigraph.policy.checker import Decision
from omnigraph.write.group_commit import preparing, together
from tests.commit.synthetic import drifted
from tests.write.grouped import ask, commits_of, member, run_together
from tests.write.writing import ends, nodes, run

SCHEMA = """
node Person { name: String @key  age: I64?  email: String? @unique }
node Team { code: String @key }
edge Knows: Person -> Person { @unique(src, dst) }
edge In: Person -> Team @card(0..1)
edge Guards: Team -> Person @card(2..3)
"""


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch):
    """However busy the machine is, all who wait are in one group."""
    monkeypatch.setattr(preparing, "LONGEST", 600.0)


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA, group_commit=True) as graph:
        run(graph, 'insert Person { name: "Zoe" } insert Team { code: "t" }')
        yield graph
        assert drifted(graph) == []


def person(name, **options):
    return ask(f'insert Person {{ name: "{name}" }}', **options)


class TestMembers:
    def test_all_share_one_commit(self, graph):
        head = graph.snapshot().commit
        answers = run_together(graph, person("Ann"), person("Bob"), person("Cy"))
        now = graph.snapshot().commit
        assert commits_of(answers) == [now.graph_commit_id] * 3
        assert now.parent_commit_id == head.graph_commit_id
        assert sorted(nodes(graph, "Person")) == ["Ann", "Bob", "Cy", "Zoe"]

    def test_each_sees_what_those_before_it_wrote(self, graph):
        answers = run_together(
            graph,
            person("Ann"),
            ask('insert Knows { from: "Ann", to: "Zoe" }'),
            ask('update Person set { age: 3 } where name = "Ann"'),
            ask('upsert Person { name: "Ann", email: "a@x" }'),
        )
        assert len(set(commits_of(answers))) == 1
        assert nodes(graph, "Person")["Ann"] == {"name": "Ann", "age": 3, "email": "a@x"}
        assert ends(graph, "Knows") == [("Ann", "Zoe")]

    def test_none_sees_what_those_behind_it_wrote(self, graph):
        edge, node = run_together(
            graph, ask('insert Knows { from: "Ann", to: "Zoe" }'), person("Ann")
        )
        assert isinstance(edge, ConstraintError)
        assert edge.details["violation"] == "endpoint"
        assert not isinstance(node, OmniGraphError)
        assert ends(graph, "Knows") == []

    @pytest.mark.parametrize("at", range(4))
    def test_one_that_fails_leaves_nothing_and_the_others_go_on(self, graph, at):
        asked = [person("Ann"), person("Bob"), person("Cy")]
        bad = ask('insert Person { name: "Eve" } insert In { from: "Eve", to: "nowhere" }')
        answers = run_together(graph, *asked[:at], bad, *asked[at:])
        assert isinstance(answers.pop(at), ConstraintError)
        assert len(set(commits_of(answers))) == 1
        assert sorted(nodes(graph, "Person")) == ["Ann", "Bob", "Cy", "Zoe"]
        assert ends(graph, "In") == []
        assert len(graph.snapshot().commit.members) == 3

    def test_a_value_that_one_took_is_taken_for_the_next(self, graph):
        first, second = (f'insert Person {{ name: "{one}", email: "e" }}' for one in ("A", "B"))
        answers = run_together(graph, ask(first), ask(second), ask('delete Person where name = "A"'), ask(second))  # fmt: skip
        assert isinstance(answers[1], ConstraintError)
        assert answers[1].details["violation"] == "unique"
        assert sorted(nodes(graph, "Person")) == ["B", "Zoe"]

    def test_a_cascade_takes_edges_of_the_same_group(self, graph):
        answers = run_together(
            graph,
            person("Ann"),
            ask('insert Knows { from: "Ann", to: "Zoe" }'),
            ask('delete Person where name = "Zoe"'),
        )
        assert (answers[2].affected_nodes, answers[2].affected_edges) == (1, 1)
        assert sorted(nodes(graph, "Person")) == ["Ann"]
        assert ends(graph, "Knows") == []

    def test_an_edge_that_comes_again_has_the_id_of_its_ends(self, graph):
        know = 'insert Knows { from: "Zoe", to: "Zoe" }'
        run_together(graph, ask(know), ask('delete Knows where from = "Zoe"'), ask(know))
        (kept,) = graph.edges("Knows").to_arrow().to_pylist()
        run(graph, 'delete Knows where from = "Zoe"')
        run(graph, know)
        assert graph.edges("Knows").to_arrow().to_pylist() == [kept]

    def test_changes_that_cancel_out_are_a_commit_all_the_same(self, graph):
        head = graph.snapshot().commit
        answers = run_together(graph, person("Ann"), ask('delete Person where name = "Ann"'))
        now = graph.snapshot().commit
        assert commits_of(answers) == [now.graph_commit_id] * 2
        assert now.parent_commit_id == head.graph_commit_id
        assert len(now.members) == 2
        assert graph.commits.changes(now.graph_commit_id).changes == ()

    def test_one_that_changes_nothing_has_no_commit(self, graph):
        answers = run_together(graph, person("Ann"), ask('delete Person where name = "nobody"'))
        assert commits_of(answers) == [graph.snapshot().commit.graph_commit_id, None]
        assert not graph.snapshot().commit.members

    def test_if_none_changes_anything_there_is_no_commit(self, graph):
        head = graph.snapshot().commit
        answers = run_together(
            graph, ask('delete Team where code = "no"'), ask("insert Nothing { a: 1 }")
        )
        assert commits_of(answers) == [None, None]
        assert isinstance(answers[1], TypeCheckError)
        assert graph.snapshot().commit == head

    def test_rows_that_are_returned_are_those_of_the_member(self, graph):
        text = 'insert $p: Person { name: "%s" } return { $p.name as name }'
        answers = run_together(graph, ask(text % "Ann"), ask(text % "Bob"))
        assert [one.rows for one in answers] == [[{"name": "Ann"}], [{"name": "Bob"}]]

    def test_now_is_the_moment_of_the_commit(self, tmp_path):
        with og.init(tmp_path / "t", "node At { name: String @key  at: DateTime }") as graph:
            asked = [ask(f'insert At {{ name: "{one}", at: now() }}') for one in "ab"]
            run_together(graph, *asked)
            found = {row["at"] for row in graph.nodes("At").to_arrow().to_pylist()}
            made = graph.snapshot().commit.created_at
        assert found == {made.replace(microsecond=made.microsecond // 1000 * 1000)}


class TestPlainInserts:
    """Inserts are prepared as one batch; what each is told must not depend on those behind it."""

    def test_a_unique_value_that_is_given_up_later_is_taken_until_then(self, graph):
        run(graph, 'insert Person { name: "Old", email: "e" }')
        answers = run_together(
            graph,
            ask('insert Person { name: "New", email: "e" }'),
            ask('insert Person { name: "Old", email: "f" }'),
        )
        assert isinstance(answers[0], ConstraintError)
        assert answers[0].details["violation"] == "unique"
        emails = {name: row.get("email") for name, row in nodes(graph, "Person").items()}
        assert emails == {"Zoe": None, "Old": "f"}

    def test_the_same_with_a_value_of_the_group(self, graph):
        answers = run_together(
            graph,
            ask('insert Person { name: "A", email: "e" }'),
            ask('insert Person { name: "B", email: "e" }'),
            ask('insert Person { name: "A", email: "f" }'),
        )
        assert isinstance(answers[1], ConstraintError)
        assert nodes(graph, "Person")["A"]["email"] == "f"
        assert "B" not in nodes(graph, "Person")

    def test_of_one_key_the_last_row_stays_and_each_names_it(self, graph):
        answers = run_together(graph, *[ask('insert Team { code: "same" }')] * 3)
        assert len(set(commits_of(answers))) == 1
        assert [one["ids"] for one in graph.snapshot().commit.members] == [{"node:Team": ["same"]}] * 3  # fmt: skip
        assert sorted(nodes(graph, "Team")) == ["same", "t"]

    def test_too_few_edges_are_too_few_although_more_come(self, graph):
        run(graph, 'insert Person { name: "Ann" }')
        guard = 'insert Guards { from: "t", to: "%s" }'
        answers = run_together(graph, ask(guard % "Ann"), ask(guard % "Zoe"))
        assert all(isinstance(one, ConstraintError) for one in answers)
        assert ends(graph, "Guards") == []

    def test_edges_of_a_batch_are_named_by_who_inserted_them(self, graph):
        know = 'insert Knows { from: "Zoe", to: "%s" }'
        run_together(graph, person("Ann"), person("Bob"))
        run_together(graph, ask(know % "Ann", actor="a"), ask(know % "Bob", actor="b"))
        ids = {row["to"]: row["id"] for row in graph.edges("Knows").to_arrow().to_pylist()}
        named = [one["ids"]["edge:Knows"] for one in graph.snapshot().commit.members]
        assert named == [[ids["Ann"]], [ids["Bob"]]]

    def test_one_edge_too_many_is_refused_to_the_last_of_them(self, graph):
        run(graph, 'insert Team { code: "u" }')
        answers = run_together(graph, *(ask(f'insert In {{ from: "Zoe", to: "{one}" }}') for one in "tu"))  # fmt: skip
        assert [isinstance(one, ConstraintError) for one in answers] == [False, True]
        assert ends(graph, "In") == [("Zoe", "t")]

    def test_those_who_come_while_others_are_prepared_are_taken_along(self, graph):
        late = [member(graph, person("Bob")), member(graph, person("Cy"))]
        first = member(graph, person("Ann"))
        group = together.Groups(state_of(graph).workspace)
        group.run([first], lambda: [late.pop(0)] if late else [])
        assert len(graph.snapshot().commit.members) == 3
        assert sorted(nodes(graph, "Person")) == ["Ann", "Bob", "Cy", "Zoe"]


class TestMatches:
    def test_a_match_on_what_was_changed_waits_for_the_next_commit(self, graph):
        older = ask("match { $p: Person } update $p set { age: 5 }")
        answers = run_together(graph, person("Ann"), person("Bob"), older, person("Cy"))
        first, second, third, fourth = commits_of(answers)
        assert first == second != third == fourth
        assert answers[2].affected_nodes == 3
        assert [row.get("age") for _, row in sorted(nodes(graph, "Person").items())] == [5, 5, None, 5]  # fmt: skip

    def test_a_match_on_another_type_takes_part(self, graph):
        joined = ask('match { $t: Team } insert In { from: "Ann", to: $t.code }')
        answers = run_together(graph, person("Ann"), joined)
        assert len(set(commits_of(answers))) == 1
        assert ends(graph, "In") == [("Ann", "t")]


class TestLimits:
    def test_rows_beyond_the_limit_wait_for_the_next_commit(self, graph, monkeypatch):
        monkeypatch.setattr(preparing, "MOST_ROWS", 3)
        answers = run_together(graph, *(person(f"p{at}") for at in range(8)))
        commits = commits_of(answers)
        assert [commits.count(one) for one in dict.fromkeys(commits)] == [3, 3, 2]

    def test_time_beyond_the_limit_ends_the_group(self, graph, monkeypatch):
        monkeypatch.setattr(preparing, "LONGEST", 0.0)
        answers = run_together(graph, person("Ann"), person("Bob"))
        assert len(set(commits_of(answers))) == 2


class TestRecords:
    def test_the_commit_says_who_did_what(self, graph):
        chosen = new_ulid()
        run_together(
            graph,
            person("Ann", actor="ann", operation_id=chosen),
            ask(
                'insert Person { name: "Bob" } insert In { from: "Bob", to: "t" }',
                actor="bob",
                message="joins",
            ),
        )
        commit = graph.snapshot().commit
        assert (commit.operation, commit.actor_id, commit.operation_id) == ("mutation", None, None)
        ann, bob = commit.facts["group"]["members"]
        assert ann == {
            "operation_id": chosen,
            "actor_id": "ann",
            "statements": 1,
            "ids": {"node:Person": ["Ann"]},
        }
        (edge,) = bob["ids"].pop("edge:In")
        assert edge
        assert bob == {
            "actor_id": "bob",
            "message": "joins",
            "statements": 2,
            "ids": {"node:Person": ["Bob"]},
        }

    def test_what_all_have_in_common_is_of_the_commit(self, graph):
        run_together(
            graph, person("Ann", actor="a", message="m"), person("Bob", actor="a", message="m")
        )
        assert (graph.snapshot().commit.actor_id, graph.snapshot().commit.message) == ("a", "m")

    def test_no_more_than_64_ids_of_a_table_are_named(self, graph):
        many = " ".join(f'insert Person {{ name: "p{at:03}" }}' for at in range(70))
        run_together(graph, ask(many), person("Ann"))
        ids = graph.snapshot().commit.members[0]["ids"]["node:Person"]
        assert ids == [f"p{at:03}" for at in range(64)]

    def test_the_feed_and_the_changes_of_a_commit_name_the_members(self, graph):
        run_together(graph, person("Ann", actor="ann"), person("Bob", actor="bob"))
        commit = graph.snapshot().commit
        told = graph.commits.changes(commit.graph_commit_id).cause["members"]
        assert told == list(commit.members)
        (block,) = graph.changes.poll(start=f"after:{commit.parent_commit_id}").blocks
        assert block.cause["members"] == told

    def test_commits_are_found_by_each_actor_and_each_operation_id(self, graph):
        one, other = new_ulid(), new_ulid()
        run_together(
            graph,
            person("Ann", actor="ann", operation_id=one),
            person("Bob", actor="bob", operation_id=other),
        )
        head = graph.snapshot().commit
        for text in ("actor=ann", "actor=bob", f"operation_id={one}", f"operation_id={other}"):
            assert list(graph.commits.list(filter=text)) == [head], text
        assert list(graph.commits.list(filter="actor=cy")) == []

    def test_a_lone_commit_says_what_it_always_said(self, graph):
        run(graph, 'insert Person { name: "Ann" }', actor="ann")
        assert graph.snapshot().commit.facts == {}


class TestOperationIds:
    def test_twice_in_a_group_is_one_change(self, graph):
        chosen = new_ulid()
        answers = run_together(graph, *[person("Ann", operation_id=chosen)] * 2, person("Bob"))
        assert [one.replayed for one in answers] == [False, True, False]
        assert len(set(commits_of(answers))) == 1
        assert answers[1].affected_nodes == 1
        assert len(graph.snapshot().commit.members) == 2

    def test_in_two_groups_is_one_change(self, graph):
        chosen = [new_ulid(), new_ulid()]
        asked = [
            ask(f'insert Person {{ name: "{one}" }}', operation_id=one, actor="a") for one in chosen
        ]
        first = run_together(graph, *asked)
        again = run_together(graph, person("Cy"), *asked)
        assert commits_of(again)[1:] == commits_of(first)
        assert [one.replayed for one in again] == [False, True, True]
        alone = graph.mutate(asked[0].source, operation_id=chosen[0], group=False)
        assert (alone.replayed, alone.affected_nodes, alone.actor_id) == (True, 1, "a")

    def test_after_one_that_failed_the_same_id_runs(self, graph):
        chosen = new_ulid()
        asked = ask('insert In { from: "Ann", to: "t" }', operation_id=chosen)
        failed, _, done = run_together(graph, asked, person("Ann"), asked)
        assert isinstance(failed, ConstraintError)
        assert (done.replayed, done.affected_edges) == (False, 1)

    def test_the_id_of_another_operation_fails_alone(self, graph):
        chosen = new_ulid()
        graph.load([{"type": "Team", "data": {"code": "u"}}], operation_id=chosen)
        refused, done = run_together(graph, person("Ann", operation_id=chosen), person("Bob"))
        assert isinstance(refused, BadRequest)
        assert done.commit is not None
        assert sorted(nodes(graph, "Person")) == ["Bob", "Zoe"]

    def test_an_id_that_another_process_commits_meanwhile(self, graph):
        """It is found under the locks, and the group is prepared again without that member."""
        chosen = new_ulid()

        def overtake(_point):
            graph.mutate(
                'query q() { insert Team { code: "u" } }', operation_id=chosen, group=False
            )

        with failpoints.arm("mutation.before_locks", overtake, times=1):
            first, second = run_together(graph, person("Ann", operation_id=chosen), person("Bob"))
        assert (first.replayed, second.replayed) == (True, False)
        assert sorted(nodes(graph, "Person")) == ["Bob", "Zoe"]
        assert sorted(nodes(graph, "Team")) == ["t", "u"]


class TestRacesAndFailures:
    def test_a_lost_race_prepares_all_again(self, graph):
        def overtake(_point):
            graph.mutate('query q() { insert Person { name: "Ann", age: 7 } }', group=False)

        with failpoints.arm("mutation.before_locks", overtake, times=1):
            answers = run_together(
                graph, ask('update Person set { age: 8 } where age = 7'), person("Bob")
            )  # fmt: skip
        assert answers[0].affected_nodes == 1
        assert nodes(graph, "Person")["Ann"]["age"] == 8
        assert len(set(commits_of(answers))) == 1

    def test_what_one_of_them_cannot_write_is_its_own_failure(self, graph, monkeypatch):
        """The group cannot be staged; then each of them is tried by itself."""
        stage = together.write_of

        def failing(pending, intent):
            if intent.facts.get("group"):
                raise StorageError("a file of one of them cannot be read")
            return stage(pending, intent)

        monkeypatch.setattr(together, "write_of", failing)
        answers = run_together(graph, person("Ann"), person("Bob"))
        assert None not in commits_of(answers)
        assert sorted(nodes(graph, "Person")) == ["Ann", "Bob", "Zoe"]

    def test_who_gave_up_before_is_left_out(self, graph):
        first, second = member(graph, person("Ann")), member(graph, person("Bob"))
        second.token = Cancel()
        second.token.cancel()
        together.Groups(state_of(graph).workspace).run([first, second])
        assert isinstance(second.error, QueryCancelled)
        assert sorted(nodes(graph, "Person")) == ["Ann", "Zoe"]


@contextmanager
def company(graph: og.Session, calls) -> Iterator[list[object]]:
    """Let one mutation stop before its locks until the calls wait behind it; what each of them came to."""
    told: list[object] = [None] * len(calls)

    def call(at, one):
        try:
            told[at] = one()
        except OmniGraphError as error:
            told[at] = error

    stopped, go_on = threading.Event(), threading.Event()

    def stop(_point):
        stopped.set()
        assert go_on.wait(600)

    with failpoints.arm("mutation.before_locks", stop, times=1):
        first = threading.Thread(
            target=lambda: graph.mutate('query q() { insert Team { code: "first" } }')
        )
        first.start()
        assert stopped.wait(600)
        threads = [threading.Thread(target=call, args=(at, one)) for at, one in enumerate(calls)]
        for thread in threads:
            thread.start()
        yield told
        go_on.set()
        for thread in (first, *threads):
            thread.join(600)
            assert not thread.is_alive()


def wait_for_line(graph, length):
    """Wait until so many stand behind the mutation that runs."""
    line = state_of(graph).mutations._lines["main"]
    while len(line.waiting) < length:
        threading.Event().wait(0.005)


class TestThreads:
    def test_those_who_wait_share_the_next_commit(self, graph):
        calls = [
            lambda at=at: run(graph, f'insert Person {{ name: "p{at}" }}', actor=f"a{at}")
            for at in range(5)
        ]
        with company(graph, calls) as told:
            wait_for_line(graph, 5)
        assert len({one.commit.graph_commit_id for one in told}) == 1
        assert {one["actor_id"] for one in told[0].commit.members} == {f"a{at}" for at in range(5)}

    def test_alone_is_who_asks_for_it_or_counts_on_the_head(self, graph):
        head = graph.snapshot().commit.graph_commit_id
        calls = [
            lambda: run(graph, 'insert Person { name: "Ann" }', group=False),
            lambda: run(graph, 'insert Person { name: "Bob" }', retries=3),
            lambda: run(graph, 'insert Person { name: "Cy" }', if_commit=head),
        ]
        with company(graph, calls) as told:
            pass
        done = [one for one in told if not isinstance(one, PreconditionFailed)]
        assert len({one.commit.graph_commit_id for one in done}) == len(done) >= 2
        assert not any(one.commit.members for one in done)

    def test_every_branch_has_a_line_of_its_own(self, graph):
        graph.branches.create("side")
        call = lambda: run(graph, 'insert Person { name: "Ann" }', branch="side")  # noqa: E731
        with company(graph, [call]) as told:
            while told[0] is None:
                threading.Event().wait(0.005)
        assert told[0].commit.branch == "side"

    def test_who_gives_up_while_waiting_has_changed_nothing(self, graph):
        token = Cancel()
        call = lambda: _cancelled(graph, token)  # noqa: E731
        with company(graph, [call]) as told:
            wait_for_line(graph, 1)
            token.cancel()
            while told[0] is None:
                threading.Event().wait(0.005)
        assert isinstance(told[0], QueryCancelled)
        assert sorted(nodes(graph, "Person")) == ["Zoe"]

    def test_a_policy_is_asked_for_each(self, tmp_path):
        class NotBob:
            def check(self, question):
                return Decision(question.actor != "bob", "not bob")

        with og.init(tmp_path / "p", SCHEMA, policy=NotBob(), group_commit=True) as guarded:
            run(guarded.session("ann"), 'insert Person { name: "Zoe" }')
            calls = [
                lambda actor=actor: run(
                    guarded.session(actor), f'insert Person {{ name: "{actor}" }}'
                )
                for actor in ("ann", "bob", "cy")
            ]
            with company(guarded.session("dee"), calls) as told:
                wait_for_line(guarded, 2)
            assert isinstance(told[1], PolicyDenied)
            assert {one["actor_id"] for one in told[0].commit.members} == {"ann", "cy"}
            with og.open(guarded.uri, mode="r") as seen:
                assert sorted(nodes(seen, "Person")) == ["Zoe", "ann", "cy"]


class TestOthers:
    """Somebody else commits to the same tables, such as another worker of a server."""

    def test_who_has_to_wait_anyway_is_prepared_once_and_takes_along_who_comes_meanwhile(
        self, graph
    ):
        workspace = state_of(graph).workspace
        groups = together.Groups(workspace)
        assert not groups.others_commit("main"), "nothing is known of an earlier group"
        groups.run([member(graph, person("Ann")), member(graph, person("Bob"))])
        is_held, go_on, is_begun = threading.Event(), threading.Event(), threading.Event()
        late = [member(graph, person("Dee", operation_id=new_ulid()))]
        begun = []

        def stop(_point):
            is_held.set()
            assert go_on.wait(600)

        def note(_point):
            begun.append(go_on.is_set())
            is_begun.set()

        def other():
            with og.open(graph.uri) as another:
                run(another, 'insert Person { name: "Eve" }')

        def more():
            return [late.pop()] if late and go_on.is_set() else []

        with failpoints.arm("mutation.before_phase_a", stop, times=1):
            outside = threading.Thread(target=other)
            outside.start()
            assert is_held.wait(600)
        assert groups.others_commit("main")
        first, lost = member(graph, person("Cy")), workspace.tally.lost_races
        with failpoints.arm("attempt.pinned", note):
            inside = threading.Thread(target=lambda: groups.run([first], more))
            inside.start()
            # One that does not take the locks first would be prepared now, and once more later.
            is_begun.wait(0.2)
            go_on.set()
            outside.join(600)
            inside.join(600)
        assert first.result is not None
        assert workspace.tally.lost_races == lost
        assert begun == [True], "prepared once, when the other one was done"
        assert sorted(nodes(graph, "Person")) == ["Ann", "Bob", "Cy", "Dee", "Eve", "Zoe"]

    def test_nobody_waits_for_a_provider_of_vectors(self, tmp_path):
        """Where a mutation may ask one, it is prepared before the locks."""
        schema = 'node Note { slug: String @key  text: String?  vector: Vector(4)? @embed("text") }'
        with og.init(tmp_path / "notes", schema, group_commit=True) as notes:
            workspace = state_of(notes).workspace
            groups = together.Groups(workspace)
            groups.run([member(notes, ask(f'insert Note {{ slug: "{one}" }}')) for one in "ab"])
            pin = notes.snapshot().tables["node:Note"]
            with workspace.locks.acquire([workspace.lock_name(pin.location, "main")]):
                assert not groups.others_commit("main")

    def test_other_tables_than_those_of_the_last_group(self, graph):
        """The locks that it lacks are taken, too."""
        groups = together.Groups(state_of(graph).workspace)
        groups.run([member(graph, person("Ann")), member(graph, person("Bob"))])
        groups.others_commit = lambda branch: True
        late = [member(graph, ask('insert Team { code: "u" }', operation_id=new_ulid()))]
        first = member(graph, person("Cy"))
        groups.run([first], lambda: [late.pop()] if late else [])
        assert len(graph.snapshot().commit.members) == 2
        assert sorted(nodes(graph, "Team")) == ["t", "u"]


def _cancelled(graph, token):
    with within(None, token):
        return run(graph, 'insert Person { name: "Ann" }')


def test_it_is_off_by_default(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        assert not state_of(graph).group_commit
        run(graph, 'insert Team { code: "t" }')
        assert state_of(graph)._mutations is None


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_it_is_true_or_false(tmp_path, value):
    with pytest.raises(BadRequest, match="group_commit"):
        og.init(tmp_path / "g", SCHEMA, group_commit=value)
    with og.init(tmp_path / "h", SCHEMA) as graph, pytest.raises(BadRequest, match="group is"):
        run(graph, 'insert Team { code: "t" }', group=value)

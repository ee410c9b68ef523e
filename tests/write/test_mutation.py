"""A mutation as one commit: all or nothing, on its branch, under its condition."""

from __future__ import annotations

import threading

import pytest

from omnigraph import failpoints
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    ConstraintError,
    Contention,
    ExpectedVersionMismatch,
    OmniGraphError,
    PreconditionFailed,
    ResourceLimit,
    SchemaConflict,
    StorageError,
)
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.graph.graph import state_of
from omnigraph.lang.query import compile_query
from omnigraph.read.view.view import Reader
from omnigraph.write import mutate as mutations
from omnigraph.write import pending
from omnigraph.write.mutate import CheckedMutation, Request, mutate
from omnigraph.write.pending import PendingTable
from tests.commit.synthetic import drifted
from tests.opened import workspace_of
from tests.oracle.graph import Graph as PlainGraph
from tests.stored import fill, read_back
from tests.write.writing import counts, ends, nodes, run, state

SCHEMA = """
node Person { name: String @key  age: I32? @range(age, 0..150)  mail: String? @unique }
node Team { code: String @key }
node Log { text: String }
edge In: Person -> Team
edge Boss: Person -> Person @card(0..1)
"""


@pytest.fixture
def graph(tmp_path):
    with init(tmp_path / "g", SCHEMA) as graph:
        run(graph, 'insert Person { name: "a", age: 1 } insert Person { name: "b", age: 2 } '
                   'insert Team { code: "t" } insert In { from: "a", to: "t" } '
                   'insert Boss { from: "a", to: "b" }')  # fmt: skip
        yield graph


class TestResult:
    def test_it_names_the_query_the_branch_the_actor_and_the_commit(self, graph):
        before = graph.snapshot().graph_commit_id
        result = run(graph, 'insert Team { code: "u" }', actor="ada")
        assert (result.branch, result.query_name, result.actor_id) == ("main", "q", "ada")
        assert result.commit == graph.snapshot().commit
        assert result.commit.parent_commit_id == before
        assert result.commit.operation == "mutation"
        assert result.commit.actor_id == "ada"
        assert result.to_json() == {
            "branch": "main",
            "query_name": "q",
            "affected_nodes": 1,
            "affected_edges": 0,
            "actor_id": "ada",
            "commit": result.commit.to_json(),
        }

    def test_many_statements_are_one_commit(self, graph):
        made = len(graph.commits.list())
        run(graph, 'insert Team { code: "u" } insert Person { name: "c" } '
                   'insert In { from: "c", to: "u" } update Person set { age: 3 } where name = "c"')  # fmt: skip
        assert len(graph.commits.list()) == made + 1
        moved = [pin.table_version for pin in graph.snapshot().tables.values()]
        assert sorted(moved) == [1, 2, 3, 3, 3]

    @pytest.mark.parametrize(
        "body",
        [
            'delete Person where name = "nobody"',
            'update Person set { age: 5 } where name = "nobody"',
            'delete In where from = "b"',
            'delete Person where age > 200 delete Team where code < "a"',
        ],
    )
    def test_what_matches_nothing_makes_no_commit(self, graph, body):
        before = state(graph)
        result = run(graph, body)
        assert (counts(result), result.commit) == ((0, 0), None)
        assert result.to_json()["commit"] is None
        assert state(graph) == before

    def test_what_touches_a_row_makes_one_even_when_nothing_differs(self, graph):
        before = read_back(graph)
        made = len(graph.commits.list())
        assert counts(run(graph, "update Person set { age: 1 } where age = 1")) == (1, 0)
        assert counts(run(graph, 'insert Person { name: "a", age: 1 }')) == (1, 0)
        assert len(graph.commits.list()) == made + 2
        assert read_back(graph) == before


REFUSED = {
    "range": 'insert Team { code: "u" } update Person set { age: 151 } where name = "a"',
    "unique": 'insert Person { name: "c", mail: "m" } insert Person { name: "d", mail: "m" }',
    "endpoint": 'insert Team { code: "u" } insert In { from: "a", to: "no" }',
    "cardinality": 'insert Person { name: "c" } insert Boss { from: "a", to: "c" }',
}


class TestAtomic:
    @pytest.mark.parametrize("rule", REFUSED)
    def test_a_refused_mutation_changes_nothing(self, graph, rule):
        before = state(graph)
        with pytest.raises(ConstraintError) as caught:
            run(graph, REFUSED[rule])
        assert caught.value.details["violation"] == rule
        assert state(graph) == before
        assert drifted(graph) == []
        assert counts(run(graph, 'insert Team { code: "next" }')) == (1, 0)
        assert graph.snapshot().commit.parent_commit_id == before[0].graph_commit_id

    def test_the_final_image_is_judged_and_not_the_way_there(self, graph):
        run(graph, 'update Person set { age: 151 } where name = "a" '
                   'update Person set { age: 150 } where name = "a"')  # fmt: skip
        assert nodes(graph, "Person")["a"]["age"] == 150

    @pytest.mark.parametrize("moment", ["before_phase_a", "before_phase_b", "before_table_commit"])
    def test_a_failure_before_a_table_moved_leaves_nothing(self, graph, moment):
        before = state(graph)
        with failpoints.arm(f"mutation.{moment}"), pytest.raises(StorageError, match="failpoint"):
            run(graph, 'insert Team { code: "u" } insert Person { name: "c" }')
        assert state(graph) == before
        run(graph, 'insert Team { code: "u" }')


class TestBranches:
    def test_a_branch_forks_what_it_writes_and_leaves_main(self, graph):
        before = state(graph)
        graph.branches.create("x")
        result = run(
            graph, 'insert Person { name: "c" } insert In { from: "c", to: "t" }', branch="x"
        )
        assert (result.branch, result.commit.branch) == ("x", "x")
        assert state(graph) == before
        pins = graph.snapshot(branch="x").tables
        forked = {key for key, pin in pins.items() if pin.table_branch == "x"}
        assert forked == {"node:Person", "edge:In"}
        assert sorted(nodes(graph, "Person", "x")) == ["a", "b", "c"]
        run(graph, 'update Person set { age: 9 } where name = "a"', branch="x")
        assert counts(run(graph, 'delete Team where code = "t"', branch="x")) == (1, 2)
        assert nodes(graph, "Person", "x")["a"]["age"] == 9
        assert ends(graph, "In", "x") == []
        assert state(graph) == before

    def test_constraints_hold_on_each_branch_alone(self, graph):
        graph.branches.create("x")
        run(graph, 'update Person set { mail: "m" } where name = "a"', branch="x")
        with pytest.raises(ConstraintError, match="@unique"):
            run(graph, 'update Person set { mail: "m" } where name = "b"', branch="x")
        run(graph, 'update Person set { mail: "m" } where name = "b"')

    def test_an_unknown_branch(self, graph):
        with pytest.raises(BranchNotFound, match="nowhere"):
            run(graph, 'insert Team { code: "u" }', branch="nowhere")

    def test_a_branch_without_a_match_is_not_forked(self, graph):
        graph.branches.create("x")
        assert run(graph, 'delete Team where code = "no"', branch="x").commit is None
        assert {pin.table_branch for pin in graph.snapshot(branch="x").tables.values()} == {None}


def checked(graph, catalog, ir_hash, plan):
    view = Reader(workspace_of(graph)).view
    return Request(
        lambda _state: CheckedMutation(catalog, ir_hash, plan, {}), view, "main", retries=0
    )


class TestHandles:
    def test_a_read_only_handle_refuses(self, graph):
        before = state(graph)
        with (
            open_graph(graph.uri, mode="r") as reader,
            pytest.raises(BadRequest, match="read-only"),
        ):
            run(reader, 'insert Team { code: "u" }')
        assert state(graph) == before

    def test_a_closed_handle_refuses(self, tmp_path):
        graph = init(tmp_path / "c", SCHEMA)
        graph.close()
        with pytest.raises(BadRequest, match="closed"):
            run(graph, 'insert Team { code: "u" }')

    def test_an_old_handle_writes_on_the_newest_state(self, graph):
        with open_graph(graph.uri) as other:
            run(other, 'insert Person { name: "c", age: 7 }')
            assert counts(run(graph, "update Person set { age: 8 } where age = 7")) == (1, 0)
            assert nodes(other, "Person")["c"]["age"] == 8

    def test_a_plan_for_tables_that_are_not_there_any_more_is_refused(self, graph, tmp_path):
        """What a schema apply between the check of a query and its run looks like."""
        for schema in ("node Extra { k: String @key }", "node Able { x: I32 }\n" + SCHEMA):
            with init(tmp_path / str(len(schema)), schema) as other:
                catalog = other.schema.catalog
            name = "Extra" if "Extra" in schema else "Team"
            key = "k" if name == "Extra" else "code"
            plan = compile_query(catalog, f'query q() {{ insert {name} {{ {key}: "u" }} }}')
            before = state(graph)
            with pytest.raises(SchemaConflict, match=name):
                mutate(
                    workspace_of(graph),
                    checked(graph, catalog, state_of(graph).schemas.of("main").row.ir_hash, plan),
                )
            assert state(graph) == before

    def test_a_plan_checked_against_another_schema_is_refused(self, graph):
        """The tables are the same, but what was checked may not hold for the accepted schema."""
        catalog = graph.schema.catalog
        plan = compile_query(catalog, 'query q() { insert Team { code: "u" } }')
        before = state(graph)
        with pytest.raises(SchemaConflict, match="run it again"):
            mutate(workspace_of(graph), checked(graph, catalog, "another", plan))
        assert state(graph) == before


class TestPrecondition:
    def test_at_the_expected_commit_it_runs(self, graph):
        head = graph.snapshot().graph_commit_id
        result = run(graph, 'insert Team { code: "u" }', if_commit=head)
        assert result.commit.parent_commit_id == head

    @pytest.mark.parametrize("body", ['insert Team { code: "u" }', 'delete Team where code = "no"'])
    def test_at_another_commit_it_is_refused_also_where_it_would_do_nothing(self, graph, body):
        old = graph.snapshot().graph_commit_id
        run(graph, 'insert Log { text: "unrelated" }')
        before = state(graph)
        with pytest.raises(PreconditionFailed) as caught:
            run(graph, body, if_commit=old, retries=5)
        assert caught.value.details == {
            "branch": "main",
            "expected": old,
            "actual": before[0].graph_commit_id,
        }
        assert state(graph) == before

    @pytest.mark.parametrize("other", ['insert Team { code: "v" }', 'insert Log { text: "x" }'],
                             ids=["the same table", "another table"])  # fmt: skip
    def test_a_head_that_moves_before_the_locks_is_seen(self, graph, other):
        head = graph.snapshot().graph_commit_id
        moved = []
        with (
            failpoints.arm(
                "mutation.before_locks", lambda _: moved.append(run(graph, other)), times=1
            ),
            pytest.raises(PreconditionFailed) as caught,
        ):
            run(graph, 'insert Team { code: "u" }', if_commit=head, retries=5)
        (result,) = moved
        assert caught.value.details == {
            "branch": "main",
            "expected": head,
            "actual": result.commit.graph_commit_id,
        }
        assert "u" not in nodes(graph, "Team")
        assert workspace_of(graph).store.list("__recovery") == []
        assert drifted(graph) == []

    @pytest.mark.parametrize("moment", ["before_phase_a", "after_phase_b_before_phase_c"])
    def test_nobody_moves_the_head_once_the_locks_are_held(self, graph, monkeypatch, moment):
        monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
        head = graph.snapshot().graph_commit_id
        waited = []

        def intrude(_):
            # From another thread: a thread does not wait for a lock it holds itself.
            waited.append(_in_a_thread(lambda: run(graph, 'insert Log { text: "x" }')))

        with failpoints.arm(f"mutation.{moment}", intrude, times=1):
            result = run(graph, 'insert Team { code: "u" }', if_commit=head)
        assert isinstance(waited[0], Contention)
        assert result.commit.parent_commit_id == head
        assert graph.snapshot().commit == result.commit

    def test_a_head_that_moves_while_nothing_matched_is_seen(self, graph, monkeypatch):
        head = graph.snapshot().graph_commit_id
        matching = PendingTable.candidates

        def overtaken(pending, conditions, columns=None):
            found = matching(pending, conditions, columns)
            monkeypatch.undo()
            run(graph, 'insert Log { text: "x" }')
            return found

        monkeypatch.setattr(PendingTable, "candidates", overtaken)
        with pytest.raises(PreconditionFailed):
            run(graph, 'delete Team where code = "no"', if_commit=head)


def _in_a_thread(action):
    outcome = []

    def attempt():
        try:
            outcome.append(action())
        except OmniGraphError as error:
            outcome.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return outcome[0]


class TestLostRaces:
    def overtaking(self, graph, times):
        # The write inside hits the point too; only every second hit is the one to be overtaken.
        hits = []

        def overtake(_):
            hits.append(None)
            if len(hits) <= 2 * times and len(hits) % 2:
                run(graph, f'insert Team {{ code: "o{len(hits)}" }}')

        return failpoints.arm("mutation.before_locks", overtake)

    def test_a_lost_race_is_run_again(self, graph):
        with self.overtaking(graph, 1):
            result = run(graph, 'insert Team { code: "u" }')
        assert graph.snapshot().commit == result.commit
        assert sorted(nodes(graph, "Team")) == ["o1", "t", "u"]

    def test_without_retries_it_is_handed_over(self, graph):
        with self.overtaking(graph, 1), pytest.raises(ExpectedVersionMismatch) as caught:
            run(graph, 'insert Team { code: "u" }', retries=0)
        assert caught.value.details["table_key"] == "node:Team"
        assert caught.value.details["actual"] == caught.value.details["expected"] + 1
        assert sorted(nodes(graph, "Team")) == ["o1", "t"]
        assert drifted(graph) == []

    def test_the_second_attempt_holds_its_locks_before_it_looks(self, graph, monkeypatch):
        """So nobody who takes locks comes between: the other one waits."""
        seen = []
        look = mutations.prepare
        team = graph.snapshot().tables["node:Team"].location

        def looking(*given):
            held = workspace_of(graph).locks.is_mine(workspace_of(graph).lock_name(team, "main"))
            seen.append(held)
            return look(*given)

        monkeypatch.setattr(mutations, "prepare", looking)
        with self.overtaking(graph, 1):
            run(graph, 'insert Team { code: "u" }', retries=1)
        assert seen == [False, False, True]  # ours, the one that overtakes it, ours again

    def test_a_retry_validates_anew(self, graph):
        with (
            failpoints.arm(
                "mutation.before_locks",
                lambda _: run(graph, 'delete Team where code = "t"'),
                times=1,
            ),
            pytest.raises(ConstraintError, match="not found"),
        ):
            run(graph, 'insert In { from: "b", to: "t" }', retries=1)
        assert ends(graph, "In") == []

    def test_an_update_means_what_it_would_have_meant_a_moment_later(self, tmp_path):
        schema = "node Team { code: String @key  size: I32? }"
        with init(tmp_path / "u", schema) as graph:
            run(graph, 'insert Team { code: "t", size: 1 }')
            with failpoints.arm(
                "mutation.before_locks",
                lambda _: run(graph, "update Team set { size: 2 } where size = 1"),
                times=1,
            ):
                late = run(graph, "update Team set { size: 3 } where size = 1")
            assert counts(late) == (0, 0)
            assert late.commit is None
            assert nodes(graph, "Team")["t"]["size"] == 2
            with failpoints.arm(
                "mutation.before_locks",
                lambda _: run(graph, 'insert Team { code: "u", size: 2 }'),
                times=1,
            ):
                assert counts(run(graph, "delete Team where size = 2")) == (2, 0)
            assert nodes(graph, "Team") == {}

    def test_what_validation_looked_at_must_not_have_moved(self, graph):
        """Insert of an edge and delete of its end cannot both succeed, either way round."""
        with (
            failpoints.arm(
                "mutation.before_locks",
                lambda _: run(graph, 'delete Team where code = "t"'),
                times=1,
            ),
            pytest.raises(ExpectedVersionMismatch),
        ):
            run(graph, 'insert In { from: "b", to: "t" }', retries=0)
        run(graph, 'insert Team { code: "t" }')
        with (
            failpoints.arm(
                "mutation.before_locks",
                lambda _: run(graph, 'insert In { from: "b", to: "t" }'),
                times=1,
            ),
            pytest.raises(ExpectedVersionMismatch) as caught,
        ):
            run(graph, 'delete Team where code = "t"', retries=0)
        assert caught.value.details["table_key"] == "edge:In"
        assert ends(graph, "In") == [("b", "t")]

    def test_writes_to_other_tables_do_not_disturb(self, graph):
        with failpoints.arm(
            "mutation.before_locks", lambda _: run(graph, 'insert Log { text: "x" }'), times=1
        ):
            run(graph, 'insert Team { code: "u" }')
        assert len(nodes(graph, "Log")) == 1
        assert "u" in nodes(graph, "Team")


class TestSize:
    def test_a_limit_on_rows_counts_what_is_pending(self, graph, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_MUTATION_MAX_ROWS", "2")
        before = state(graph)
        with pytest.raises(ResourceLimit) as caught:
            run(
                graph, 'insert Team { code: "1" } insert Log { text: "2" } insert Log { text: "3" }'
            )
        assert caught.value.details == {"resource": "mutation_rows", "limit": 2, "actual": 3}
        assert "OMNIGRAPH_MUTATION_MAX_ROWS" in str(caught.value)
        assert state(graph) == before
        # One row put twice is one row; a delete holds no rows.
        run(graph, 'insert Team { code: "1" } insert Team { code: "1" } insert Team { code: "2" }')
        assert counts(run(graph, 'delete Team where code >= "0"')) == (3, 1)

    def test_more_text_than_arrow_can_choose_from_is_refused(self, graph, monkeypatch):
        for letter in "abc":
            run(graph, f'insert Log {{ text: "{letter * 40}" }}')
        before = state(graph)
        monkeypatch.setattr(pending, "MOST_TEXT_BYTES", 100)
        with pytest.raises(ResourceLimit, match=r"of Log\.text.*fewer rows at a time") as caught:
            run(graph, 'update Log set { text: "x" } where text != ""')
        assert caught.value.details["resource"] == "mutation_bytes"
        assert caught.value.details["actual"] > caught.value.details["limit"] == 100
        with pytest.raises(ResourceLimit, match=r"bytes of Team\."):
            run(graph, " ".join(f'insert Team {{ code: "{letter * 40}" }}' for letter in "abc"))
        assert state(graph) == before
        run(graph, f'update Log set {{ text: "x" }} where text = "{"a" * 40}"')
        assert "x" in {row["text"] for row in nodes(graph, "Log").values()}

    def test_fifty_thousand_rows_updated_and_deleted_with_their_edges(self, tmp_path):
        size = 50_000
        schema = (
            "node P { k: String @key  n: I64  u: I64? @unique(u) }\n"
            "edge E: P -> P { w: I32? }\nedge F: P -> P"
        )
        with init(tmp_path / "big", schema) as graph:
            people = {f"p{at}": {"k": f"p{at}", "n": at, "u": at} for at in range(size)}
            plain = PlainGraph(
                {"P": people},
                {
                    "E": [
                        (f"e{at}", f"p{at}", f"p{(at + 1) % size}", {"w": 1}) for at in range(size)
                    ],
                    "F": [("f", "p0", "p0", {})],
                },
            )
            fill(graph, plain)
            result = run(graph, "update P set { n: -1 } where n >= 0")
            assert counts(result) == (size, 0)
            pin = graph.snapshot().tables["node:P"]
            assert pin.row_count == size
            assert {row["n"] for row in nodes(graph, "P").values()} == {-1}
            result = run(graph, "delete P where u >= 1")
            # Every edge but the loop of p0 touches a removed node.
            assert counts(result) == (size - 1, size)
            assert list(nodes(graph, "P")) == ["p0"]
            assert (ends(graph, "E"), ends(graph, "F")) == ([], [("p0", "p0")])

    def test_a_thousand_statements(self, graph):
        body = " ".join(f'insert Person {{ name: "n{at}", age: 1 }}' for at in range(1000))
        result = run(graph, body + " update Person set { age: 2 } where age = 1")
        assert counts(result) == (2001, 0)
        assert graph.snapshot().tables["node:Person"].row_count == 1002

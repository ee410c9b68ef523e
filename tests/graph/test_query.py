"""`graph.query`, `graph.profile`: targets, isolation, parameters, threads."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.graph.caches import PlanCache
from omnigraph.lang.schema import compile_schema
from tests.graphs import graph_of

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
SOURCE = """
query ages() { match { $p: Person } return { $p.name as name, $p.age as age } order { name } }
query age($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }
query older($than: I32) { match { $p: Person $p.age > $than } return { $p } order { $p.name } }
query set($n: String, $a: I32) { update Person set { age: $a } where name = $n }
query time() { match { $p: Person } return { now() as t, $p } }
"""


graph = graph_of(
    SCHEMA,
    [
        {"type": "Person", "data": {"name": "ada", "age": 36}},
        {"type": "Person", "data": {"name": "bob"}},
        {"edge": "Knows", "from": "ada", "to": "bob"},
    ],
)


def ages(graph, **target):
    return {row["name"]: row["age"] for row in graph.query(SOURCE, "ages", **target)}


class TestArguments:
    AGE = "query age($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"
    SET = "query set($n: String, $a: I32) { update Person set { age: $a } where name = $n }"

    def test_parameters_may_stand_in_second_place(self, graph):
        assert graph.query(self.AGE, {"n": "ada"}).rows == [{"age": 36}]
        assert graph.profile(self.AGE, {"n": "ada"}).result.rows == [{"age": 36}]
        explained = graph.explain(self.AGE, {"n": "ada"})
        assert explained.steps == graph.explain(self.AGE).steps
        assert explained.order is not None
        assert graph.mutate(self.SET, {"n": "ada", "a": 1}).affected_nodes == 1
        assert graph.query(self.AGE, {"n": "ada"}).rows == [{"age": 1}]

    @pytest.mark.parametrize("method", ["query", "profile", "explain", "mutate"])
    def test_parameters_twice_are_refused(self, graph, method):
        source = self.SET if method == "mutate" else self.AGE
        with pytest.raises(og.errors.BadRequest, match="second place"):
            getattr(graph, method)(source, {"n": "ada"}, {"n": "ada"})
        with pytest.raises(og.errors.ParamError, match="nme"):
            getattr(graph, method)(source, {"nme": "ada"})
        with pytest.raises(og.errors.BadRequest, match="named by a text"):
            getattr(graph, method)(source, 7)


class TestTargets:
    def test_the_head_of_main_is_the_default(self, graph):
        result = graph.query(SOURCE, "ages")
        assert result.rows == [{"name": "ada", "age": 36}, {"name": "bob", "age": None}]
        assert result.graph_commit_id == graph.snapshot().graph_commit_id
        assert result.to_json()["target"] == {"branch": "main", "snapshot": None}

    def test_branches_commits_and_versions(self, graph):
        before = graph.snapshot()
        graph.branches.create("dev")
        graph.mutate(SOURCE, "set", {"n": "ada", "a": 1}, branch="dev")
        graph.mutate(SOURCE, "set", {"n": "ada", "a": 2})
        assert ages(graph)["ada"] == 2
        assert ages(graph, branch="dev")["ada"] == 1
        assert ages(graph, branch=" dev ")["ada"] == 1
        assert ages(graph, snapshot=before.graph_commit_id)["ada"] == 36
        assert ages(graph, version=before.manifest_version)["ada"] == 36
        assert ages(graph, branch="main", version=before.manifest_version)["ada"] == 36
        at_commit = graph.query(SOURCE, "ages", snapshot=before.graph_commit_id)
        assert at_commit.graph_commit_id == before.graph_commit_id

    @pytest.mark.parametrize(
        ("target", "error"),
        [
            ({"branch": "nowhere"}, og.errors.BranchNotFound),
            ({"snapshot": "nowhere"}, og.errors.CommitNotFound),
            ({"version": 99}, og.errors.VersionNotFound),
            ({"branch": "main", "snapshot": "x"}, og.errors.BadRequest),
            ({"branch": ""}, og.errors.BadRequest),
        ],
    )
    def test_what_is_not_there_is_refused(self, graph, target, error):
        with pytest.raises(error):
            graph.query(SOURCE, "ages", **target)

    def test_a_read_sees_what_was_just_written(self, graph):
        for age in range(5):
            graph.mutate(SOURCE, "set", {"n": "bob", "a": age})
            assert ages(graph) == {"ada": 36, "bob": age}

    def test_another_handle_sees_it_too(self, graph):
        with og.open(graph.uri, mode="r") as reader:
            assert ages(reader)["bob"] is None
            graph.mutate(SOURCE, "set", {"n": "bob", "a": 7})
            assert ages(reader)["bob"] == 7

    def test_a_branch_made_again_under_its_name_is_another_one(self, graph):
        for age in (1, 2):
            graph.branches.create("dev")
            graph.mutate(SOURCE, "set", {"n": "ada", "a": age}, branch="dev")
            assert ages(graph, branch="dev")["ada"] == age
            graph.branches.delete("dev")


class TestSources:
    def test_a_file(self, graph, tmp_path):
        path = Path(tmp_path / "q.gq")
        path.write_text(SOURCE, "utf-8")
        assert graph.query(path, "age", {"n": "ada"}).rows == [{"age": 36}]

    def test_the_only_query_needs_no_name(self, graph):
        result = graph.query("query n() { match { $p: Person } return { count($p) as n } }")
        assert result.rows == [{"n": 2}]
        assert result.query_name == "n"

    def test_a_mutation_is_refused_and_named(self, graph):
        with pytest.raises(og.errors.BadRequest, match=r"`set`.*`mutate`"):
            graph.query(SOURCE, "set", {"n": "ada", "a": 1})
        with pytest.raises(og.errors.BadRequest, match="`query`"):
            graph.mutate(SOURCE, "ages")
        assert ages(graph)["ada"] == 36

    def test_faults_name_their_own_file(self, graph, tmp_path):
        text = "query q() { match { $p: Persn } return { $p } }"
        for name in ("one.gq", "two.gq"):
            path = tmp_path / name
            path.write_text(text, "utf-8")
            with pytest.raises(og.errors.TypeCheckError) as caught:
                graph.query(path)
            assert name in caught.value.render()

    @pytest.mark.parametrize(
        "params", [{"than": "x"}, {}, None, {"than": None}, {"then": 1}, [1], {"than": 1, "b": 2}]
    )
    def test_parameters_must_fit(self, graph, params):
        with pytest.raises(og.errors.ParamError):
            graph.query(SOURCE, "older", params)

    def test_now_is_one_instant(self, graph):
        times = {row["t"] for row in graph.query(SOURCE, "time")}
        assert len(times) == 1

    def test_a_closed_handle_is_refused(self, graph):
        graph.query(SOURCE, "ages")
        graph.close()
        for call in (graph.query, graph.explain, graph.profile):
            with pytest.raises(og.errors.BadRequest, match="closed"):
                call(SOURCE, "ages")


class TestProfile:
    def test_the_result_and_its_phases(self, graph):
        profiled = graph.profile(SOURCE, "older", {"than": 20})
        assert profiled.result.rows == [{"p": "ada"}]
        phases = {phase.name: phase for phase in profiled.steps}
        assert list(phases) == ["snapshot", "plan", "run"]
        assert phases["run"].rows == 1
        assert phases["run"].phases
        heading = profiled.text.splitlines()[0].split()
        assert heading == ["phase", "estimated", "rows", "ms", "bytes"]
        document = profiled.to_json()
        assert document["result"]["row_count"] == 1
        assert [step["name"] for step in document["steps"]] == list(phases)


class TestThreads:
    def test_queries_of_one_handle_run_at_once(self, graph):
        before = graph.snapshot().graph_commit_id
        graph.mutate(SOURCE, "set", {"n": "ada", "a": 50})

        def ask(number):
            then = graph.query(SOURCE, "age", {"n": "ada"}, snapshot=before).rows
            older = graph.query(SOURCE, "older", {"than": number}).rows
            return then, older

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(40, 60)))
        for number, (then, older) in zip(range(40, 60), answers, strict=True):
            assert then == [{"age": 36}]
            assert older == ([{"p": "ada"}] if number < 50 else [])

    def test_a_read_beside_a_writer_sees_one_commit(self, graph):
        both = """
        query both($a: I32) {
          update Person set { age: $a } where name = "ada"
          update Person set { age: $a } where name = "bob"
        }
        """
        graph.mutate(both, params={"a": 0})

        def write():
            for age in range(1, 6):
                graph.mutate(both, params={"a": age})

        with ThreadPoolExecutor(3) as pool:
            writing = pool.submit(write)
            while not writing.done():
                seen = ages(graph)
                assert seen["ada"] == seen["bob"]
            writing.result()
        assert ages(graph) == {"ada": 5, "bob": 5}


class TestPlans:
    CATALOG = compile_schema(SCHEMA).catalog

    def test_a_plan_is_made_once_per_schema(self):
        known = PlanCache()
        first = known.read(self.CATALOG, SOURCE, "ages", None)
        assert known.read(self.CATALOG, SOURCE, "ages", "q.gq") is first
        other = compile_schema(SCHEMA).catalog
        assert known.read(other, SOURCE, "ages", None) is not first

    def test_kinds_are_told_apart(self):
        known = PlanCache()
        known.read(self.CATALOG, SOURCE, "ages", None)
        with pytest.raises(og.errors.BadRequest):
            known.mutation(self.CATALOG, SOURCE, "ages", None)
        known.mutation(self.CATALOG, SOURCE, "set", None)
        with pytest.raises(og.errors.BadRequest):
            known.read(self.CATALOG, SOURCE, "set", None)

    def test_only_the_newest_are_kept(self):
        known = PlanCache(max_plans=2)
        first = known.read(self.CATALOG, SOURCE, "ages", None)
        older = known.read(self.CATALOG, SOURCE, "older", None)
        assert known.read(self.CATALOG, SOURCE, "ages", None) is first
        known.read(self.CATALOG, SOURCE, "time", None)
        assert known.read(self.CATALOG, SOURCE, "ages", None) is first
        assert known.read(self.CATALOG, SOURCE, "older", None) is not older

    def test_long_texts_take_the_room_of_many(self):
        known = PlanCache(max_text=3 * len(SOURCE))
        # A plan made again for another schema takes the room of the one before.
        known.read(compile_schema(SCHEMA).catalog, SOURCE, "ages", None)
        first = known.read(self.CATALOG, SOURCE, "ages", None)
        padded = SOURCE + " " * len(SOURCE)
        second = known.read(self.CATALOG, padded, "ages", None)
        assert known.read(self.CATALOG, SOURCE, "ages", None) is first
        assert known.read(self.CATALOG, padded, "ages", None) is second
        known.read(self.CATALOG, SOURCE, "older", None)
        assert known.read(self.CATALOG, padded, "ages", None) is second
        assert known.read(self.CATALOG, SOURCE, "ages", None) is not first
        too_long = SOURCE + " " * 3 * len(SOURCE)
        third = known.read(self.CATALOG, too_long, "ages", None)
        assert known.read(self.CATALOG, too_long, "ages", None) is not third

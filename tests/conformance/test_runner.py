"""The runner itself: a case that is not met, or not understood, must fail."""

from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ProviderError
from omnigraph.lang.query import compile_query
from omnigraph.lang.schema import compile_schema
from tests.conformance.case_files import BUNDLED, DIRECTORY_VARIABLE, Case, all_cases
from tests.conformance.executors import agree
from tests.conformance.expectations import matches, same_value
from tests.conformance.query_cases import run_query_case
from tests.conformance.schema_cases import run_schema_case

FIXTURES = {
    "pair": {
        "schema": "node Item { name: String @key  n: F64? }",
        "data": '{"type":"Item","data":{"name":"a","n":0.5}}\n{"type":"Item","data":{"name":"b"}}',
    },
    "notes": {
        "schema": 'node Note { text: String @key  vec: Vector(2) @embed("text") }',
        "data": '{"type":"Note","data":{"text":"x","vec":[1,0]}}',
    },
}
READ = "query q() { match { $i: Item } return { $i.name as name } order { $i.name desc } }"
WRITE = 'query q() { insert Item { name: "c" } }'
BAD_WRITE = "query q() { insert Item { n: 1.0 } }"
Failed = pytest.fail.Exception


def query(source, expect, fixture="pair", **more):
    body = {"id": "c", "fixture": fixture, "query": source, "name": "q", "expect": expect, **more}
    run_query_case(Case("query", "query", "c", body, FIXTURES))


def schema(kind, expect, **more):
    body = {"id": "c", "kind": kind, "expect": expect, **more}
    run_schema_case(Case("schema", "schema", "c", body, {}))


def rows(*names, **more):
    return {"rows": [{"name": name} for name in names], **more}


class TestQueryCases:
    def test_rows_that_are_met(self):
        query(READ, rows("a", "b", ordered=False))
        query(READ, rows("b", "a", ordered=True))

    @pytest.mark.parametrize(
        "expect",
        [
            rows("a", "b", ordered=True),
            rows("a", ordered=False),
            rows("a", "b", "b", ordered=False),
            rows("a", "c", ordered=False),
            {"rows": [{}, {}], "ordered": False},
            {"error_contains": ["parse"]},
        ],
    )
    def test_rows_that_are_not_met(self, expect):
        with pytest.raises(Failed):
            query(READ, expect)

    def test_multiplicity_counts(self):
        twice = READ.replace("$i: Item }", "$i: Item  $j: Item }")
        query(twice, rows("a", "a", "b", "b", ordered=False))
        with pytest.raises(Failed):
            query(twice, rows("a", "b", "b", "b", ordered=False))

    def test_errors_by_keyword(self):
        query(READ.replace("Item", "Thing"), {"error_contains": ["t1", "THING"]})
        with pytest.raises(Failed, match="T2"):
            query(READ.replace("Item", "Thing"), {"error_contains": ["T2"]})

    def test_unknown_keys_fail(self):
        with pytest.raises(Failed, match="warnings"):
            query(READ, {**rows("b", "a"), "warnings": 0})
        with pytest.raises(Failed, match="setup"):
            query(READ, rows("b", "a"), setup=[])
        with pytest.raises(Failed, match="commit"):
            query(WRITE, {"affected": {"nodes": 1, "edges": 0}, "commit": None})
        follow_up = {"query": READ, "name": "q", "params": {}, "expect": {"nope": 1}}
        with pytest.raises(Failed, match="nope"):
            query(WRITE, {"affected": {"nodes": 1, "edges": 0}, "then": [follow_up]})

    def test_an_empty_expectation_fails(self):
        with pytest.raises(AssertionError):
            query(READ, {})

    def test_follow_ups_are_judged(self):
        follow_up = {"query": READ, "name": "q", "params": {}, "expect": rows("a")}
        with pytest.raises(Failed, match="rows differ"):
            query(BAD_WRITE, {"error_contains": ["T12"], "then": [follow_up]})

    def test_mutations_are_run_and_judged(self):
        query(BAD_WRITE, {"error_contains": ["T12", "name"]})
        query(WRITE, {"affected": {"nodes": 1, "edges": 0}})
        with pytest.raises(Failed, match="expected an error"):
            query(WRITE, {"error_contains": ["T12"]})
        with pytest.raises(AssertionError):
            query(WRITE, {"affected": {"nodes": 2, "edges": 0}})

    def test_environment_is_set_and_unset(self, monkeypatch):
        near = (
            'query q() { match { $n: Note } return { $n } order { nearest($n.vec, "x") } limit 1 }'
        )
        expect = {"rows": [{"n": "x"}], "ordered": True}
        query(near, expect, "notes", env={"OMNIGRAPH_EMBEDDINGS_MOCK": "1"})
        monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
        query(near, expect, "notes")
        with pytest.raises(ProviderError):
            query(near, expect, "notes", env={"OMNIGRAPH_EMBEDDINGS_MOCK": ""})
        query(near, expect, "notes")


class TestAgreement:
    """The oracle judges every read beside the case."""

    CATALOG = compile_schema(FIXTURES["pair"]["schema"]).catalog
    GOOD = ({"name": "b"}, {"name": "a"})

    def agree(self, source, got):
        agree(compile_query(self.CATALOG, source), list(got), list(self.GOOD))

    def test_an_ordered_answer_must_be_in_that_order(self):
        self.agree(READ, self.GOOD)
        with pytest.raises(Failed):
            self.agree(READ, self.GOOD[::-1])

    def test_any_order_will_do_where_none_is_asked_for(self):
        unordered = READ.replace("order { $i.name desc }", "")
        self.agree(unordered, self.GOOD[::-1])
        for wrong in (self.GOOD[:1], [*self.GOOD, {"name": "a"}], [{"name": "b"}, {"name": "c"}]):
            with pytest.raises(Failed):
                self.agree(unordered, wrong)

    def test_a_limit_without_order_fixes_the_number(self):
        limited = READ.replace("order { $i.name desc }", "limit 2")
        self.agree(limited, [{"name": "c"}, {"name": "d"}])
        with pytest.raises(AssertionError):
            self.agree(limited, self.GOOD[:1])

    def test_only_an_index_that_lacks_rows_excuses_another_order_by_words(self):
        source = 'query q() { match { $i: Item } return { $i.name as name } order { bm25($i.name, "a") } }'
        plan = compile_query(self.CATALOG, source)
        good, swapped = list(self.GOOD), list(self.GOOD[::-1])
        agree(plan, swapped, good, is_degraded=True)
        for wrong, is_degraded in ((swapped, False), (good[:1], True)):
            with pytest.raises(Failed):
                agree(plan, wrong, good, is_degraded=is_degraded)

    def test_an_engine_that_answers_otherwise_fails_the_case(self, monkeypatch):
        answer = omnigraph.Graph.query

        def wrong(graph, *given):
            result = answer(graph, *given)
            return replace(result, table=result.table.slice(1))

        monkeypatch.setattr(omnigraph.Graph, "query", wrong)
        with pytest.raises(Failed, match="rows differ"):
            query(READ, rows("a", ordered=True))


class TestSchemaCases:
    PORT = "node Port { code: String @key  depth: F64? }"

    @pytest.mark.parametrize(
        "expect",
        [
            {"counts": {"nodes": 1, "edges": 0, "interfaces": 0}},
            {"nodes": {"Port": {"properties": {"code": "String", "depth": "F64?"}}}},
            {"nodes": {"Port": {"arrow": {"id": "utf8 not null", "depth": "float64"}}}},
            {"nodes": {"Port": {"key": ["code"], "index": [["code"]], "unique": []}}},
            {"ids": {"node:Port": 1, "node:Port.code": 2}, "next_identity_id": 5},
            {"same_shape_as": "node Port { depth: F64?  code: String  @key(code) }"},
            {"diagnostics": 0},
        ],
    )
    def test_descriptions_that_are_met(self, expect):
        schema("parse_ok", expect, schema=self.PORT)

    @pytest.mark.parametrize(
        "expect",
        [
            {"counts": {"nodes": 2}},
            {"nodes": {"Pier": {}}},
            {"nodes": {"Port": {"properties": {"code": "String"}}}},
            {"nodes": {"Port": {"arrow": {"depth": "float32"}}}},
            {"nodes": {"Port": {"arrow": {"width": "float64"}}}},
            {"nodes": {"Port": {"key": None}}},
            {"nodes": {"Port": {"annotations": {"owner": "x"}}}},
            {"ids": {"node:Port": 2}},
            {"ids": {"edge:Port": 1}},
            {"next_identity_id": 4},
            {"same_shape_as": "node Port { code: String @key }"},
            {"diagnostics": 1},
            {"edge_lookup": {"port": "Port"}},
        ],
    )
    def test_descriptions_that_are_not_met(self, expect):
        with pytest.raises(AssertionError):
            schema("parse_ok", expect, schema=self.PORT)

    def test_unknown_keys_fail(self):
        for expect in ({"colour": 1}, {"rows": {}}, {"nodes": {"Port": {"colour": 1}}}):
            with pytest.raises(Failed, match="knows no key"):
                schema("parse_ok", expect, schema=self.PORT)
        with pytest.raises(Failed, match="kind"):
            schema("inspect", {}, schema=self.PORT)

    def test_errors(self):
        bad = "node Port { code: Int }"
        schema("parse_error", {"error_kind": "parse", "has_span": True}, schema=bad)
        for expect in ({"error_kind": "catalog"}, {"has_span": False}, {"error_contains": ["zz"]}):
            with pytest.raises((Failed, AssertionError)):
                schema("parse_error", expect, schema=bad)
        with pytest.raises(Failed, match="accepted"):
            schema("parse_error", {"error_kind": "parse"}, schema=self.PORT)

    def test_plans(self):
        sources = {"schema": self.PORT, "new_schema": self.PORT + " node Pier { no: I32 @key }"}
        step = {"kind": "add_type", "name": "Pier"}
        schema("plan", {"supported": True, "steps": [step], "steps_exact": True}, **sources)
        schema("plan", {"steps": []}, **sources)
        for expect in (
            {"supported": False},
            {"steps": [{**step, "name": "Port"}]},
            {"steps": [step, step]},
            {"steps": [], "steps_exact": True},
            {"error_kind": "identity"},
        ):
            with pytest.raises((Failed, AssertionError)):
                schema("plan", expect, **sources)

    def test_the_static_part_of_an_apply_is_checked(self):
        with pytest.raises(AssertionError):
            schema("apply", {"supported": False}, schema=self.PORT, new_schema=self.PORT)
        schema("apply", {"supported": True}, schema=self.PORT, new_schema=self.PORT)

    def test_what_an_apply_does_is_compared(self):
        data = '{"type":"Port","data":{"code":"a","depth":2}}'
        wider = self.PORT.replace("depth", "lamp: String?  depth")
        sources = {"schema": self.PORT, "new_schema": wider, "data": data}
        good = {
            "applied": True,
            "graph_version": "advanced",
            "table_version": {"node:Port": "advanced"},
            "location": {"node:Port": "same"},
            "identity": {"node:Port.depth": "same", "node:Port.lamp": "new"},
            "columns": {"node:Port": {"has": ["lamp"]}},
            "tables": {"present": ["node:Port"], "absent": ["node:Pier"]},
            "prior_snapshot": {"node:Port": {"openable": True, "has": ["depth"]}},
        }
        schema("apply", good, **sources)
        for wrong in (
            {"applied": False},
            {"graph_version": "same"},
            {"table_version": {"node:Port": "same"}},
            {"location": {"node:Port": "new"}},
            {"identity": {"node:Port.depth": "new"}},
            {"columns": {"node:Port": {"lacks": ["lamp"]}}},
            {"tables": {"absent": ["node:Port"]}},
            {"prior_snapshot": {"node:Port": {"openable": False}}},
            {"error_kind": "conflict"},
        ):
            with pytest.raises((Failed, AssertionError)):
                schema("apply", wrong, **sources)
        schema("apply", good, **sources, branches=["other"])

    def test_data_is_loaded_and_compared(self):
        data = '{"type":"Port","data":{"code":"a","depth":2}}'
        good = {"rows": {"node:Port": 1}, "values": {"node:Port": {"a": {"depth": 2.0}}}}
        schema("apply", good, schema=self.PORT, data=data)
        for wrong in (
            {"rows": {"node:Port": 2}},
            {"row_ids": {"node:Port": ["b"]}},
            {"values": {"node:Port": {"a": {"depth": 3.0}}}},
            {"load_error_kind": "input"},
        ):
            with pytest.raises(AssertionError):
                schema("apply", wrong, schema=self.PORT, data=data)

    def test_what_follows_a_load_is_run_and_judged(self):
        data = '{"type":"Port","data":{"code":"a","depth":2}}'
        deeper = 'query q($d: F64) { update Port set { depth: $d } where code = "a" }'
        step = {"mutate": deeper, "params": {"d": 3.5}, "ok": True}
        good = {"then": [step], "values": {"node:Port": {"a": {"depth": 3.5}}}}
        schema("apply", good, schema=self.PORT, data=data)
        bad = {**step, "ok": None, "error_kind": "param"}
        for wrong in ({"then": [bad]}, {**good, "then": []}):
            with pytest.raises(AssertionError):
                schema("apply", wrong, schema=self.PORT, data=data)
        with pytest.raises(Failed, match="colour"):
            schema("apply", {"then": [{**step, "colour": 1}]}, schema=self.PORT, data=data)

    def test_blobs_are_written_from_files_and_texts(self):
        plates = "node Plate { tag: String @key  scan: Blob? }"
        data = '{"type":"Plate","data":{"tag":"p","scan":{"$file":"${files.hull}"}}}'
        where = {"kind": "node", "type": "Plate", "id": "p", "property": "scan"}
        step = {"blob_write": {**where, "text": "bow"}, "ok": True}

        def run(**expect):
            schema("apply", expect, schema=plates, data=data, files={"hull": "keel"})

        run(values={"node:Plate": {"p": {"scan": "base64:a2VlbA=="}}})
        run(then=[step], values={"node:Plate": {"p": {"scan": "base64:Ym93"}}})
        clear = {"blob_write": {**where, "text": None}, "ok": True}
        run(then=[clear], values={"node:Plate": {"p": {"scan": None}}})
        with pytest.raises(AssertionError):
            run(then=[step], values={"node:Plate": {"p": {"scan": "base64:a2VlbA=="}}})

    def test_vectors_are_compared_with_those_of_a_text(self):
        notes = "node Note { slug: String @key  body: String  vec: Vector(4)? @embed(body) }"
        data = '{"type":"Note","data":{"slug":"n","body":"tide"}}'
        good = {"embedded": {"node:Note": {"n": {"vec": "tide"}}}, "embeddings_pending": 0}
        schema("apply", good, schema=notes, data=data)
        schema("apply", {"embeddings_pending": 1}, schema=notes, data=data, provider="none")
        for wrong in (
            {"embedded": {"node:Note": {"n": {"vec": "ebb"}}}},
            {"embeddings_pending": 1},
        ):
            with pytest.raises(AssertionError):
                schema("apply", wrong, schema=notes, data=data)


class TestCaseFiles:
    @pytest.fixture
    def directory(self, tmp_path: Path, monkeypatch):
        monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
        return tmp_path

    def test_bundled_files(self):
        kinds = {case.file: set[str | None]() for case in all_cases()}
        for case in all_cases():
            kinds[case.file].add(case.kind)
        assert kinds == {
            "schema": {"schema"},
            "query": {"query"},
            "query-ext": {"query", "schema"},
            "algorithms": {"algorithms"},
            "versioning": {"versioning"},
            "schema-branches": {"versioning"},
            "memory": {"versioning", "schema"},
            "surfaces": {"surfaces"},
        }
        assert kinds.keys() == {path.stem for path in BUNDLED.glob("*.yaml")}
        assert not [case for case in all_cases() if case.fault]

    def test_another_directory(self, directory):
        (directory / "extra.yaml").write_text("- {id: one, kind: parse_ok, schema: '', expect: {}}")
        (directory / "more.yaml").write_text(
            "fixtures: {f: {schema: '', data: ''}}\ncases: [{id: two, day: 2024-01-01}]"
        )
        found = [(str(case), case.kind) for case in all_cases()]
        assert found == [("extra/one", "schema"), ("more/two", "query")]
        assert all_cases()[1].body["day"] == "2024-01-01"

    @pytest.mark.parametrize("text", ["a: [", "just words", "cases: []", "[]", "cases: [{id: x}]"])
    def test_a_file_that_cannot_be_used_is_a_failing_case(self, directory, text):
        (directory / "odd.yaml").write_text(text)
        (case,) = all_cases()
        assert case.fault is not None

    def test_a_repeated_id_is_a_failing_case(self, directory):
        (directory / "twice.yaml").write_text("[{id: a}, {id: a}, {id: b}]")
        assert [case.fault is not None for case in all_cases()] == [True, True, False]

    def test_an_empty_directory_is_a_failing_case(self, directory):
        (case,) = all_cases()
        assert case.fault is not None


@pytest.mark.parametrize(
    ("got", "want", "same"),
    [
        (1, 1.0000001, True),
        (1.0, 1.00001, False),
        (9007199254740993, 9007199254740992, False),
        (True, 1, False),
        ("1", 1, False),
        (None, 0, False),
        ([1, None], [1, None], True),
        ({"a": 1}, {"a": 1, "b": None}, False),
    ],
)
def test_same_value(got, want, same):
    assert same_value(got, want) is same


def test_partial_match_reaches_into_objects():
    step = {"kind": "add_constraint", "constraint": {"kind": "index", "properties": ["a"]}}
    assert matches(step, {"constraint": {"properties": ["a"]}})
    assert not matches(step, {"constraint": {"properties": []}})
    assert not matches(step, {"mode": "soft"})

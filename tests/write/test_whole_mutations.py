"""Mutations of many rows: `for`, `match`, `upsert`, mixed statements, expressions, conditions and `return`."""

from __future__ import annotations

import pytest

from omnigraph import failpoints
from omnigraph.clock import new_ulid
from omnigraph.errors import ConstraintError, OmniGraphError, ParamError, TypeCheckError
from tests.graphs import graph_of
from tests.stored import read_back
from tests.write.writing import counts, ends, nodes, run, state

SCHEMA = """
node Person { name: String @key  age: I32?  visits: I64?  score: F64?  small: F32?  note: String?  tags: [String]?
              born: Date?  mail: String? @unique }
node Task { title: String  done: Bool? }
node Slot { lane: String  bay: I32  note: String?  @key(lane, bay) }
node Must { code: String @key  size: I32  label: String }
node Plate { tag: String @key  scan: Blob?  caption: String? }
node Fitted { code: String @key  size: I32 @default(7)  tags: [String]? @default(["new"])  note: String? }
edge Knows: Person -> Person { weight: I64?  since: Date? }
edge Follows: Person -> Person { weight: I64? }
edge Has: Person -> Task { rank: I32? }
edge Twin: Person -> Person { w: I64?  @unique(src, dst) }
edge Cites: Person -> Person { year: I32?  page: I32?  @unique(src, dst, year) }
"""

graph = graph_of(SCHEMA)


@pytest.fixture
def people(graph):
    """ann (40) knows ben (30) twice and cat once; ben knows cat; dan has no age."""
    rows = (("ann", 40), ("ben", 30), ("cat", 20))
    inserts = " ".join(f'insert Person {{ name: "{name}", age: {age} }}' for name, age in rows)
    run(
        graph,
        f'{inserts} insert Person {{ name: "dan" }} '
        'insert Knows { from: "ann", to: "ben", weight: 5 } '
        'insert Knows { from: "ann", to: "ben", weight: 7 } '
        'insert Knows { from: "ann", to: "cat" } insert Knows { from: "ben", to: "cat", weight: 1 }',
    )
    return graph


def edges(graph, type_name):
    found = read_back(graph).edges[type_name]
    return sorted((src, dst, props.get("weight")) for _, src, dst, props in found)


def ages(graph):
    return {name: row.get("age") for name, row in nodes(graph, "Person").items()}


class TestMixed:
    def test_deletes_and_writes_of_one_table_are_one_commit(self, people):
        before = people.snapshot()
        result = run(people, 'delete Person where name = "dan" insert Person { name: "eve" }')
        assert counts(result) == (2, 0)
        assert sorted(nodes(people, "Person")) == ["ann", "ben", "cat", "eve"]
        assert result.commit.parent_commit_id == before.graph_commit_id
        moved = people.snapshot().tables["node:Person"].table_version
        assert moved == before.tables["node:Person"].table_version + 2

    def test_a_delete_sees_what_was_changed_before(self, people):
        result = run(people, 'update Person set { age: 70 } where name = "cat" '
                             "delete Person where age > 65")  # fmt: skip
        assert counts(result) == (2, 2)
        assert "cat" not in nodes(people, "Person")
        assert ends(people, "Knows") == [("ann", "ben"), ("ann", "ben")]

    def test_what_is_inserted_and_deleted_leaves_nothing(self, people):
        before = state(people)
        result = run(people, 'insert Person { name: "eve" } delete Person where name = "eve"')
        assert counts(result) == (2, 0)
        assert result.commit is None
        assert state(people) == before

    def test_an_edge_to_a_new_node_goes_with_it(self, people):
        result = run(people, 'insert Person { name: "eve" } insert Knows { from: "ann", to: "eve" } '
                             'delete Person where name = "eve"')  # fmt: skip
        assert counts(result) == (2, 2)
        assert result.commit is None

    def test_a_deleted_node_that_is_inserted_again_has_no_edges(self, people):
        run(people, 'delete Person where name = "ann" insert Person { name: "ann", note: "new" }')
        assert nodes(people, "Person")["ann"] == {"name": "ann", "note": "new"}
        assert ends(people, "Knows") == [("ben", "cat")]

    def test_an_upsert_of_what_was_deleted_keeps_nothing(self, people):
        run(people, 'delete Person where name = "ann" upsert Person { name: "ann" }')
        assert nodes(people, "Person")["ann"] == {"name": "ann"}

    def test_a_value_that_a_delete_frees_may_be_used(self, people):
        run(people, 'update Person set { mail: "m" } where name = "ann"')
        run(people, 'delete Person where name = "ann" insert Person { name: "eve", mail: "m" }')
        assert nodes(people, "Person")["eve"]["mail"] == "m"

    def test_an_edge_to_a_deleted_node_is_refused(self, people):
        before = state(people)
        with pytest.raises(ConstraintError, match="not found") as caught:
            run(people, 'delete Person where name = "dan" insert Knows { from: "ann", to: "dan" }')
        assert "dan" in str(caught.value)
        assert state(people) == before

    def test_an_edge_with_a_tuple_of_its_own_keeps_its_id_over_a_delete(self, people):
        run(people, 'insert Twin { from: "ann", to: "ben", w: 1 }')
        ((before, *_),) = read_back(people).edges["Twin"]
        run(people, 'delete Twin where from = "ann" insert Twin { from: "ann", to: "ben", w: 2 }')
        ((after, *_, props),) = read_back(people).edges["Twin"]
        assert (after, props["w"]) == (before, 2)

    def test_on_a_branch_that_has_no_tables_of_its_own_yet(self, people):
        people.branches.create("side")
        run(people, 'delete Person where name = "dan" upsert Person { name: "ann", note: "x" }',
            branch="side")  # fmt: skip
        assert nodes(people, "Person", "side")["ann"]["note"] == "x"
        assert "dan" not in nodes(people, "Person", "side")
        assert "dan" in nodes(people, "Person")


class TestUpsert:
    def test_a_node_keeps_what_is_not_assigned(self, people):
        assert counts(run(people, 'upsert Person { name: "ann", note: "x" }')) == (1, 0)
        assert nodes(people, "Person")["ann"] == {"name": "ann", "age": 40, "note": "x"}
        assert len(ends(people, "Knows")) == 4

    def test_a_composite_key(self, graph):
        run(graph, 'upsert Slot { lane: "x", bay: 1, note: "a" } upsert Slot { lane: "x", bay: 1 }')
        assert list(nodes(graph, "Slot").values()) == [{"lane": "x", "bay": 1, "note": "a"}]

    def test_an_old_value_is_null_where_there_is_none(self, people):
        text = "upsert Person { name: $n, visits: coalesce(visits, 10) + 1 }"
        for name in ("ann", "eve", "eve"):
            run(people, text, "$n: String", {"n": name})
        found = nodes(people, "Person")
        assert (found["ann"]["visits"], found["eve"]["visits"]) == (11, 12)

    def test_an_edge_is_found_by_its_ends(self, people):
        run(people, 'upsert Knows { from: "ben", to: "cat", weight: weight + 1 } '
                    'upsert Knows { from: "cat", to: "dan", weight: 3 }')  # fmt: skip
        assert edges(people, "Knows")[-2:] == [("ben", "cat", 2), ("cat", "dan", 3)]

    def test_parallel_edges_are_refused(self, people):
        before = state(people)
        with pytest.raises(ConstraintError) as caught:
            run(people, 'upsert Knows { from: "ann", to: "ben", weight: 9 }')
        assert caught.value.details["violation"] == "ambiguous"
        for word in ("ambiguous", "Knows", "ann", "ben"):
            assert word in str(caught.value)
        assert state(people) == before

    def test_parallel_edges_of_the_same_mutation_are_refused_too(self, people):
        with pytest.raises(ConstraintError, match="ambiguous"):
            run(people, 'insert Follows { from: "ann", to: "ben" } '
                        'insert Follows { from: "ann", to: "ben" } '
                        'upsert Follows { from: "ann", to: "ben", weight: 1 }')  # fmt: skip

    def test_a_unique_tuple_tells_parallel_edges_apart(self, people):
        run(people, 'insert Cites { from: "ann", to: "ben", year: 1, page: 1 } '
                    'insert Cites { from: "ann", to: "ben", year: 2, page: 2 }')  # fmt: skip
        run(people, 'upsert Cites { from: "ann", to: "ben", year: 2, page: 9 } '
                    'upsert Cites { from: "ann", to: "ben", year: 3 }')  # fmt: skip
        found = read_back(people).edges["Cites"]
        assert sorted((one[3]["year"], one[3].get("page")) for one in found) == [
            (1, 1), (2, 9), (3, None),
        ]  # fmt: skip

    def test_defaults_are_for_what_is_new(self, graph):
        run(graph, 'upsert Fitted { code: "a", note: "x" } insert Fitted { code: "b", size: 1 }')
        run(
            graph,
            'upsert Fitted { code: "b", tags: null } upsert Fitted { code: "c", size: coalesce(size, 0) + 1 }',
        )
        run(graph, 'upsert Fitted { code: "b", note: "y" }')
        assert nodes(graph, "Fitted") == {
            "a": {"code": "a", "size": 7, "tags": ["new"], "note": "x"},
            "b": {"code": "b", "size": 1, "note": "y"},
            "c": {"code": "c", "size": 1, "tags": ["new"]},
        }

    def test_without_a_key_it_is_refused(self, graph):
        with pytest.raises(TypeCheckError, match="T36"):
            run(graph, 'upsert Task { title: "x" }')


class TestValues:
    @pytest.mark.parametrize(
        ("value", "violation"),
        [
            ("visits: visits + 1", "overflow"),
            ("visits: abs(visits) * 2", "overflow"),
            ("age: visits", "overflow"),
            ("age: age % 0", "zero"),
            ("score: age / 0", "zero"),
            ("score: 1.0 + age / (age - 40)", "zero"),
            ("small: score", "overflow"),
            ("score: score * 10.0", "overflow"),
            ('born: shift(born, 99999, "year")', "overflow"),
            ("visits: if(age > 30, visits + 1, 0)", "overflow"),
        ],
    )
    def test_what_has_no_value_is_not_stored(self, people, value, violation):
        run(
            people,
            "update Person set { visits: 9223372036854775807, score: $big, "
            'born: date("2000-01-01") } where name = "ann"',
            "$big: F64",
            {"big": 1e308},
        )
        before = state(people)
        with pytest.raises(ConstraintError, match=violation) as caught:
            run(people, f'update Person set {{ {value} }} where name = "ann"')
        assert caught.value.details["violation"] == violation
        assert caught.value.details["property"] == value.partition(":")[0]
        assert state(people) == before

    def test_a_null_that_was_there_stays_null(self, people):
        run(people, 'update Person set { visits: visits + 1, score: age / 4 } where name = "ann"')
        assert nodes(people, "Person")["ann"] == {"name": "ann", "age": 40, "score": 10.0}

    @pytest.mark.parametrize("value", ["coalesce(age / 0, -1.0)", "if(age = 0, 1 / age, -1.0)"])
    def test_an_operation_without_a_value_that_is_not_stored_is_no_error(self, people, value):
        run(people, f'update Person set {{ score: {value} }} where name = "ann"')
        assert nodes(people, "Person")["ann"]["score"] == -1.0

    def test_null_clears_and_never_enters_a_required_property(self, people):
        run(people, 'update Person set { age: null } where name = "ann"')
        assert nodes(people, "Person")["ann"] == {"name": "ann"}
        run(people, 'insert Must { code: "m", size: 1, label: "l" }')
        for text in (
            'update Must set { size: null } where code = "m"',
            'match { $p: Person { name: "dan" } } update Must set { size: $p.age } where code = "m"',
            'match { $p: Person { name: "dan" } } insert Must { code: "n", size: $p.age, label: "" }',
            'match { $p: Person { name: "dan" } } upsert Must { code: "m", size: 1, label: $p.note }',
        ):
            with pytest.raises(ConstraintError, match="null") as caught:
                run(people, text)
            assert caught.value.details["violation"] == "null"
        assert nodes(people, "Must") == {"m": {"code": "m", "size": 1, "label": "l"}}

    def test_a_null_end_is_refused(self, people):
        with pytest.raises(ConstraintError, match=r"Follows\.to"):
            run(people, 'match { $p: Person { name: "dan" } optional { $p knows $q } } '
                        "insert Follows { from: $p, to: $q }")  # fmt: skip

    def test_wide_results_fit_narrow_properties_in_range(self, people):
        run(people, 'update Person set { age: age * 2 - 1, small: age / 8 } where name = "ann"')
        assert nodes(people, "Person")["ann"] == {"name": "ann", "age": 79, "small": 5.0}

    def test_lists_texts_and_dates(self, people):
        run(people, 'update Person set { tags: ["a", "b"], born: date("2000-01-31") } '
                    'where name = "ann"')  # fmt: skip
        run(people, 'match { $p: Person { name: "ann" } } '
                    'upsert Person { name: "ben", tags: $p.tags, born: shift($p.born, 1, "month"), '
                    'note: upper($p.name) + "!" }')  # fmt: skip
        found = nodes(people, "Person")["ben"]
        assert (found["tags"], found["note"]) == (["a", "b"], "ANN!")
        (row,) = people.query('match { $p: Person { name: "ben" } } return { $p.born as b }').rows
        assert row["b"] == "2000-02-29"


class TestWhere:
    @pytest.mark.parametrize(
        ("where", "found"),
        [
            ("age is null or age > 30", ["ann", "dan"]),
            ("not age > 30", ["ben", "cat", "dan"]),
            ('name in ["ann", "cat", "zed"] and age < 40', ["cat"]),
            ('name starts_with "b" or name ends_with "t"', ["ben", "cat"]),
            ("age % 20 = 0", ["ann", "cat"]),
            ("25 < age", ["ann", "ben"]),
            ('length(name + "x") = 4 and age * 2 = 60', ["ben"]),
            ("(age > 20) = true", ["ann", "ben"]),
            ("age in $list", ["ben"]),
        ],
    )
    def test_conditions(self, people, where, found):
        given = {"list": [30, None]} if "$list" in where else {}
        given = {"list": [30]} if given else None
        params = "$list: [I32]" if given else ""
        result = run(people, f'update Person set {{ note: "hit" }} where {where}', params, given)
        assert counts(result) == (len(found), 0)
        hit = [name for name, row in nodes(people, "Person").items() if "note" in row]
        assert sorted(hit) == found
        # And the same on what is pending.
        again = run(
            people,
            f'update Person set {{ note: "x" }} where name >= "" update Person set {{ note: "y" }} where {where}',
            params,
            given,
        )
        assert counts(again) == (4 + len(found), 0)
        assert (
            sorted(n for n, row in nodes(people, "Person").items() if row["note"] == "y") == found
        )

    def test_edges_by_their_ends_and_properties(self, people):
        result = run(people, 'update Knows set { weight: coalesce(weight, 0) + 1 } '
                             'where from = "ann" and (weight is null or weight > 5)')  # fmt: skip
        assert counts(result) == (0, 2)
        assert edges(people, "Knows") == [
            ("ann", "ben", 5), ("ann", "ben", 8), ("ann", "cat", 1), ("ben", "cat", 1),
        ]  # fmt: skip

    def test_values_of_the_row(self, people):
        result = run(people, 'match { $p: Person { name: "ben" } } '
                             "update Person set { note: $p.name } where age > $p.age - 5 and name != $p.name")  # fmt: skip
        assert counts(result) == (1, 0)
        assert nodes(people, "Person")["ann"]["note"] == "ben"

    def test_a_value_of_the_row_is_looked_up(self, people):
        text = "for $r in $rows update Person set { age: $r.n } where name = $r.who"
        rows = [{"who": "cat", "n": 1}, {"who": "zed", "n": 2}, {"who": "ann", "n": 3}]
        result = run(people, text, "$rows: [{ who: String, n: I32 }]", {"rows": rows})
        assert counts(result) == (2, 0)
        assert ages(people) == {"ann": 3, "ben": 30, "cat": 1, "dan": None}

    def test_a_number_is_looked_up_whatever_its_type(self, people):
        text = "for $r in $rows delete Person where age = $r"
        assert counts(run(people, text, "$rows: [F64]", {"rows": [30.0, 20.5]})) == (1, 3)
        assert sorted(nodes(people, "Person")) == ["ann", "cat", "dan"]

    def test_a_delete_by_the_ends_of_matched_nodes(self, people):
        result = run(people, "match { $p: Person  $p.age >= 30 } delete Knows where from = $p")
        assert counts(result) == (0, 4)


class TestMatch:
    def test_statements_see_the_values_of_earlier_ones(self, people):
        text = "match {{ $p: Person {{ age: 40 }} }} {} {} return {{ $p.age as a, $p.visits as v }}"
        older = "update $p set { age: $p.age + 1 }"
        copied = "update $p set { visits: $p.age }"
        assert run(people, text.format(copied, older)).rows == [{"a": 41, "v": 40}]
        run(people, 'update Person set { age: 40 } where name = "ann"')
        assert run(people, text.format(older, copied)).rows == [{"a": 41, "v": 41}]

    def test_every_row_of_a_statement_sees_what_was_before_it(self, people):
        run(people, "match { $p: Person { name: \"ann\" }  $q: Person { name: \"ben\" } } "
                    "update $p set { age: $q.age } update $q set { age: $p.age }")  # fmt: skip
        assert (ages(people)["ann"], ages(people)["ben"]) == (30, 30)

    def test_rows_that_differ_are_refused(self, people):
        before = state(people)
        with pytest.raises(ConstraintError) as caught:
            run(people, "match { $p knows $q } update $p set { age: $q.age }")
        assert caught.value.details == {"property": "age", "id": "ann", "violation": "ambiguous"}
        assert state(people) == before

    def test_rows_that_agree_are_not(self, people):
        result = run(people, "match { $p knows $q } update $p set { note: $p.name }")
        assert counts(result) == (2, 0)

    def test_inserts_of_one_key_with_different_values_are_refused(self, people):
        with pytest.raises(ConstraintError, match="ambiguous"):
            run(people, 'match { $p: Person } insert Person { name: "eve", age: $p.age }')

    def test_aggregates_range_over_the_rows_of_each_node(self, people):
        run(people, "match { $p: Person  optional { $p $k:knows $q } } "
                    "update $p set { visits: sum($k.weight), tags: collect(distinct $q.name), "
                    "score: count($q) / 2 }")  # fmt: skip
        found = {
            name: (row.get("visits"), row.get("tags"), row["score"])
            for name, row in nodes(people, "Person").items()
        }
        assert found == {
            "ann": (12, ["ben", "cat"], 1.5),
            "ben": (1, ["cat"], 0.5),
            "cat": (None, [], 0.0),
            "dan": (None, [], 0.0),
        }

    def test_edges_of_the_match(self, people):
        run(people, "match { $a $k:knows $b  $k.weight is null } update $k set { weight: $b.age }")
        assert ("ann", "cat", 20) in edges(people, "Knows")
        result = run(people, "match { $a $k:knows $b  $k.weight > 5 } delete $k")
        assert counts(result) == (0, 2)
        assert edges(people, "Knows") == [("ann", "ben", 5), ("ben", "cat", 1)]

    def test_edges_of_alternatives_have_their_own_values(self, people):
        run(people, 'insert Follows { from: "ann", to: "dan", weight: 100 }')
        result = run(people, 'match { $p: Person { name: "ann" }  $p $e:knows|follows $q } '
                             "update Follows set { weight: weight + 1 } where from = \"ann\" "
                             "return { $q.name as q, type($e) as t, $e.weight as w }")  # fmt: skip
        assert sorted((row["q"], row["t"], row["w"] or 0) for row in result.rows) == [
            ("ben", "Knows", 5), ("ben", "Knows", 7), ("cat", "Knows", 0), ("dan", "Follows", 101),
        ]  # fmt: skip

    def test_nodes_go_with_their_edges(self, people):
        result = run(people, "match { $p: Person  not { $p knows $_ } } delete $p")
        assert counts(result) == (2, 2)
        assert sorted(nodes(people, "Person")) == ["ann", "ben"]

    def test_what_was_deleted_is_updated_no_more(self, people):
        result = run(
            people, 'match { $p: Person { name: "dan" } } delete $p update $p set { age: 1 }'
        )
        assert counts(result) == (1, 0)
        assert "dan" not in nodes(people, "Person")

    def test_nothing_is_skipped(self, people):
        result = run(people, "match { $p: Person  optional { $p knows $q } } "
                             'update $q set { note: "known" } return { $p.name as p, $q.note as n }')  # fmt: skip
        assert counts(result) == (2, 0)
        assert [row["n"] for row in result.rows if row["p"] == "dan"] == [None]

    def test_blocks_are_answered_by_the_match(self, people):
        run(people, 'match { $p: Person } delete Knows where from = "ben" '
                    'update $p set { note: if(exists { $p knows $_ }, "yes", "no") }')  # fmt: skip
        found = {name: row["note"] for name, row in nodes(people, "Person").items()}
        assert found == {"ann": "yes", "ben": "yes", "cat": "no", "dan": "no"}

    def test_paths_and_sources(self, people):
        text = """
        query oldest() { match { $p: Person } return { $p as who, $p.age as a } order { a desc } limit 1 }
        match { $r: oldest()  $p: Person  $p = $r.who  $p $way:knows{1,} $q }
        upsert Follows { from: $r.who, to: $q, weight: length($way) }
        """
        assert counts(people.mutate(text)) == (0, 2)
        assert edges(people, "Follows") == [("ann", "ben", 1), ("ann", "cat", 1)]

    def test_new_nodes_are_named(self, people):
        run(people, 'match { $p: Person  $p.age > 25 } insert $t: Task { title: "greet " + $p.name } '
                    "insert Has { from: $p, to: $t, rank: $p.age }")  # fmt: skip
        found = people.query(
            "match { $p $h:has $t } return { $p.name as p, $t.title as t, $h.rank as r } order { p }"
        )
        assert found.rows == [
            {"p": "ann", "t": "greet ann", "r": 40}, {"p": "ben", "t": "greet ben", "r": 30},
        ]  # fmt: skip

    def test_no_rows_change_nothing(self, people):
        before = state(people)
        result = run(people, 'match { $p: Person { name: "zed" } } delete $p insert Task { title: $p.name } '
                             "return { count($p) as n }")  # fmt: skip
        assert counts(result) == (0, 0)
        assert result.commit is None
        assert result.rows == [{"n": 0}]
        assert state(people) == before


class TestFor:
    ROWS = "$rows: [{ n: String, v: I64? }]"

    def test_each_element_sees_the_earlier_ones(self, people):
        rows = [{"n": "ann", "v": 1}, {"n": "eve", "v": 5}, {"n": "ann", "v": 2}, {"n": "eve"}]
        text = "for $r in $rows upsert Person { name: $r.n, visits: coalesce(visits, 0) + coalesce($r.v, 1) }"
        assert counts(run(people, text, self.ROWS, {"rows": rows})) == (4, 0)
        found = nodes(people, "Person")
        assert (found["ann"]["visits"], found["eve"]["visits"]) == (3, 6)

    def test_the_last_of_equal_keys_wins(self, people):
        rows = [{"n": "eve", "v": 1}, {"n": "fox", "v": 2}, {"n": "eve", "v": 3}]
        text = "for $r in $rows insert Person { name: $r.n, visits: $r.v }"
        assert counts(run(people, text, self.ROWS, {"rows": rows})) == (3, 0)
        assert nodes(people, "Person")["eve"]["visits"] == 3

    def test_one_element_may_read_what_another_changes(self, people):
        # Each takes the age of the other as it is by then: ann 30, ben 30, cat 30.
        text = """for $r in $rows match { $p: Person { name: $r.p }  $q: Person { name: $r.q } }
                  update $p set { age: $q.age }"""
        rows = [{"p": "ann", "q": "ben"}, {"p": "ben", "q": "ann"}, {"p": "cat", "q": "ben"}]
        run(people, text, "$rows: [{ p: String, q: String }]", {"rows": rows})
        assert ages(people) == {"ann": 30, "ben": 30, "cat": 30, "dan": None}

    def test_a_condition_sees_what_earlier_elements_changed(self, people):
        text = "for $n in $ns update Person set { age: age + $n } where age < 30"
        assert counts(run(people, text, "$ns: [I32]", {"ns": [6, 5, 100]})) == (1, 0)
        assert ages(people)["cat"] == 31

    def test_an_edge_that_comes_twice_is_one(self, people):
        text = "for $r in $rows upsert Follows { from: $r.a, to: $r.b, weight: coalesce(weight, 0) + 1 }"
        rows = [{"a": "ann", "b": "ben"}, {"a": "ben", "b": "ann"}, {"a": "ann", "b": "ben"}]
        result = run(people, text, "$rows: [{ a: String, b: String }]", {"rows": rows})
        assert counts(result) == (0, 3)
        assert edges(people, "Follows") == [("ann", "ben", 2), ("ben", "ann", 1)]

    def test_rows_come_back_in_the_order_of_the_list(self, people):
        text = "for $c in $cs insert $p: Person { name: $c } return { $c as asked, $p as id }"
        result = run(people, text, "$cs: [String]", {"cs": ["z", "b", "z"]})
        assert result.rows == [{"asked": c, "id": c} for c in ("z", "b", "z")]

    def test_an_empty_list_and_none_change_nothing(self, people):
        for given in ([], None):
            result = run(
                people, "for $c in $cs insert Person { name: $c }", "$cs: [String]?", {"cs": given}
            )
            assert (counts(result), result.commit) == ((0, 0), None)

    @pytest.mark.parametrize(
        ("record", "words"),
        [
            ({"v": 1}, ["`rows`", "`n`"]),
            ({"n": "x", "other": 1}, ["`rows`", "other"]),
            ({"n": None}, ["`rows`", "`n`"]),
            ({"n": 3}, ["`rows`", "`n`"]),
            ({"n": "x", "v": "many"}, ["`rows`", "`v`"]),
            (None, ["`rows`"]),
        ],
    )
    def test_a_bad_record_is_named(self, people, record, words):
        before = state(people)
        rows = [{"n": "ok"}, record]
        with pytest.raises(ParamError) as caught:
            run(people, "for $r in $rows insert Person { name: $r.n }", self.ROWS, {"rows": rows})
        for word in (*words, "element 2"):
            assert word in str(caught.value), caught.value
        assert state(people) == before

    def test_one_bad_row_undoes_all(self, people):
        before = state(people)
        with pytest.raises(ConstraintError, match="not found"):
            run(
                people,
                'for $c in $cs insert Knows { from: "ann", to: $c }',
                "$cs: [String]",
                {"cs": ["ben", "zz"]},
            )
        assert state(people) == before

    def test_many_records_beside_many_rows(self, graph):
        # So many that the table is scanned for them.
        rows = [{"n": f"p{at}", "v": at} for at in range(1_000)]
        text = "for $r in $rows upsert Person { name: $r.n, visits: coalesce(visits, 0) + $r.v }"
        for _ in range(2):
            run(graph, text, self.ROWS, {"rows": rows})
        found = nodes(graph, "Person")
        assert {name: row["visits"] for name, row in found.items()} == {
            f"p{at}": 2 * at for at in range(1_000)
        }

    def test_a_million_records(self, graph):
        rows = [{"n": f"p{at}", "v": at} for at in range(1_000_000)]
        text = "for $r in $rows upsert Person { name: $r.n, visits: $r.v } return { count(*) as n, sum($r.v) as s }"
        result = run(graph, text, self.ROWS, {"rows": rows})
        assert counts(result) == (1_000_000, 0)
        assert result.rows == [{"n": 1_000_000, "s": 499_999_500_000}]
        assert graph.snapshot().tables["node:Person"].row_count == 1_000_000


class TestBlobs:
    def test_rows_that_are_upserted_keep_their_bytes(self, graph):
        large = bytes(range(256)) * 1000
        for tag, data in (("a", b"first"), ("b", large)):
            run(graph, "insert Plate { tag: $t }", "$t: String", {"t": tag})
            graph.blobs.write("node", "Plate", tag, "scan", data)
        rows = [{"t": "a", "c": "x"}, {"t": "b", "c": "y"}, {"t": "c", "c": "z"}]
        run(graph, "for $r in $rows upsert Plate { tag: $r.t, caption: $r.c }",
            "$rows: [{ t: String, c: String }]", {"rows": rows})  # fmt: skip
        run(
            graph,
            'match { $p: Plate } update $p set { caption: $p.caption + "!" } delete Plate where tag = "c"',
        )
        assert graph.blobs.read("node", "Plate", "a", "scan") == b"first"
        assert graph.blobs.read("node", "Plate", "b", "scan") == large
        assert {tag: row["caption"] for tag, row in nodes(graph, "Plate").items()} == {
            "a": "x!",
            "b": "y!",
        }

    def test_one_value_for_all_rows(self, graph):
        run(graph, "for $t in $ts upsert Plate { tag: $t, scan: $b }", "$ts: [String], $b: Blob",
            {"ts": ["a", "b"], "b": "base64:aGk="})  # fmt: skip
        assert [graph.blobs.read("node", "Plate", tag, "scan") for tag in ("a", "b")] == [
            b"hi",
            b"hi",
        ]


class TestReturn:
    def test_deleted_nodes_have_their_last_values(self, people):
        result = run(people, "match { $p: Person  $p.age > 25 } update $p set { age: $p.age + 1 } delete $p "
                             "return { $p.name as n, $p.age as a }")  # fmt: skip
        assert result.rows == [{"n": "ann", "a": 41}, {"n": "ben", "a": 31}]
        assert result.columns == ["n", "a"]
        assert result.returned.to_arrow().num_rows == 2

    def test_groups_and_distinct(self, people):
        result = run(people, "match { $p knows $q } update $p set { note: \"k\" } "
                             "return { $q.name as q, count($p) as n, collect($p.name) as ps }")  # fmt: skip
        assert sorted((row["q"], row["n"], row["ps"]) for row in result.rows) == [
            ("ben", 1, ["ann"]), ("cat", 2, ["ann", "ben"]),
        ]  # fmt: skip
        result = run(
            people,
            'match { $p knows $q } update $p set { note: "k" } return distinct { $p.name as p }',
        )
        assert result.rows == [{"p": "ann"}, {"p": "ben"}]

    def test_shapes_and_stars(self, people):
        result = run(
            people,
            'upsert $p: Must { code: "m", size: 1, label: "l" } return { $p { code, size } as s, $p.* }',
        )
        assert result.rows == [
            {"s": {"code": "m", "size": 1}, "p.code": "m", "p.size": 1, "p.label": "l"}
        ]

    def test_the_id_of_an_edge_is_the_stored_one(self, people):
        result = run(people, 'insert $e: Twin { from: "ann", to: "ben" } return { id($e) as e }')
        ((stored, *_),) = read_back(people).edges["Twin"]
        assert result.rows == [{"e": stored}]

    def test_large_integers_and_the_public_form(self, people):
        result = run(
            people,
            'upsert $p: Person { name: "ann", visits: 9007199254740993 } return { $p.visits as v }',
        )
        assert result.to_json()["rows"] == [{"v": 9007199254740993}]
        assert result.to_json(js_safe=True)["rows"] == [{"v": "9007199254740993"}]
        assert "rows" not in run(people, 'upsert Person { name: "ann" }').to_json()

    def test_what_cannot_be_returned_is_not_committed(self, people):
        before = state(people)
        with pytest.raises(OmniGraphError):
            run(
                people,
                "match { $p: Person } update $p set { visits: 9223372036854775807 } return { sum($p.visits) as s }",
            )
        assert state(people) == before

    def test_a_repetition_changes_nothing_and_has_no_rows(self, people):
        text = 'match { $p: Person { name: "ann" } } update $p set { age: $p.age + 1 } return { $p.age as a }'
        operation = new_ulid()
        first = run(people, text, operation_id=operation)
        again = run(people, text, operation_id=operation)
        assert first.rows == [{"a": 41}]
        assert (again.replayed, again.columns, again.rows) == (True, ["a"], None)
        assert (again.commit, counts(again)) == (first.commit, counts(first))
        assert again.to_json()["rows"] is None
        assert ages(people)["ann"] == 41


class TestRaces:
    def test_a_lost_race_matches_again(self, people):
        # The other writer comes between the match and the commit.
        other = 'update Person set { age: 50 } where name = "dan"'
        with failpoints.arm("mutation.before_locks", lambda _: run(people, other), times=1):
            result = run(people, "match { $p: Person  $p.age >= 40 } insert Task { title: $p.name } "
                                 "return { $p.name as n }")  # fmt: skip
        assert [row["n"] for row in result.rows] == ["ann", "dan"]
        assert sorted(row["title"] for row in nodes(people, "Task").values()) == ["ann", "dan"]

    def test_what_only_the_match_reads_is_relied_on(self, people):
        other = 'insert Knows { from: "dan", to: "ann" }'
        with failpoints.arm("mutation.before_locks", lambda _: run(people, other), times=1):
            result = run(people, 'match { $p: Person  not { $p knows $_ } } insert Task { title: $p.name } '
                                 "return { $p.name as n }")  # fmt: skip
        assert [row["n"] for row in result.rows] == ["cat"]


class TestEdgesOfOneTuple:
    """An inserted edge whose tuple a committed one has is another edge, until the end judges both."""

    @pytest.fixture
    def twins(self, people):
        run(
            people,
            'insert Twin { from: "ann", to: "ben", w: 1 } insert Twin { from: "ben", to: "cat", w: 9 }',
        )
        return people

    def test_both_go_with_their_node(self, twins):
        result = run(
            twins, 'insert Twin { from: "ann", to: "ben" } delete Person where name = "ben"'
        )
        assert counts(result) == (1, 7)  # three that know, three twins, and the one inserted
        assert read_back(twins).edges["Twin"] == []

    def test_both_are_found(self, twins):
        result = run(twins, 'insert Twin { from: "ann", to: "ben", w: 5 } '
                            'delete Twin where w = 1')  # fmt: skip
        assert counts(result) == (0, 2)
        found = sorted(
            (src, dst, props["w"]) for _, src, dst, props in read_back(twins).edges["Twin"]
        )
        assert found == [("ann", "ben", 5), ("ben", "cat", 9)]

    @pytest.mark.parametrize("name", ["", "$new: "])
    def test_a_matched_edge_stays_the_matched_one(self, twins, name):
        text = (
            f"match {{ $a $e:twin $b  $e.w = 1 }} insert {name}Twin {{ from: $a, to: $b, w: 5 }} "
            "insert Task { title: text($e.w) } delete $e return { $e.w as w }"
        )
        result = run(twins, text)
        assert result.rows == [{"w": 1}]
        assert [row["title"] for row in nodes(twins, "Task").values()] == ["1"]
        found = sorted(
            (src, dst, props["w"]) for _, src, dst, props in read_back(twins).edges["Twin"]
        )
        assert found == [("ann", "ben", 5), ("ben", "cat", 9)]


class TestPlainInserts:
    """Neighbouring inserts of values run as one, and mean what they mean one by one."""

    def test_the_later_of_two_with_one_key_replaces_the_earlier(self, people):
        result = run(people, 'insert Person { name: "ann", age: 1, note: "x" } insert Task { title: "t" } '
                             'insert Person { name: "eve" } insert Person { name: "ann", age: 2 }')  # fmt: skip
        assert counts(result) == (4, 0)
        found = nodes(people, "Person")
        assert found["ann"] == {"name": "ann", "age": 2}
        assert found["eve"] == {"name": "eve"}
        assert len(ends(people, "Knows")) == 4

    def test_an_edge_may_come_before_its_nodes(self, graph):
        result = run(graph, 'insert Knows { from: "a", to: "b" } insert Person { name: "a" } '
                            'insert Person { name: "b" } insert Knows { from: "b", to: "a", weight: 2 }')  # fmt: skip
        assert counts(result) == (2, 2)
        assert ends(graph, "Knows") == [("a", "b"), ("b", "a")]

    def test_defaults_and_blobs(self, graph):
        run(graph, 'insert Fitted { code: "a" } insert Fitted { code: "b", size: 1, tags: null } '
                   'insert Plate { tag: "p", scan: "base64:aGk=" } insert Plate { tag: "q" }')  # fmt: skip
        assert nodes(graph, "Fitted") == {
            "a": {"code": "a", "size": 7, "tags": ["new"]},
            "b": {"code": "b", "size": 1},
        }
        assert nodes(graph, "Plate") == {"p": {"tag": "p", "scan": b"hi"}, "q": {"tag": "q"}}

    @pytest.mark.parametrize(
        ("values", "violation", "named"),
        [
            ((None, 2**40), "null", "name"),
            (("eve", 2**40), "overflow", "age"),
        ],
    )
    def test_the_first_that_is_refused_says_why(self, people, values, violation, named):
        before = state(people)
        with pytest.raises(ConstraintError) as caught:
            run(people, 'insert Person { name: "x" } insert Person { name: $n } insert Person { name: "y", age: $a } '
                        "insert Knows { from: $n, to: $n }",
                "$n: String?, $a: I64", dict(zip(("n", "a"), values, strict=True)))  # fmt: skip
        assert caught.value.details["violation"] == violation
        assert caught.value.details["property"] == named
        assert state(people) == before

    def test_those_of_every_row_run_for_every_row(self, people):
        result = run(
            people, 'match { $p: Person } insert Task { title: "a" } insert Task { title: "b" }'
        )
        assert counts(result) == (8, 0)
        titles = sorted(row["title"] for row in nodes(people, "Task").values())
        assert titles == ["a"] * 4 + ["b"] * 4

    def test_what_follows_sees_them(self, people):
        result = run(people, 'insert Person { name: "eve", age: 90 } insert Person { name: "fay", age: 80 } '
                             "update Person set { age: age + 1 } where age > 75 "
                             'insert Person { name: "gus" } insert Person { name: "eve" }')  # fmt: skip
        assert counts(result) == (6, 0)
        assert {name: ages(people)[name] for name in ("eve", "fay", "gus")} == {
            "eve": None,
            "fay": 81,
            "gus": None,
        }


def test_no_rows_do_nothing_whatever_the_values(people):
    before = state(people)
    text = (
        'match { $p: Person { name: "nobody" } } update Person set { age: $big } where name = "ann"'
    )
    result = run(people, text, "$big: I64", {"big": 2**40})
    assert counts(result) == (0, 0)
    assert result.commit is None
    assert state(people) == before

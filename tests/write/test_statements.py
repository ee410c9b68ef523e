"""What each statement of a mutation does, what later ones see of it, and what is counted."""

from __future__ import annotations

import re

import pytest

from omnigraph.errors import (
    ConstraintError,
    OmniGraphError,
    ParseError,
    TypeCheckError,
)
from omnigraph.graph import init
from omnigraph.write.pending import PendingTable
from tests.graphs import graph_of
from tests.stored import read_back
from tests.write.writing import counts, ends, nodes, run, state

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique  tags: [String]? }
node Note { text: String  stars: I32? }
node Slot { lane: String  bay: I32  note: String?  @key(lane, bay) }
edge Knows: Person -> Person { since: Date? }
edge Wrote: Person -> Note
edge About: Note -> Person
edge Boss: Person -> Person @card(0..1)
edge Twin: Person -> Person { w: I64?  @unique(src, dst) }
"""


graph = graph_of(SCHEMA)


@pytest.fixture
def people(graph):
    """a, b and c, with edges of several types between them and a note."""
    run(graph, " ".join(f'insert Person {{ name: "{name}", age: {age} }}'
                        for name, age in (("a", 1), ("b", 2), ("c", 3))))  # fmt: skip
    run(graph, 'insert Note { text: "n", stars: 3 }')
    (note,) = read_back(graph).nodes["Note"]
    run(
        graph,
        'insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "a" } '
        'insert Knows { from: "a", to: "a" } insert Knows { from: "b", to: "c" } '
        'insert Wrote { from: "a", to: $note } insert About { from: $note, to: "c" }',
        "$note: String",
        {"note": note},
    )
    return note


class TestInsertNode:
    def test_a_key_makes_the_id(self, graph):
        result = run(graph, 'insert Person { name: "ann", age: 7, tags: ["x", "y"] }')
        assert counts(result) == (1, 0)
        assert nodes(graph, "Person") == {"ann": {"name": "ann", "age": 7, "tags": ["x", "y"]}}

    def test_members_of_a_composite_key_stand_in_the_order_of_their_names(self, graph):
        run(graph, 'insert Slot { lane: "ä\\"", bay: -3 }')
        assert list(nodes(graph, "Slot")) == ['["-3","ä\\""]']

    def test_an_upsert_replaces_the_whole_row_and_no_edge(self, people, graph):
        before = ends(graph, "Knows")
        result = run(graph, 'insert Person { name: "a", mail: "a@x" }')
        assert counts(result) == (1, 0)
        assert nodes(graph, "Person")["a"] == {"name": "a", "mail": "a@x"}
        assert ends(graph, "Knows") == before

    def test_an_upsert_keeps_the_row_it_replaces(self, graph):
        run(graph, 'insert Slot { lane: "x", bay: 1, note: "one" }')
        run(graph, 'insert Slot { lane: "x", bay: 1, note: "two" } '
                   'insert Slot { lane: "x", bay: 2 }')  # fmt: skip
        assert nodes(graph, "Slot") == {
            '["1","x"]': {"lane": "x", "bay": 1, "note": "two"},
            '["2","x"]': {"lane": "x", "bay": 2},
        }

    def test_the_last_upsert_of_one_query_wins_and_each_counts(self, graph):
        result = run(graph, 'insert Person { name: "a", age: 1 } insert Person { name: "a" }')
        assert counts(result) == (2, 0)
        assert nodes(graph, "Person") == {"a": {"name": "a"}}

    def test_without_a_key_every_insert_adds(self, graph):
        result = run(graph, 'insert Note { text: "n" } insert Note { text: "n" }')
        assert counts(result) == (2, 0)
        run(graph, 'insert Note { text: "n" }')
        found = nodes(graph, "Note")
        assert list(found.values()) == [{"text": "n"}] * 3
        assert all(re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", row_id) for row_id in found)

    def test_every_required_property_must_be_assigned(self, graph):
        with pytest.raises(TypeCheckError, match="T12") as caught:
            run(graph, "insert Note { stars: 1 }")
        assert "`text`" in str(caught.value)
        with pytest.raises(TypeCheckError, match="T12"):
            run(graph, 'insert Slot { lane: "x" }')

    def test_a_null_key_names_the_property(self, graph):
        with pytest.raises(ConstraintError, match="name"):
            run(graph, "insert Person { name: $n }", "$n: String?")
        assert nodes(graph, "Person") == {}


class TestInsertEdge:
    def test_every_insert_adds_an_edge(self, people, graph):
        result = run(graph, 'insert Knows { from: "c", to: "c", since: date("1950-02-03") } '
                            'insert Knows { from: "c", to: "c" }')  # fmt: skip
        assert counts(result) == (0, 2)
        added = [e for e in read_back(graph).edges["Knows"] if e[1] == "c"]
        assert [row["since"] for _, _, _, row in added] == [-7272, None]
        assert len({row_id for row_id, *_ in added}) == 2

    def test_ends_may_come_from_parameters_and_from_earlier_statements(self, graph):
        result = run(
            graph,
            'insert Person { name: $x } insert Person { name: "y" } '
            'insert Knows { from: $x, to: "y" } insert Knows { from: "y", to: $x }',
            "$x: String",
            {"x": "x"},
        )
        assert counts(result) == (2, 2)
        assert ends(graph, "Knows") == [("x", "y"), ("y", "x")]

    def test_an_end_may_come_with_a_later_statement(self, graph):
        run(graph, 'insert Knows { from: "x", to: "x" } insert Person { name: "x" }')
        assert ends(graph, "Knows") == [("x", "x")]

    @pytest.mark.parametrize(("src", "dst"), [("no", "a"), ("a", "no")])
    def test_an_end_that_is_not_there(self, people, graph, src, dst):
        before = state(graph)
        with pytest.raises(ConstraintError, match="not found") as caught:
            run(graph, f'insert Knows {{ from: "{src}", to: "{dst}" }}')
        assert "'no'" in str(caught.value)
        assert "Person" in str(caught.value)
        assert state(graph) == before

    def test_a_null_end_is_named(self, people, graph):
        for end, other in (("from", "to"), ("to", "from")):
            with pytest.raises(ConstraintError, match=f"Knows.{end}"):
                run(graph, f'insert Knows {{ {end}: $e, {other}: "a" }}', "$e: String?")

    def test_parallel_edges_are_legal_unless_forbidden(self, people, graph):
        run(graph, 'insert Twin { from: "a", to: "b" }')
        with pytest.raises(ConstraintError, match="@unique"):
            run(graph, 'insert Twin { from: "a", to: "b", w: 1 }')
        run(graph, 'insert Twin { from: "b", to: "a" }')
        with pytest.raises(ConstraintError, match="@unique"):
            run(graph, 'insert Twin { from: "c", to: "a" } insert Twin { from: "c", to: "a" }')


class TestUpdate:
    def test_only_the_assigned_properties_change(self, people, graph):
        result = run(graph, 'update Person set { mail: "m" } where name = "b"')
        assert counts(result) == (1, 0)
        assert nodes(graph, "Person") == {
            "a": {"name": "a", "age": 1},
            "b": {"name": "b", "age": 2, "mail": "m"},
            "c": {"name": "c", "age": 3},
        }

    @pytest.mark.parametrize(
        ("where", "wanted"),
        [
            ("age = 2", "b"), ("age != 2", "ac"), ("age < 2", "a"), ("age <= 2", "ab"),
            ("age > 2", "c"), ("age >= 2", "bc"), ("age >= 1.5", "bc"), ("age < 3000000000", "abc"),
            ("age = 1.5", ""), ('name > "a"', "bc"), ('name = "b"', "b"), ('name = "B"', ""), ('mail = "x"', ""), ('mail != "x"', ""),
        ],
    )  # fmt: skip
    def test_comparisons_are_by_value_and_null_matches_nothing(self, people, graph, where, wanted):
        result = run(graph, f'update Person set {{ tags: ["hit"] }} where {where}')
        assert counts(result) == (len(wanted), 0)
        hit = [name for name, row in nodes(graph, "Person").items() if "tags" in row]
        assert sorted(hit) == list(wanted)

    @pytest.mark.parametrize(
        ("where", "wanted"),
        [
            ("age = 2", "b"), ("age != 2", "ac"), ("age < 2", "a"), ("age <= 2", "ab"),
            ("age > 2", "c"), ("age >= 1.5", "bc"), ("age < 3000000000", "abc"),
            ("age = 1.5", ""), ('name > "a"', "bcd"), ('name = "d"', "d"), ('name = "e"', ""), ('mail != "x"', ""),
        ],
    )  # fmt: skip
    def test_pending_rows_are_compared_like_committed_ones(self, graph, where, wanted):
        inserts = " ".join(
            f'insert Person {{ name: "{name}"{age} }}'
            for name, age in (("a", ", age: 1"), ("b", ", age: 2"), ("c", ", age: 3"), ("d", ""))
        )
        result = run(graph, f'{inserts} update Person set {{ tags: ["hit"] }} where {where}')
        assert counts(result) == (4 + len(wanted), 0)
        hit = [name for name, row in nodes(graph, "Person").items() if "tags" in row]
        assert sorted(hit) == list(wanted)

    def test_a_row_is_found_by_the_index_of_the_id_if_its_whole_key_is_given(
        self, people, graph, monkeypatch
    ):
        asked = []
        looking = PendingTable.candidates

        def look(table, conditions, columns=None):
            asked.extend(one.column for one in conditions)
            return looking(table, conditions, columns)

        monkeypatch.setattr(PendingTable, "candidates", look)
        run(graph, 'update Person set { age: 7 } where name = "a"')
        run(graph, 'update Person set { age: 8 } where name >= "c"')
        run(graph, 'delete Person where name = "b"')
        assert [column for column in asked if column in ("id", "name")] == ["id", "name", "id"]
        assert {name: row["age"] for name, row in nodes(graph, "Person").items()} == {
            "a": 7,
            "c": 8,
        }

    def test_a_pending_row_hides_the_committed_one(self, people, graph):
        result = run(
            graph,
            "update Person set { age: 9 } where age = 1 "
            "update Person set { age: 5 } where age = 1 "
            'update Person set { mail: "nine" } where age = 9 '
            'insert Person { name: "b", age: 9 } '
            'update Person set { tags: ["t"] } where age = 9',
        )
        # 1 + 0 + 1 + 1 + 2: a row that two statements match counts twice.
        assert counts(result) == (5, 0)
        assert nodes(graph, "Person") == {
            "a": {"name": "a", "age": 9, "mail": "nine", "tags": ["t"]},
            "b": {"name": "b", "age": 9, "tags": ["t"]},
            "c": {"name": "c", "age": 3},
        }

    def test_nodes_without_a_key_keep_their_ids_and_edges(self, people, graph):
        run(graph, 'update Note set { text: "changed" } where stars = 3')
        assert nodes(graph, "Note") == {people: {"text": "changed", "stars": 3}}
        assert ends(graph, "Wrote") == [("a", people)]

    def test_one_inserted_in_the_same_query_can_be_updated(self, graph):
        result = run(graph, 'insert Note { text: "a" } insert Note { text: "b" } '
                            'update Note set { stars: 5 } where text = "a"')  # fmt: skip
        assert counts(result) == (3, 0)
        found = sorted(nodes(graph, "Note").values(), key=lambda row: row["text"])
        assert found == [{"text": "a", "stars": 5}, {"text": "b"}]

    def test_a_key_cannot_be_changed_nor_the_ends_of_an_edge(self, people, graph):
        with pytest.raises(TypeCheckError, match="@key"):
            run(graph, 'update Person set { name: "z" } where age = 1')
        with pytest.raises(TypeCheckError, match="@key"):
            run(graph, 'update Slot set { bay: 1 } where lane = "x"')
        with pytest.raises(TypeCheckError, match="T16"):
            run(graph, 'update Knows set { to: "b" } where from = "a"')

    def test_a_value_freed_earlier_may_be_used_again(self, people, graph):
        run(graph, 'update Person set { mail: "m" } where name = "a"')
        with pytest.raises(ConstraintError, match="@unique") as caught:
            run(graph, 'update Person set { mail: "m" } where name = "b"')
        assert "Person.mail" in str(caught.value)
        run(
            graph,
            'update Person set { mail: "free" } where name = "a" '
            'update Person set { mail: "m" } where name = "b"',
        )
        assert nodes(graph, "Person")["b"]["mail"] == "m"
        run(  # and the two change places
            graph,
            'update Person set { mail: "free" } where name = "b" '
            'update Person set { mail: "m" } where name = "a"',
        )
        assert nodes(graph, "Person")["a"]["mail"] == "m"

    def test_one_value_for_many_rows_breaks_unique(self, people, graph):
        with pytest.raises(ConstraintError, match="@unique"):
            run(graph, 'update Person set { mail: "m" } where age > 0')


class TestDelete:
    def test_edges_of_every_type_and_direction_go_with_a_node(self, people, graph):
        result = run(graph, 'delete Person where name = "a"')
        # Knows a-b, b-a, a-a and Wrote a-n.
        assert counts(result) == (1, 4)
        assert sorted(nodes(graph, "Person")) == ["b", "c"]
        assert ends(graph, "Knows") == [("b", "c")]
        assert ends(graph, "Wrote") == []
        assert ends(graph, "About") == [(people, "c")]
        assert list(nodes(graph, "Note")) == [people]

    def test_a_self_loop_counts_once(self, graph):
        run(graph, 'insert Person { name: "a" } insert Knows { from: "a", to: "a" }')
        assert counts(run(graph, 'delete Person where name = "a"')) == (1, 1)

    def test_an_edge_between_two_deleted_nodes_counts_once(self, people, graph):
        assert counts(run(graph, "delete Person where age > 0")) == (3, 6)
        assert list(nodes(graph, "Note")) == [people]
        assert graph.snapshot().tables["edge:Knows"].row_count == 0

    def test_overlapping_conditions_remove_the_union(self, people, graph):
        result = run(
            graph,
            "delete Person where age < 3 delete Person where age > 1 delete Person where age = 2",
        )
        assert counts(result) == (3, 6)
        assert nodes(graph, "Person") == {}

    def test_a_cascaded_edge_is_not_counted_again(self, people, graph):
        result = run(graph, 'delete Knows where from = "a" delete Person where name = "a"')
        assert counts(result) == (1, 4)
        assert ends(graph, "Knows") == [("b", "c")]

    def test_a_condition_that_was_unknown_removed_nothing(self, graph):
        run(graph, 'insert Person { name: "a" } insert Person { name: "b", age: 1 }')
        result = run(graph, 'delete Person where age > 0 delete Person where name >= "a"')
        assert counts(result) == (2, 0)

    def test_edges_by_end_and_by_property(self, people, graph):
        run(graph, 'insert Knows { from: "c", to: "a", since: date("2020-01-01") }')
        assert counts(run(graph, 'delete Knows where since >= date("2020-01-01")')) == (0, 1)
        assert counts(run(graph, 'delete Knows where from = "a"')) == (0, 2)
        assert counts(run(graph, 'delete Knows where to != "a"')) == (0, 1)
        assert ends(graph, "Knows") == [("b", "a")]
        assert len(nodes(graph, "Person")) == 3

    def test_a_deleted_node_can_be_inserted_again_without_its_edges(self, people, graph):
        run(graph, 'delete Person where name = "a"')
        run(graph, 'insert Person { name: "a" }')
        assert nodes(graph, "Person")["a"] == {"name": "a"}
        assert ends(graph, "Knows") == [("b", "c")]


class TestKinds:
    def test_a_read_is_no_mutation(self, graph):
        with pytest.raises(OmniGraphError, match="mutation"):
            run(graph, "match { $p: Person } return { $p }")
        with pytest.raises(ParseError):
            run(graph, "delete Person")


class TestCardinality:
    def test_a_second_edge_is_too_many(self, people, graph):
        run(graph, 'insert Boss { from: "a", to: "b" }')
        before = state(graph)
        for edges in ('insert Boss { from: "a", to: "c" }',
                      'insert Boss { from: "b", to: "c" } insert Boss { from: "b", to: "a" }'):  # fmt: skip
            with pytest.raises(ConstraintError, match="@card") as caught:
                run(graph, edges)
            assert "Boss" in str(caught.value)
        assert state(graph) == before
        run(graph, 'delete Boss where from = "a"')
        run(graph, 'insert Boss { from: "a", to: "c" }')

    def test_below_the_minimum_only_when_touched(self, tmp_path):
        schema = "node P { n: String @key }\nedge Has: P -> P @card(1..)\nedge Is: P -> P"
        with init(tmp_path / "m", schema) as graph:
            run(graph, 'insert P { n: "a" } insert P { n: "b" } insert P { n: "c" }')
            run(graph, 'insert Is { from: "a", to: "b" }')
            run(graph, 'insert Has { from: "a", to: "b" }')
            with pytest.raises(ConstraintError, match="@card") as caught:
                run(graph, 'delete Has where from = "a"')
            assert "'a'" in str(caught.value)
            # The cascade would take a's only edge; without b it may not be.
            with pytest.raises(ConstraintError, match="@card"):
                run(graph, 'delete P where n = "b"')
            # A source that goes itself is exempt.
            assert counts(run(graph, 'delete P where n = "a"')) == (1, 2)
            assert counts(run(graph, 'delete P where n = "b"')) == (1, 0)


class TestIntegerIds:
    SCHEMA = """
    node Dock { no: I32 @key }
    node Ship { imo: String @key }
    edge Next: Dock -> Dock { w: I64? }
    edge LiesAt: Ship -> Dock
    """

    @pytest.fixture
    def docks(self, tmp_path):
        with init(tmp_path / "docks", self.SCHEMA) as graph:
            run(graph, 'insert Dock { no: 7 } insert Dock { no: -3 } insert Ship { imo: "12" }')
            yield graph

    def test_literals_and_parameters(self, docks):
        run(docks, 'insert Next { from: 7, to: -3 } insert LiesAt { from: "12", to: 7 }')
        run(docks, "insert Next { from: $a, to: $b }", "$a: I64, $b: U32", {"a": -3, "b": 7})
        run(docks, "insert Next { from: $a, to: $b }", "$a: String, $b: I32?", {"a": "7", "b": 7})
        assert ends(docks, "Next") == [("-3", "7"), ("7", "-3"), ("7", "7")]
        assert ends(docks, "LiesAt") == [("12", "7")]

    def test_conditions(self, docks):
        run(docks, "insert Next { from: 7, to: -3 } insert Next { from: -3, to: 7 }")
        run(docks, "insert Next { from: 7, to: 7 }")
        assert counts(run(docks, "delete Next where to = -3")) == (0, 1)
        assert counts(run(docks, "delete Next where from = $a", "$a: I64?", {"a": None})) == (0, 0)
        assert counts(run(docks, "delete Next where from != $a", "$a: I64", {"a": 7})) == (0, 1)
        assert ends(docks, "Next") == [("7", "7")]

    @pytest.mark.parametrize(
        ("body", "params", "rule"),
        [
            ("insert Next { from: 7.5, to: 7 }", "", "T3"),
            ("insert Next { from: true, to: 7 }", "", "T3"),
            ("insert LiesAt { from: 12, to: 7 }", "", "T3"),
            ("insert LiesAt { from: $a, to: 7 }", "$a: I64", "T7"),
            ("insert Next { from: $a, to: 7 }", "$a: F64", "T7"),
            ("insert Next { from: $a, to: 7 }", "$a: [I64]", "T7"),
            ("insert Next { from: now(), to: 7 }", "", "T7"),
            ("delete LiesAt where from = 12", "", "T7"),
            ("delete Next where from = 7.0", "", "T7"),
            ("delete Next where from > 7", "", "T7"),
            ("delete Next where from <= $a", "$a: I64", "T7"),
        ],
    )
    def test_other_kinds_are_refused(self, docks, body, params, rule):
        with pytest.raises(TypeCheckError) as caught:
            run(docks, body, params, {"a": 1} if params else None)
        assert caught.value.details["rule"] == rule

    def test_an_integer_that_is_no_id(self, docks):
        for given in (99, 2**40):
            with pytest.raises(ConstraintError, match="not found") as caught:
                run(docks, "insert Next { from: 7, to: $a }", "$a: I64", {"a": given})
            assert f"dst '{given}'" in str(caught.value)
            assert "Dock" in str(caught.value)
        with pytest.raises(ConstraintError, match=r"Next\.from is required"):
            run(docks, "insert Next { from: $a, to: 7 }", "$a: I64?", {"a": None})

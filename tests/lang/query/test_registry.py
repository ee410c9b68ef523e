"""Stored queries: loading, validation against a schema, catalog entries."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest
from omnigraph.lang.query.registry import Registry, StoredSource
from tests.lang.query.schema_of_tests import catalog

BY_NAME = """
query by_name($n: String, $min: I64?, $tags: [String], $since: Date)
  @description("People by name") @instruction("Give the full name")
{ match { $p: Person { name: $n } } return { $p.handle } }
"""


def test_an_entry_carries_what_clients_need() -> None:
    registry = Registry.load([StoredSource("by_name", BY_NAME, tool_name="find_person")])
    (entry,) = registry.exposed()
    assert entry.to_json() == {
        "name": "by_name",
        "tool_name": "find_person",
        "description": "People by name",
        "instruction": "Give the full name",
        "mutation": False,
        "params": [
            {"name": "n", "kind": "string", "nullable": False},
            {"name": "min", "kind": "bigint", "nullable": True},
            {"name": "tags", "kind": "list", "item_kind": "string", "nullable": False},
            {"name": "since", "kind": "date", "nullable": False},
        ],
    }


def test_an_entry_without_annotations_leaves_them_out() -> None:
    text = 'query q() { delete Team where code = "a" }'
    (entry,) = Registry.load([StoredSource("q", text)]).exposed()
    assert entry.to_json() == {"name": "q", "tool_name": "q", "mutation": True, "params": []}


def test_all_load_problems_are_collected() -> None:
    with pytest.raises(BadRequest) as caught:
        Registry.load(
            [
                StoredSource("broken", "query broken( {"),
                StoredSource("other", BY_NAME),
                StoredSource("by_name", BY_NAME, tool_name="t"),
                StoredSource(
                    "q", "query q() { match { $p: Person } return { $p } }", tool_name="t"
                ),
            ]
        )
    problems = caught.value.details["problems"]
    assert len(problems) == 3
    assert "broken" in problems[0]
    assert "other" in problems[1]
    assert "by_name" in problems[1]
    assert "`t`" in problems[2]


def test_hidden_queries_may_share_a_tool_name() -> None:
    text = "query q() { match { $p: Person } return { $p } }"
    registry = Registry.load(
        [
            StoredSource("by_name", BY_NAME, tool_name="t"),
            StoredSource("q", text, tool_name="t", expose=False),
        ]
    )
    assert [entry.stored.name for entry in registry.exposed()] == ["by_name"]


def test_a_query_that_does_not_fit_the_schema_is_a_breakage() -> None:
    text = "query q() { match { $p: Gone } return { $p } }"
    validation = Registry.load([StoredSource("q", text)]).validate(catalog())
    assert list(validation.breakages) == ["q"]
    assert "T1" in str(validation.breakages["q"])


def test_an_exposed_vector_parameter_is_a_warning() -> None:
    text = """
      query q($v: Vector(3)) {
        match { $d: Doc } return { $d.slug } order { nearest($d.vec, $v) } limit 3
      }
    """
    exposed = Registry.load([StoredSource("q", text)]).validate(catalog())
    hidden = Registry.load([StoredSource("q", text, expose=False)]).validate(catalog())
    assert exposed.breakages == hidden.breakages == {}
    assert len(exposed.warnings) == 1
    assert "`$v`" in exposed.warnings[0]
    assert hidden.warnings == ()


def test_a_source_with_a_query_without_a_name_is_a_load_error_naming_the_file() -> None:
    text = (
        "query a() { match { $t: Team } return { $t.code } } match { $t: Team } return { $t.code }"
    )
    with pytest.raises(BadRequest, match=r"teams\.gq.*without a name"):
        Registry.load([StoredSource("a", text, filename="teams.gq")])


def test_a_stored_query_may_take_rows_from_another_of_its_file() -> None:
    text = """
      query a() { match { $t: Team } return { $t.code as c } }
      query b($rows: [{ n: I64? }]) { for $r in $rows match { $x: a() } return { $x.c, $r.n } }
    """
    registry = Registry.load([StoredSource("b", text)])
    assert not registry.validate(catalog()).breakages
    (exposed,) = registry.exposed()
    assert exposed.to_json()["params"] == [
        {
            "name": "rows",
            "kind": "list",
            "item_kind": "object",
            "nullable": False,
            "fields": [{"name": "n", "kind": "bigint", "nullable": True}],
        }
    ]

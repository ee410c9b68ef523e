"""Lint: statuses, findings, and the description of what a query does."""

from __future__ import annotations

import pytest

from omnigraph.lang.query.lint import lint
from omnigraph.lang.query.plan_findings import Finding
from omnigraph.lang.schema import compile_schema
from tests.lang.query.schema_of_tests import catalog


def access(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"kind": kind, "type_name": name} for kind, name in pairs]


def test_a_file_that_does_not_parse_is_one_finding() -> None:
    report = lint(catalog(), "query q( {", query_path="a.gq").to_json()
    assert report["status"] == "error"
    assert (report["errors"], report["warnings"], report["infos"]) == (1, 0, 0)
    assert report["queries_processed"] == 0
    assert report["results"] == []
    assert [finding["code"] for finding in report["findings"]] == ["Q000"]
    assert report["query_path"] == "a.gq"


def test_a_file_that_does_not_parse_says_where() -> None:
    text = "// 🙂\nquery q() { match { $p: Person } return { $p.name } limt 3 }"
    report = lint(catalog(), text)
    (finding,) = report.findings
    start = text.index("limt")
    span = {"start": start, "end": start + 4, "line": 2, "column": start - 4}
    assert finding.diagnostic == {
        "kind": "parse",
        "hint": "did you mean `limit`?",
        "span": span,
    }
    assert report.to_json()["findings"][0]["diagnostic"] == finding.diagnostic


def test_a_query_that_fails_says_where() -> None:
    text = "query bad() { match { $p: Persn } return { $p.name } }"
    (result,) = lint(catalog(), text).results
    start = text.index("Persn")
    assert result.diagnostic == {
        "kind": "type",
        "rule": "T1",
        "hint": "did you mean `Person`?",
        "span": {"start": start, "end": start + 5, "line": 1, "column": start + 1},
    }
    assert result.to_json()["diagnostic"] == result.diagnostic
    (good,) = lint(catalog(), text.replace("Persn", "Person")).to_json()["results"]
    assert "diagnostic" not in good


def test_a_failure_without_a_place_has_its_kind() -> None:
    text = "query wide($c: String) { update Person set { age: 3000000000 } where handle = $c }"
    (result,) = lint(catalog(), text).results
    assert result.diagnostic == {"kind": "constraint"}


def test_a_broken_query_does_not_hide_the_others() -> None:
    text = """
      query bad() { match { $p: Persn } return { $p.name } }
      query good() { match { $p: Person } return { $p.name } }
      query wide($c: String) { update Person set { age: 3000000000 } where handle = $c }
    """
    report = lint(catalog(), text).to_json()
    assert report["status"] == "error"
    assert report["errors"] == 2
    bad, good, wide = report["results"]
    assert (bad["name"], bad["kind"], bad["status"]) == ("bad", "read", "error")
    assert "T1" in bad["error"]
    assert "operation" not in bad
    assert (good["status"], "error" in good) == ("ok", False)
    assert (wide["kind"], wide["status"]) == ("mutation", "error")
    assert "3000000000" in wide["error"]


def test_a_mutation_without_parameters_is_a_warning() -> None:
    report = lint(catalog(), 'query q() { delete Team where code = "a" }')
    assert (report.status, report.warnings) == ("ok", 1)
    assert "parameters" in report.results[0].warnings[0]


def test_nullable_properties_no_update_sets() -> None:
    text = """
      query b($t: String) { update Team set { title: $t } where code = "x" }
      query a($t: String) { update Team set { title: $t } where code = "y" }
      query bad($t: I32) { update Person set { name: $t } where handle = "y" }
    """
    report = lint(catalog(), text).to_json()
    (finding,) = report["findings"]
    assert (finding["severity"], finding["code"]) == ("warning", "L201")
    assert (finding["type_name"], finding["property"]) == ("Team", "budget")
    assert finding["queries"] == ["a", "b"]


def test_embed_targets_and_required_properties_are_not_expected_to_be_updated() -> None:
    text = 'query q($s: F64) { update Doc set { score: $s } where slug = "x" }'
    findings = lint(catalog(), text).findings
    assert [finding.property for finding in findings] == ["raw"]


def test_the_result_description_names_every_column() -> None:
    text = """
      query q($v: Vector(3), $n: I64?) {
        match { $d: Doc  $p wrote $d }
        return {
          $p, $p.age, $p.wealth, $p.height, $p.born, $p.seen, $p.active as a, $p.tags, $p.rank,
          $d.vec, $n, "x" as s, nearest($d.vec, $v) as distance
        }
        order { distance } limit 1
      }
    """
    (result,) = lint(catalog(), text).to_json()["results"]
    described = {column["name"]: column for column in result["operation"]["result"]}
    kinds = {name: (column["kind"], column["nullable"]) for name, column in described.items()}
    assert kinds == {
        "p": ("string", False),
        "p.age": ("int", True),
        "p.wealth": ("bigint", True),
        "p.height": ("float", True),
        "p.born": ("date", True),
        "p.seen": ("datetime", True),
        "a": ("bool", True),
        "p.tags": ("list", True),
        "p.rank": ("string", False),
        "d.vec": ("vector", False),
        "n": ("bigint", True),
        "s": ("string", False),
        "distance": ("float", False),
    }
    assert described["p.tags"]["item_kind"] == "string"
    assert described["d.vec"]["vector_dim"] == 3


def test_aggregates_are_described_by_their_result() -> None:
    text = """
      query q() { match { $p: Person } return { count($p), sum($p.age), max($p.name), max($p.wealth) as w } }
    """
    (result,) = lint(catalog(), text).to_json()["results"]
    assert [(c["name"], c["kind"], c["nullable"]) for c in result["operation"]["result"]] == [
        ("count", "bigint", False),
        ("sum", "bigint", True),
        ("max", "string", True),
        ("w", "bigint", True),
    ]


def test_reads_include_both_ends_of_edges_also_inside_not() -> None:
    text = """
      query q() { match { $t: Team  not { $t memberOf $p  $p wrote $_ } } return { $t.code } }
    """
    (result,) = lint(catalog(), text).to_json()["results"]
    assert result["operation"]["reads"] == access(
        ("edge", "MemberOf"), ("edge", "Wrote"), ("node", "Doc"), ("node", "Person"),
        ("node", "Team"),
    )  # fmt: skip
    assert result["operation"]["writes"] == []


def test_a_node_delete_touches_every_incident_edge_type() -> None:
    text = "query q($c: String) { delete Team where code = $c  }"
    (result,) = lint(catalog(), text).to_json()["results"]
    touched = access(("edge", "MemberOf"), ("node", "Team"))
    assert result["operation"] == {"result": [], "reads": touched, "writes": touched}


def test_an_edge_insert_reads_its_endpoints() -> None:
    text = "query q($a: String) { insert Wrote { from: $a, to: $a } }"
    (result,) = lint(catalog(), text).to_json()["results"]
    assert result["operation"]["reads"] == access(
        ("edge", "Wrote"), ("node", "Doc"), ("node", "Person")
    )
    assert result["operation"]["writes"] == access(("edge", "Wrote"))


def findings(text: str, code: str) -> list[Finding]:
    return [one for one in lint(catalog(), text).findings if one.code == code]


def test_an_insert_that_leaves_out_an_optional_property_clears_it() -> None:
    text = """
      query a($c: String) { insert Team { code: $c, title: "t" } }
      query b($c: String) { insert Team { code: $c } }
      query c($c: String) { upsert Team { code: $c } }
    """
    cleared = {one.property: one.queries for one in findings(text, "L202")}
    assert cleared == {"budget": ("a", "b"), "title": ("b",)}
    assert "upsert" in findings(text, "L202")[0].message
    assert {one.property for one in findings(text, "L201")} == {"budget", "title"}


def test_an_update_of_a_matched_node_counts_as_an_update() -> None:
    text = "query q($c: String) { match { $t: Team { code: $c } } update $t set { title: $c } }"
    assert [one.property for one in findings(text, "L201")] == ["budget"]


@pytest.mark.parametrize(
    ("match", "found"),
    [
        ("$p: Person  $p knows{1,} $q", True),
        ("$p knows{2,} $q", True),
        ("$p: Person { handle: $h }  $p knows{1,} $q", False),
        ("$p: Person  $p.age > 3  $p knows{1,} $q", False),
        ("$p: Person  $p knows{1,9} $q", False),
        ("$p memberOf $t  $p knows{1,} $q", False),
    ],
)
def test_a_search_from_every_node_is_a_warning(match: str, found: bool) -> None:
    text = f"query q($h: String) {{ match {{ {match} }} return {{ count(*) as n }} }}"
    assert bool(findings(text, "L203")) == found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("$t.budget > 3", True),
        ("not $t is null", True),
        ("$t.budget + 1 > 3", True),
        ("$t.budget > 3 and $p.age > 3", True),
        ("$t.budget > 3 or $t.title = $p.name", True),
        ('search($t.code, "x")', True),
        ("exists { $o memberOf $t }", True),
        ("exists { $p knows $o  $o memberOf $t } and $p.age > 3", True),
        ("exists { $p knows $o  exists { $o memberOf $t } }", True),
        ("exists { $p knows $o  $o.age > $t.budget }", True),
        ("exists { $o memberOf $t } or $p.age > 3", False),
        ("not { $o memberOf $t }", False),
        ("not exists { $o memberOf $t }", False),
        ("exists { $p knows $o }", False),
        ("$t is null or $t.budget > 3", False),
        ("not ($t.budget > 3)", False),
        ("coalesce($t.budget, 0) < 3", False),
        ("$p.age > 3", False),
        ("$t.budget > 3 or $p.age > 3", False),
    ],
)
def test_a_condition_that_undoes_an_optional_block_is_a_warning(
    condition: str, found: bool
) -> None:
    text = f"query q() {{ match {{ $p: Person  optional {{ $p memberOf $t }}  {condition} }} return {{ $p }} }}"
    warned = findings(text, "L204")
    assert bool(warned) == found
    assert all("$t" in one.message and one.queries == ("q",) for one in warned)


def test_reads_include_blocks_in_conditions_and_output_and_sources() -> None:
    text = """
      query docs() { match { $d: Doc } return { $d.slug as s } }
      query q() {
        match { $t: Team  $x: docs()  exists { $t memberOf $p } or $t.budget = 3 }
        return { $t.code, exists { $t memberOf $p  $p knows $q } as k }
      }
    """
    result = lint(catalog(), text).to_json()["results"][1]
    assert result["operation"]["reads"] == access(
        ("edge", "Knows"), ("edge", "MemberOf"), ("node", "Doc"), ("node", "Person"), ("node", "Team")
    )  # fmt: skip


def test_what_a_mutation_returns_is_described() -> None:
    text = """
      query q($rows: [{ c: String }]) {
        for $r in $rows insert $t: Team { code: $r.c } return { $t { code, budget } as t, collect($r.c) as cs }
      }
    """
    (result,) = lint(catalog(), text).to_json()["results"]
    code = {"name": "code", "kind": "string", "nullable": False}
    budget = {"name": "budget", "kind": "bigint", "nullable": True}
    assert result["operation"]["result"] == [
        {"name": "t", "kind": "object", "nullable": False, "fields": [code, budget]},
        {"name": "cs", "kind": "list", "item_kind": "string", "nullable": False},
    ]


def test_a_query_without_a_name_is_linted_under_none() -> None:
    report = lint(catalog(), 'delete Team where code = "a"').to_json()
    assert report["results"][0]["name"] is None
    assert "warnings" not in report["results"][0]


def test_an_insert_that_does_not_say_since_when():
    schema = (
        "node P { slug: String @key  since: Date?  until: Date?  @valid(since, until) } "
        'edge E: P -> P { since: Date? @default("2020-01-01")  until: Date?  @valid(since, until) } '
        "edge F: P -> P { since: Date?  until: Date?  @valid(since, until) }"
    )
    text = """
    query plain($s: String) { insert P { slug: $s, until: date("2020-01-01") } }
    query dated($s: String, $t: Date) { insert P { slug: $s, since: $t } }
    query merged($s: String) { upsert P { slug: $s } }
    query edges($a: String) { insert E { from: $a, to: $a } insert F { from: $a, to: $a } }
    query begun($a: String) { assert F { from: $a, to: $a } }
    """
    report = lint(compile_schema(schema).catalog, text)
    assert not report.errors, [str(one.failure) for one in report.results]
    found = [one for one in report.findings if one.code == "L208"]
    assert [(one.type_name, one.property, one.queries) for one in found] == [
        ("F", "since", ("edges",)),
        ("P", "since", ("plain",)),
    ]


def test_when_without_a_period_and_conditions_on_the_end_of_what_holds_are_warnings() -> None:
    schema = (
        "node P { slug: String @key }\n"
        "node R { slug: String @key  since: Date?  until: Date?  @valid(since, until) }\n"
        "edge E: P -> P\n"
        "edge F: P -> P { since: Date?  until: Date?  @valid(since, until) }"
    )
    text = """
    query vain() { match { $p: P ever  $p e $q as of date("2020-01-01") } return { $p } }
    query whole() { match { $p: P  not { $p e $q } } ever return { $p } }
    query meant() { match { $p: P  $p f $q ever  not { $r: R ever  $r.slug = $p.slug } } return { $p } }
    query ended() { match { $r: R  $r.until is not null } return { $r } }
    query edges() { match { $p $e:f $q  $e.until > date("2020-01-01") } return { $p } }
    query told() { match { $r: R ever  $r.until is not null } return { $r } }
    query inside() { match { $p f[until is null] $q } return { $p } }
    """
    report = lint(compile_schema(schema).catalog, text)
    assert not report.errors, [str(one.failure) for one in report.results]
    vain = [one for one in report.findings if one.code == "L206"]
    assert [one.queries for one in vain] == [("vain",), ("vain",), ("whole",)]
    assert any("$p e $q" in one.message for one in vain)
    ends = [one for one in report.findings if one.code == "L207"]
    assert [(one.type_name, one.property, one.queries) for one in ends] == [
        ("F", "until", ("edges",)),
        ("F", "until", ("inside",)),
        ("R", "until", ("ended",)),
    ]
    assert all("ever" in one.message for one in ends)

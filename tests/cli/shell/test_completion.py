"""What Tab offers at a place of a text."""

from pathlib import Path

import pytest

from omnigraph.cli.shell.query_completion import Vocabulary, complete
from omnigraph.cli.shell.statements import DOTS
from omnigraph.language import parse_schema

ROOT = Path(__file__).parents[3]

CATALOG = parse_schema(
    """
    node Person { name: String @key  age: I32? }
    node Company { slug: String @key  founded: Date? }
    edge Knows: Person -> Person { since: Date? }
    edge WorksAt: Person -> Company
    """
).catalog
NAMES = Vocabulary(CATALOG, lambda: ["main", "side"], lambda: ["v1"])
PERSON, COMPANY = ["name", "age"], ["slug", "founded"]
TYPES = ["Company", "Person"]

#: A text with the cursor at `|`, what is offered there, and what is not.
PLACES = {
    "": (["query ", "match {", "for ", "insert "], TYPES),
    ".": ([".help", ".branch", ".quit"], ["query "]),
    ".br": ([".branch"], [".at"]),
    ".branch ": (["main", "side"], ["tag:v1"]),
    ".branch s": (["side"], ["main"]),
    ".at ": (["main", "tag:v1"], []),
    ".schema P": (["Person"], ["Company"]),
    ".format j": (["json", "jsonl"], ["csv"]),
    ".explain q": (["query "], []),
    ".explain query q() { match { $p: |": (TYPES, ["Knows"]),
    "query q($n: |": (["String", "I32", "Vector("], TYPES),
    "query q() { |": (["match {", "insert ", "delete "], ["return {"]),
    "query q() { match { $p: |": (TYPES, ["Knows", "String"]),
    "query q() { match { $p: per|": (["Person"], ["Company"]),
    "query q() { match { $p: Person { |": (["name: ", "age: "], ["slug: "]),
    "query q() { match { $p: Person $p |": (["knows", "worksAt"], []),
    "query q() { match { $c: Company $c |": (["worksAt"], ["knows"]),
    "query q() { match { $p worksAt $c $c.|": (COMPANY, PERSON),
    "query q() { match { $c: Company $c worksAt $x $x.|": (PERSON, COMPANY),
    "query q() { match { $p knows{1,2} $q  $q.|": (PERSON, COMPANY),
    "query q() { match { $p $e: knows $q  $e.|": (["since"], PERSON),
    "query q() { match { $p $e: |": (["knows", "worksAt"], TYPES),
    "query q() { match { $p knows $q $c: |": (TYPES, ["knows"]),
    "query q() { match { $p knows $q |": (["$p", "$q", "not {", "search("], ["knows"]),
    "query q($n: String) { match { $p: Person { name: $|": (["$n", "$p"], []),
    'query q() { match { $p: Person { name: "|': ([], ["true"]),
    "query q() { match { $p: Person } |": (["return {"], ["match {"]),
    "query q() { match { $p: Person } return { |": (["$p", "count("], ["bm25("]),
    "query q() { match { $p: Person } return { count($p.|": (PERSON, COMPANY),
    "query q() { match { $p: Person } return { $p.| } }": (PERSON, COMPANY),
    "query q() { match { $p: Person } return { $p.name } |": (["order {", "limit "], []),
    "query q() { match { $p: Person } return { $p.name |": (["as ", "$p"], ["insert ", "asc"]),
    "query q() { match { $p: Person } return { $|": (["$p"], ["as "]),
    "query q() { match { } return { } order { |": (["bm25("], ["desc", "as "]),
    "query q() { match { $p: Person } return { $p.age as n } order { n |": (["asc", "desc"], ["as "]),
    "query q() { match { $p: Person $p.name |": (["contains ", "in ", "is ", "ends_with "], ["knows"]),
    "match { $p: Person $p.age > 1 |": (["and ", "or ", "optional {", "exists {", "lower("], ["in "]),
    "match { $p: Person $p.age is |": (["null", "not null"], ["contains "]),
    "match { $p: Person optional { $p |": (["knows", "worksAt"], []),
    "match { $p: Person } |": (["return {", "update ", "upsert "], ["having {"]),
    "match { $p: Person } return |": (["distinct "], []),
    "match { $p: Person } return { $p.name } |": (["having {", "order {", "limit ", "offset "], []),
    "match { $p: Person } return { lower($p.|": (PERSON, COMPANY),
    "query q() { for |": ([], ["match {"]),
    "query q() { match { $p: Person $p.age > |": (["$p", "true"], ["contains "]),
    "query q() { match { not { $p: Person $p |": (["knows"], ["name"]),
    "query q() { match { $p: Person { name: \"x\", |": (["age: "], ["$p", "contains "]),
    "query q() { insert Person { name: |": (["true", 'date("'], ["name: "]),
    "query q() { match { $p: Person } } |": ([], ["query "]),
    "query q() { insert |": ([*TYPES, "Knows"], []),
    "query q() { insert Knows { |": (["from: ", "to: ", "since: "], []),
    "query q() { update Person |": (["set {"], ["where "]),
    "query q() { update Person set { age: 1 } |": (["where "], []),
    "query q() { update Person set { |": (["age: "], ["slug: "]),
    "query q() { delete Company where |": (COMPANY, PERSON),
}  # fmt: skip


@pytest.mark.parametrize("text", PLACES)
def test_what_fits_is_offered_and_nothing_else(text):
    wanted, unwanted = PLACES[text]
    cursor = text.find("|") if "|" in text else len(text)
    text = text.replace("|", "")
    start, found = complete(text, cursor, NAMES)
    offered = [one.text for one in found]
    assert [one for one in wanted if one not in offered] == []
    assert [one for one in unwanted if one in offered] == []
    assert all(one.lower().startswith(text[start:cursor].lower()) for one in offered)
    assert text[:start] + text[start:cursor] == text[:cursor]


def test_every_dot_command_is_in_the_manual():
    manual = (ROOT / "docs/user/cli.md").read_text("utf-8")
    assert [dot.usage for dot in DOTS if f"| `{dot.usage}` |" not in manual] == []

"""Rules that become stricter are judged on every stored row before a schema is applied."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError, InputError, SchemaViolation
from omnigraph.write import schema_checks
from omnigraph.write.schema_checks import RowChecks
from tests.write.writing import nodes, run, state

SCHEMA = """
node Meter {
  no: String @key
  load: I32?
  seal: String?
  area: U64?
  ratio: F64?
  kind: enum(gas, water, heat)?
  tags: [String]?
}
node Site { code: String @key }
edge At: Meter -> Site { since: Date?  share: F64? }
"""


def meter(number, **values):
    return {"type": "Meter", "data": {"no": f"m{number:02}", **values}}


def fitted(number, site):
    return {"edge": "At", "from": f"m{number:02}", "to": site, "data": {"id": f"e{number}{site}"}}


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(
            [
                *(meter(n, load=n, seal=f"s{n}", area=1 << 63, ratio=n / 4, kind="gas") for n in range(30)),
                meter(30, load=99, seal="s7", kind="water"),
                meter(31, seal="S7", ratio=-0.5, kind="heat"),
                *({"type": "Site", "data": {"code": code}} for code in "abc"),
                *(fitted(n, "a") for n in range(5)),
                fitted(0, "b"), fitted(0, "c"), fitted(4, "b"),
            ]
        )  # fmt: skip
        yield graph


def with_(*pairs):
    text = SCHEMA
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def rule(text):
    return ("  tags: [String]?\n", f"  tags: [String]?\n  {text}\n")


def ids(*numbers):
    return [f"m{number:02}" for number in numbers]


CASES = {
    "null": (("load: I32?", "load: I32"), "node:Meter.load", "required", 1, ids(31)),
    "enum": (
        ("enum(gas, water, heat)?", "enum(gas, coal)?"),
        "node:Meter.kind",
        "enum(coal, gas)",
        2,
        ids(30, 31),
    ),
    "range": (
        rule("@range(load, ..9)"),
        "node:Meter.load",
        "@range(load, ..9)",
        21,
        ids(*range(10, 30)),
    ),
    "check": (
        rule('@check(seal, "^s[0-9]+$")'),
        "node:Meter.seal",
        '@check(seal, "^s[0-9]+$")',
        1,
        ids(31),
    ),
    "unique": (
        ("seal: String?", "seal: String? @unique"),
        "node:Meter.seal",
        "@unique(seal)",
        2,
        ids(7, 30),
    ),
    "unique group": (
        rule("@unique(area, kind)"),
        "node:Meter",
        "@unique(area, kind)",
        30,
        ids(*range(20)),
    ),
    "unique ends": (
        ("since: Date?", "since: Date?  @unique(dst)"),
        "edge:At",
        "@unique(dst)",
        7,
        ["e0a", "e0b", "e1a", "e2a", "e3a", "e4a", "e4b"],
    ),
    "at most": (
        ("Meter -> Site", "Meter -> Site @card(0..1)"),
        "edge:At",
        "@card(0..1)",
        2,
        ids(0, 4),
    ),
    "at least": (
        ("Meter -> Site", "Meter -> Site @card(2..)"),
        "edge:At",
        "@card(2..)",
        3,
        ids(1, 2, 3),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_rule_that_rows_break(graph, case):
    change, element, text, rows, row_ids = case
    before = state(graph)
    for attempt in (graph.schema.apply, lambda source: graph.schema.plan(source, check=True)):
        with pytest.raises(SchemaViolation) as caught:
            attempt(with_(change))
        assert caught.value.details["violations"] == [
            {"element": element, "rule": text, "rows": rows, "row_ids": row_ids}
        ]
        assert caught.value.http_status == 409
        assert text in str(caught.value)
        assert row_ids[0] in str(caught.value)
    assert state(graph) == before


HOLDING = {
    "null": ("seal: String?", "seal: String", {"seal": None}),
    "enum": (
        "kind: enum(gas, water, heat)?",
        "kind: enum(gas, water, heat, coal)?",
        {"kind": "oil"},
    ),
    "range": (*rule("@range(ratio, -0.5..7.25)"), {"ratio": 7.5}),
    "unsigned": (*rule("@range(area, 9223372036854775808..)"), {"area": 1}),
    "check": (*rule('@check(seal, "(?i)^s")'), {"seal": "x"}),
    "unique": ("load: I32?", "load: I32? @unique", {"load": 4}),
}


@pytest.mark.parametrize("case", HOLDING.values(), ids=HOLDING)
def test_a_rule_that_rows_keep_holds_from_then_on(graph, case):
    old, new, bad = case
    if "9223372036854775808" in new:
        new = new.replace("9223372036854775808", "9223372036854775807")
    source = with_((old, new))
    plan = graph.schema.plan(source, check=True)
    assert plan.checked
    assert plan.to_json()["checked"] is True
    assert graph.schema.apply(source).applied
    with pytest.raises((ConstraintError, InputError)):
        graph.load([meter(1, **{"seal": "s", **bad})])


def test_a_tightened_cardinality_holds_from_then_on(graph):
    graph.schema.apply(with_(("Meter -> Site", "Meter -> Site @card(1..3)")))
    with pytest.raises(ConstraintError, match="@card"):
        graph.load([fitted(0, "a") | {"data": {"id": "more"}}], mode="append")


def test_all_broken_rules_of_a_plan_are_told_at_once(graph):
    source = with_(
        *(case[0] for name, case in CASES.items() if name in {"null", "range", "at most"})
    )
    with pytest.raises(SchemaViolation) as caught:
        graph.schema.apply(source)
    assert [(one["element"], one["rule"], one["rows"]) for one in caught.value.details["violations"]] == [
        ("node:Meter.load", "required", 1),
        ("node:Meter.load", "@range(load, ..9)", 21),
        ("edge:At", "@card(0..1)", 2),
    ]  # fmt: skip


def test_rows_are_judged_under_their_new_names_and_types(graph):
    source = with_(
        ("load: I32?", 'burden: I64? @rename_from("load")'), rule("@range(burden, ..98)")
    )
    with pytest.raises(SchemaViolation) as caught:
        graph.schema.apply(source)
    (found,) = caught.value.details["violations"]
    assert (found["element"], found["row_ids"]) == ("node:Meter.burden", ids(30))


def test_a_rule_of_a_new_property_is_kept_by_all_rows(graph):
    source = with_(("tags: [String]?", "tags: [String]?  code: I32? @unique  @range(code, 1..2)"))
    assert graph.schema.plan(source, check=True).checked
    assert graph.schema.apply(source).applied


def test_rules_are_dropped_without_looking_at_rows(graph):
    source = with_(rule("@range(load, ..99)"), ("seal: String?", "seal: String? @unique"))
    run(graph, 'update Meter set { seal: "s77" } where no = "m30"')
    graph.schema.apply(source)
    done = graph.schema.apply(SCHEMA)
    assert [step.kind for step in done.steps] == ["drop_constraint", "drop_constraint"]
    graph.load([meter(1, load=100, seal="s2")])
    assert nodes(graph, "Meter")["m01"]["seal"] == "s2"


def test_what_is_written_after_the_first_look_is_judged_under_the_locks(graph, monkeypatch):
    judge, seen = RowChecks.run, []

    def run_and_write(checks, *given):
        judge(checks, *given)
        seen.append(1)
        if len(seen) == 1:
            with og.open(graph.uri) as other:
                other.load([meter(1, load=1000)])

    monkeypatch.setattr(RowChecks, "run", run_and_write)
    with pytest.raises(SchemaViolation) as caught:
        graph.schema.apply(with_(rule("@range(load, ..99)")))
    (found,) = caught.value.details["violations"]
    assert found["row_ids"] == ids(1)
    assert graph.schema.source == SCHEMA


def test_rows_are_read_once_when_nobody_writes(graph, monkeypatch):
    asked = []
    monkeypatch.setattr(
        schema_checks, "broken_rules", lambda rules, *_: asked.append(len(rules)) or []
    )
    graph.schema.apply(with_(rule("@range(load, ..99)")))
    assert asked == [1, 0]


def test_an_unsupported_plan_is_not_checked(graph):
    plan = graph.schema.plan(with_(("load: I32?", "load: String?")), check=True)
    assert (plan.supported, plan.checked) == (False, False)

"""`@metric`: where it may stand, what it is worth, and that a change of it is one step without data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.errors import CatalogError, ParseError
from omnigraph.lang.query.lint import lint
from omnigraph.lang.schema import compile_schema, create, plan
from omnigraph.lang.schema.migrate.plan_steps import SchemaStep
from omnigraph.lang.schema.migrate.read_steps import read_step
from omnigraph.lang.schema.shape import Annotation

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def planned(old: str, new: str) -> tuple[SchemaStep, ...]:
    return plan(create(compile_schema(old).shape, DOMAIN), new).steps


def metric(text: str, name: str = "v") -> str:
    return compile_schema(text).catalog.nodes["N"].properties[name].metric


def node(annotation: str, kind: str = "Vector(2)?") -> str:
    return f"node N {{ v: {kind} {annotation} }}"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("", "l2"),
        ("@metric(l2)", "l2"),
        ("@metric(cosine)", "cosine"),
        ("@index @metric(dot)", "dot"),
        ('@metric("dot") @index', "dot"),
    ],
)
def test_a_vector_has_one_metric(annotation, expected):
    assert metric(node(annotation)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (node("@metric(hamming)"), ["@metric", "hamming"]),
        (node("@metric"), ["@metric"]),
        (node("@metric(dot, scale=1)"), ["@metric", "dot"]),
        (node("@metric(dot) @metric(dot)"), ["@metric(dot)", "multiple times"]),
        (node("@metric(cosine)", "String"), ["@metric", "cosine", "String"]),
        (node("@metric(cosine)", "[F32]"), ["@metric", "cosine"]),
        ("node N @metric(dot) { v: Vector(2)? }", ["@metric", "node type `N`"]),
        ("node N { }  edge E: N -> N { v: Vector(2)? @metric(dot) }", ["@metric", "E.v"]),
        ("interface I { v: String @metric(dot) }", ["@metric", "I.v"]),
    ],
)
def test_another_place_or_word_is_refused(text, words):
    with pytest.raises(ParseError) as caught:
        compile_schema(text)
    assert all(word in str(caught.value) for word in words)


class TestInterfaces:
    COSINE = "interface I { v: Vector(2)? @metric(cosine) }  node N implements I "

    @pytest.mark.parametrize(
        "body", ["{ }", "{ v: Vector(2)? }", "{ v: Vector(2)? @metric(cosine) }"]
    )
    def test_a_metric_is_inherited(self, body):
        assert metric(self.COSINE + body) == "cosine"

    @pytest.mark.parametrize(
        ("text", "theirs", "mine"),
        [
            (COSINE + "{ v: Vector(2)? @metric(l2) }", "cosine", "l2"),
            ("interface I { v: Vector(2)? }  node N implements I { v: Vector(2)? @metric(dot) }", "l2", "dot"),
        ],
    )  # fmt: skip
    def test_a_node_cannot_change_it(self, text, theirs, mine):
        with pytest.raises(CatalogError) as caught:
            compile_schema(text)
        assert all(word in str(caught.value) for word in ["N.v", theirs, mine])

    @pytest.mark.parametrize(("first", "second"), [("l2", "dot"), ("dot", "l2"), ("dot", "cosine")])
    @pytest.mark.parametrize("body", ["v: Vector(2)?", "v: Vector(2)? @metric(dot)"])
    @pytest.mark.parametrize("default", ["@metric(l2)", ""])
    def test_two_interfaces_need_the_same(self, first, second, body, default):
        """Whichever stands first, and whether the default is written or not."""
        notes = [default if one == "l2" else f"@metric({one})" for one in (first, second)]
        text = (
            f"interface A {{ v: Vector(2)? {notes[0]} }}  interface B {{ v: Vector(2)? {notes[1]} }}  "
            f"node N implements A, B {{ {body} }}"
        )
        with pytest.raises(CatalogError) as caught:
            compile_schema(text)
        assert all(word in str(caught.value) for word in ["N.v", first, second])

    def test_two_interfaces_may_agree(self):
        both = "interface A { v: Vector(2)? @metric(dot) }  interface B { v: Vector(2)? @metric(dot) } "
        assert metric(both + "node N implements A, B { v: Vector(2)? }") == "dot"


class TestPlans:
    def test_another_metric_is_one_step(self):
        steps = planned(node("@index"), node("@index @metric(cosine)"))
        told = {
            "kind": "change_metric",
            "type_kind": "node",
            "type_name": "N",
            "property_name": "v",
            "from": "l2",
            "to": "cosine",
        }
        assert [step.to_json() for step in steps] == [told]
        assert read_step(told) == steps[0]
        assert steps[0].describe() == "rank N.v by cosine, not by l2"

    def test_the_default_may_be_written_or_left_out(self):
        assert planned(node("@metric(l2)"), node("")) == ()
        assert planned(node(""), node("@metric(l2)")) == ()

    @pytest.mark.parametrize("source", [node("@metric(l2)"), node("")])
    def test_a_metric_stored_before_metrics_meant_something_is_no_change(self, source):
        shape = compile_schema(source).shape
        (type_,) = shape.nodes
        (prop,) = type_.properties
        said = (Annotation("metric", "l2"),)
        before = replace(type_, properties=(replace(prop, annotations=said),), annotations=said)
        assert plan(create(replace(shape, nodes=(before,)), DOMAIN), source).steps == ()

    def test_an_index_beside_it_is_a_step_of_its_own(self):
        steps = planned(node("@metric(dot)"), node("@metric(dot) @index"))
        assert [step.kind for step in steps] == ["add_constraint"]


def test_lint_says_the_metric_of_a_column():
    catalog = compile_schema("node N { k: String @key  v: Vector(2)? @metric(dot) }").catalog
    report = lint(catalog, "match { $n: N } return { $n.v as one, $n.k }")
    (query,) = report.to_json()["results"]
    one, key = query["operation"]["result"]
    assert (one["kind"], one["vector_dim"], one["metric"]) == ("vector", 2, "dot")
    assert "metric" not in key

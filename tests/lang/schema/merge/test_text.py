"""The text of a merged schema keeps what people wrote (schema-branches.md 4.1, Text)."""

from importlib import import_module

import pytest

from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.merge.merge import merge_schemas
from omnigraph.lang.schema.syntax.pieces import cut
from tests.lang.schema.fixtures import ROOT, cases
from tests.lang.schema.merge.table import BASE
from tests.lang.schema.merge.three_schemas import edited, graph, merge

YARD = """\
// The yard.
// Ask ann.

/* hulls */
node Ship {
    imo: String @key   // the number
    flag: String?
} // end of Ship

// harbours
node Port { code: String @key }

edge CallsAt: Ship -> Port @card(0..2) // at most two

// the end
"""


def merged_text(source=(), target=(), text=YARD):
    base = graph(text)
    feature, main = base.branch("feature"), base.branch("main")
    if source:
        feature.apply(edited(text, source))
    if target:
        main.apply(edited(text, target))
    merged = merge(base, feature, main)
    assert merged.conflicts == ()
    return merged.schema.text


ADDED = ("    flag: String?\n", "    flag: String?\n    // the year\n    built: I32?\n")
OWNER = ("node Port { code: String @key }", "node Port { code: String @key  owner: String? }")
TAG = ("// the end\n", "// tags\nnode Tag { word: String @key } // tag\n\n// the end\n")


def test_one_side_changed_is_its_text_as_it_stands():
    assert merged_text([ADDED]) == edited(YARD, [ADDED])
    assert merged_text((), [ADDED]) == edited(YARD, [ADDED])


def test_one_side_that_dropped_and_added_again_is_its_text_too():
    base = graph(YARD)
    moved = YARD.replace("    flag: String?\n", "").replace(
        "    imo:", "    flag: String?\n    imo:"
    )
    feature = base.branch("f").apply(YARD.replace("    flag: String?\n", "")).apply(moved)
    assert feature.ir.shape.shape_hash == base.ir.shape.shape_hash
    assert merge(base, feature, base.branch("m")).schema.text == moved


def test_both_changed_alike_is_the_targets_text():
    other = (ADDED[0], "    flag: String?\n    built: I32?   // year\n")
    assert merged_text([ADDED], [other]) == edited(YARD, [other])


def test_different_declarations_are_taken_as_they_stand():
    assert merged_text([ADDED], [OWNER]) == edited(YARD, [ADDED, OWNER])
    assert merged_text([OWNER], [ADDED]) == edited(YARD, [ADDED, OWNER])


def test_what_the_source_added_follows_with_its_comments():
    berth = ("// harbours\n", "// berths\nnode Berth { no: I32 @key }\n\n// harbours\n")
    # Ship, Berth, Port and CallsAt are in the target's order, and Tag comes after them.
    assert merged_text([TAG], [berth]) == edited(YARD, [TAG, berth])
    assert merged_text([berth], [TAG]) == edited(YARD, [TAG]).replace(
        "// the end", "// berths\nnode Berth { no: I32 @key }\n\n// the end"
    )


def test_a_declaration_that_both_changed_is_printed_below_its_comments():
    owner = ("    flag: String?\n", "    flag: String?\n    owner: String?\n")
    assert merged_text([ADDED], [owner]) == YARD.replace(
        YARD[YARD.index("node Ship") : YARD.index("// harbours")],
        "node Ship {\n  imo: String @key\n  flag: String?\n  owner: String?\n  built: I32?\n}\n\n",
    )


def test_comments_of_the_source_stand_above_a_printed_declaration_that_had_none():
    base = "node A { x: I32? }\n"
    source = "// about A\nnode A { x: I32?  y: I32? }\n"
    target = "node A { x: I32?  z: I32? }\n"
    text = graph(base)
    merged = merge(text, text.branch("f").apply(source), text.branch("m").apply(target))
    assert merged.schema.text == "// about A\nnode A {\n  x: I32?\n  z: I32?\n  y: I32?\n}\n"


def test_a_type_that_an_interface_changed_keeps_its_text():
    base = "interface Named { label: String? }\n\n// a pier\nnode Pier implements Named { no: I32 @key }\n"
    source = [("label: String?", "label: String?  rank: I32?")]
    target = [("no: I32 @key", "no: I32 @key  /* m */  depth: F64?")]
    assert merged_text(source, target, base) == edited(base, [*source, *target])


def test_an_edge_follows_a_renamed_type():
    source = [
        ("node Port {", 'node Harbour @rename_from("Port") {'),
        ("Ship -> Port", "Ship -> Harbour"),
    ]
    target = [("@card(0..2)", "@card(0..3)")]
    text = merged_text(source, target)
    assert '// harbours\nnode Harbour @rename_from("Port") { code: String @key }' in text
    assert "edge CallsAt: Ship -> Harbour @card(0..3)\n" in text


def test_a_dropped_declaration_goes_with_its_comments():
    source = [(YARD[YARD.index("// harbours") : YARD.index("// the end")], "")]
    assert merged_text(source, [ADDED]) == edited(YARD, [*source, ADDED])


@pytest.mark.parametrize(
    "line",
    [
        "built: I32? @default(7)",
        "built: F64? @default(0.5)",
        "built: F64? @default(100000000000000000000000.0)",
        'built: String? @default("a \\"b\\" \\\\ \\n")',
        "built: Bool? @default(true)",
        "built: enum(a, b)? @default(b)",
        'built: Date? @default("2020-02-29")',
        'built: [String]? @default(["a", "b\\"c"])',
        "built: [I64]? @default([1, 2])",
        'built: String? @description("says \\"hi\\"\\tthere")',
        'built: String? @audit("x", level="2", who="me")',
        "built: String? @audit",
        "built: Vector(3)? @embed(remark)",
        'built: Vector(3)? @embed(remark, model="m 1") @index',
        "built: Vector(3)? @metric(cosine)",
    ],
)
def test_what_is_printed_says_the_same(line):
    """Both sides change one declaration, so that it is printed; the helper compiles it again."""
    base = graph("node A {\n    k: I32 @key\n    remark: String?\n    // +\n}\n")
    source = base.branch("f").apply(base.text.replace("// +", line))
    target = base.branch("m").apply(base.text.replace("// +", "other: I32?"))
    wanted = compile_schema(base.text.replace("// +", f"{line}\n    other: I32?")).shape
    merged = merge(base, source, target)
    assert merged.schema.ir.shape.to_json() == wanted.to_json()
    assert merged.schema.text.startswith("node A {\n  k: I32 @key\n")


def test_a_metric_is_printed_as_it_is_documented():
    base = graph("node A { v: Vector(2)? }\n")
    source = base.branch("f").apply("node A { v: Vector(2)? @metric(dot) }\n")
    target = base.branch("m").apply("node A { v: Vector(2)?  n: I32? }\n")
    assert "  v: Vector(2)? @metric(dot)\n" in merge(base, source, target).schema.text


RULES = """\
node A {
    a: I32
    b: String
    f: F64?
    l: String? @index
    @key(a, b)
    @unique(b, l)
    @index(a, f)
    @range(a, -5..)
    @range(f, 0.0000001..1000000000000000000000000.5)
    @range(f, ..7)
    @check(b, "^\\\\d+\\"$")
}

edge E: A -> A @card(1..) @description("e") {
    w: I32? @index
    @unique(src, dst)
    @unique(src, w)
    @index(dst)
}

interface I { n: String? @unique  v: Vector(2)? @embed(n) }

node B implements I { n: String?  m: I32 @key }
"""


def test_printed_rules_say_the_same():
    base = graph(RULES)
    ours = [("a: I32\n", 'a: I32 @description("x")\n'), ("w: I32?", 'w: I32? @description("w")')]
    theirs = [("f: F64?", 'f: F64? @description("y")'), ("@card(1..)", "@card(0..)")]
    ours += [
        ("n: String? @unique", 'n: String? @unique @description("n")'),
        ("m: I32", 'm: I32 @description("q")'),
    ]
    theirs += [
        ("v: Vector(2)?", 'v: Vector(2)? @description("v")'),
        ("{ n: String?  m", '{ n: String? @description("o")  m'),
    ]
    merged = merge(
        base,
        base.branch("f").apply(edited(RULES, theirs)),
        base.branch("m").apply(edited(RULES, ours)),
    )
    wanted = compile_schema(edited(RULES, [*ours, *theirs])).shape
    assert merged.schema.ir.shape.to_json() == wanted.to_json()


@pytest.mark.parametrize("case", cases("printed"))
def test_a_text_is_cut_at_its_declarations(case):
    check_cut(case.given)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// nothing\n",
        "node A {}",
        "node A {} node B {} edge E: A -> B edge F: B -> A // f",
        "node A { node: String? edge: I32? } /* x */ node B {} /* y */\n// z",
        'node A @doc("node B { } // no") { x: String? @doc("}") }\nnode B {}',
        "node A {}\r\n// c\r\nnode B {}\r\n",
        BASE,
        (ROOT / "whole.pg").read_text("utf-8"),
    ],
)
def test_odd_texts_are_cut_at_their_declarations(text):
    check_cut(text)


def check_cut(text):
    pieces = cut(text)
    assert "".join(each.before + each.body for each in pieces.pieces) + pieces.rest == text
    for piece in pieces.pieces:
        (tree,) = cut(piece.body).pieces
        assert tree.tree == piece.tree
        assert tree.before == ""


def test_each_text_is_parsed_once_for_all_merges_of_a_side(monkeypatch):
    base = graph("node A { k: I32 @key }\nnode B { k: I32 @key }")
    source = base.branch("f").apply("node A { k: I32 @key a: I32? }\nnode B { k: I32 @key }")
    target = base.branch("m").apply("node A { k: I32 @key }\nnode B { k: I32 @key b: I32? }")
    sides = base.side, source.side, target.side
    parsed = []

    def spied(parse):
        return lambda text, *rest: parsed.append(text) or parse(text, *rest)

    for name in ("compile", "syntax.pieces", "merge.merged_text"):
        module = import_module(f"omnigraph.lang.schema.{name}")
        monkeypatch.setattr(module, "parse", spied(module.parse))
    first, again = (merge_schemas(*sides) for _ in range(2))
    assert first.schema.text == again.schema.text
    assert sorted(parsed) == sorted([source.text, target.text])

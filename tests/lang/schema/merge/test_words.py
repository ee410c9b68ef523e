"""The words of `resolve_schema`, and those it refuses (schema-branches.md 4.2)."""

import pytest

from omnigraph.errors import BadRequest
from tests.lang.schema.merge.three_schemas import edited, graph, merge

YARD = """\
node Ship {
    imo: String @key
    name: String
    flag: String?
    calls: U32?
}

node Port {
    code: String @key
}

edge CallsAt: Ship -> Port @card(0..2)
"""
FLAG, CALLS = "    flag: String?\n", "    calls: U32?\n"


def renamed(line, name):
    old, type_ = line.strip().split(": ")
    return line, f'    {name}: {type_} @rename_from("{old}")\n'


def sides(source=(), target=()):
    base = graph(YARD)
    feature, main = base.branch("feature"), base.branch("main")
    if source:
        feature.apply(edited(YARD, source))
    if target:
        main.apply(edited(YARD, target))
    return base, feature, main


def names(merged):
    return set(merged.schema.ir.type("node", "Ship").property_ids)


@pytest.fixture
def two_names():
    """Both sides gave `flag` and `calls` other names."""
    return sides(
        [renamed(FLAG, "home"), renamed(CALLS, "stops")],
        [renamed(FLAG, "registry"), renamed(CALLS, "visits")],
    )


@pytest.mark.parametrize(
    ("word", "expected"), [("ours", {"registry", "visits"}), ("theirs", {"home", "stops"})]
)
def test_a_word_decides_all_attributes_that_diverge(two_names, word, expected):
    merged = merge(*two_names, word)
    assert names(merged) == {"imo", "name"} | expected
    assert merged.resolved == ("node:Ship.calls", "node:Ship.flag")
    assert merged.conflicts == ()


def test_words_decide_element_by_element(two_names):
    merged = merge(*two_names, {"node:Ship.flag": "ours", "node:Ship.calls": "theirs"})
    assert names(merged) == {"imo", "name", "registry", "stops"}


def test_a_word_for_one_element_leaves_the_others(two_names):
    merged = merge(*two_names, {"node:Ship.flag": "ours"})
    assert merged.schema is None
    assert [each.element for each in merged.conflicts] == ["node:Ship.calls"]
    assert merged.resolved == ("node:Ship.flag",)


def test_a_word_decides_every_attribute_of_its_element():
    base, feature, main = sides(
        [(FLAG, '    home: String? @rename_from("flag") @description("a")\n')],
        [(FLAG, '    registry: String? @rename_from("flag") @description("b")\n')],
    )
    merged = merge(base, feature, main, {"node:Ship.flag": "theirs"})
    prop = merged.schema.ir.type("node", "Ship").shape.property("home")
    assert [each.value for each in prop.annotations] == ["a"]
    assert merged.resolved == ("node:Ship.flag",)


def test_the_side_of_the_word_wins_against_a_drop_of_the_source():
    base, feature, main = sides([(FLAG, "")])
    main.wrote("node:Ship.flag", "S3")
    assert [each.kind for each in merge(base, feature, main).conflicts] == ["schema_drop_vs_change"]
    kept = merge(base, feature, main, "ours")
    assert "flag" in names(kept)
    assert kept.schema.steps == ()
    assert kept.schema.ir.dropped == ()
    gone = merge(base, feature, main, {"node:Ship.flag": "theirs"})
    assert "flag" not in names(gone)
    assert [step.to_json()["kind"] for step in gone.schema.steps] == ["drop_property"]
    assert gone.resolved == ("node:Ship.flag",)


@pytest.mark.parametrize("resolve", ["theirs", {"node:Ship.flag": "theirs"}])
def test_what_the_target_dropped_does_not_come_back(resolve):
    base, feature, main = sides((), [(FLAG, "")])
    feature.wrote("node:Ship.flag", "S3")
    with pytest.raises(BadRequest, match=r"node:Ship\.flag.*dropped it") as error:
        merge(base, feature, main, resolve)
    assert error.value.details["element"] == "node:Ship.flag"
    merged = merge(base, feature, main, "ours")
    assert "flag" not in names(merged)
    assert merged.resolved == ("node:Ship.flag",)


def test_a_type_that_the_target_dropped_does_not_come_back():
    gone = [(YARD[YARD.index("node Port") :], "")]
    base, feature, main = sides((), gone)
    feature.wrote("edge:CallsAt", "c1")
    with pytest.raises(BadRequest, match="edge:CallsAt"):
        merge(base, feature, main, "theirs")
    merged = merge(base, feature, main, {"edge:CallsAt": "ours"})
    assert merged.schema.ir.edges == ()


def test_a_kept_edge_asks_for_the_type_it_ends_at():
    base, feature, main = sides([(YARD[YARD.index("node Port") :], "")])
    main.wrote("edge:CallsAt", "c1")
    assert [each.element for each in merge(base, feature, main).conflicts] == ["edge:CallsAt"]
    again = merge(base, feature, main, {"edge:CallsAt": "ours"})
    assert [(each.element, each.detail["changed"]) for each in again.conflicts] == [
        ("node:Port", ["edge:CallsAt"])
    ]
    kept = merge(base, feature, main, {"edge:CallsAt": "ours", "node:Port": "ours"})
    assert kept.schema.ir == main.ir
    assert kept.resolved == ("edge:CallsAt", "node:Port")
    broken = merge(base, feature, main, {"edge:CallsAt": "ours", "node:Port": "theirs"})
    assert [(each.kind, each.element) for each in broken.conflicts] == [
        ("schema_invalid", "edge:CallsAt")
    ]


@pytest.mark.parametrize("word", ["mine", "", "OURS", 1, True, ["ours"]])
def test_another_word_is_refused(two_names, word):
    with pytest.raises(BadRequest, match="decides nothing"):
        merge(*two_names, word)
    with pytest.raises(BadRequest, match="decides nothing"):
        merge(*two_names, {"node:Ship.flag": word})


def test_a_key_that_is_no_element_is_refused(two_names):
    with pytest.raises(BadRequest, match="keyed by elements"):
        merge(*two_names, {("node:Ship", "flag"): "ours"})


@pytest.mark.parametrize(
    "element", ["node:Ship", "node:Ship.name", "node:Ship.home", "Ship.flag", "x"]
)
def test_an_element_that_is_not_in_conflict_is_refused(two_names, element):
    with pytest.raises(BadRequest, match="not in conflict") as error:
        merge(*two_names, {element: "ours"})
    assert error.value.details["element"] == element
    assert "node:Ship.calls, node:Ship.flag" in str(error.value)


def test_a_mapping_is_refused_where_nothing_conflicts():
    base, feature, main = sides([(FLAG, "")])
    with pytest.raises(BadRequest, match="not in conflict"):
        merge(base, feature, main, {"node:Ship.flag": "ours"})
    with pytest.raises(BadRequest, match="not in conflict"):
        merge(base, base.branch("feature"), main, {"node:Ship.flag": "ours"})


@pytest.mark.parametrize("word", ["ours", "theirs"])
def test_a_word_has_no_effect_where_nothing_conflicts(word):
    base, feature, main = sides([(FLAG, "")], [(CALLS, "")])
    merged = merge(base, feature, main, word)
    assert names(merged) == {"imo", "name"}
    assert merged.resolved == ()


@pytest.mark.parametrize("word", ["ours", "theirs"])
def test_no_word_decides_a_clash(word):
    base, feature, main = sides(
        [(FLAG, FLAG + "    built: I32?\n")], [(FLAG, FLAG + "    built: String?\n")]
    )
    merged = merge(base, feature, main, word)
    assert [each.kind for each in merged.conflicts] == ["schema_name_clash"]
    with pytest.raises(BadRequest, match="no word decides"):
        merge(base, feature, main, {"node:Ship.built": word})


def test_a_clash_of_one_type_is_told_as_such():
    """Both sides write the type alike: what differs must stand elsewhere."""
    line = FLAG + "    near: Vector(2)? @metric({})\n"
    merged = merge(*sides([(FLAG, line.format("cosine"))], [(FLAG, line.format("dot"))]))
    (conflict,) = merged.conflicts
    assert conflict.message.endswith("(both are Vector(2)?, with different annotations or rules)")
    assert (conflict.detail["source"], conflict.detail["target"]) == ("Vector(2)?", "Vector(2)?")


def test_no_word_decides_an_invalid_schema():
    near = ("edge CallsAt", "edge Near: Port -> Port\n\nedge CallsAt")
    base, feature, main = sides([near], [(near[0], near[1].replace("Near", "NEAR"))])
    merged = merge(base, feature, main, "theirs")
    (conflict,) = merged.conflicts
    assert conflict.kind == "schema_invalid"
    assert conflict.detail["rule"] == "catalog"
    assert "case folding" in conflict.detail["message"]
    with pytest.raises(BadRequest, match="no word decides"):
        merge(base, feature, main, {conflict.element: "ours"})


def test_a_conflict_says_what_decides_it():
    base, feature, main = sides([(FLAG, "")])
    main.wrote("node:Ship.flag", "S3")
    (conflict,) = merge(base, feature, main).conflicts
    assert (
        conflict.message == "node:Ship.flag was dropped in feature and written in main (1 row: S3)"
    )
    assert conflict.remedy("--resolve-schema") == (
        "keep it with --resolve-schema node:Ship.flag=ours, or drop it with =theirs"
    )
    (other,) = merge(base, main, feature).conflicts
    assert other.remedy() == "leave it dropped with resolve_schema node:Ship.flag=ours"


def test_what_a_word_keeps_keeps_its_rules():
    """Indexes, unique groups and ranges fall with a property that is dropped, and stay with one that is kept."""
    ruled = YARD.replace(
        CALLS,
        "    calls: U32? @index\n    @unique(calls, flag)\n    @range(calls, 0..9)\n",
    )
    base = graph(ruled)
    feature, main = base.branch("feature"), base.branch("main")
    without = [line for line in ruled.splitlines() if "calls" not in line]
    feature.apply("\n".join(without))
    main.apply(ruled.replace("0..9", "0..8")).wrote("node:Ship.calls", "S1")
    kept = merge(base, feature, main, "ours")
    assert kept.schema.ir.shape == main.ir.shape
    dropped = merge(base, feature, main, "theirs")
    assert dropped.schema.ir.shape == feature.ir.shape

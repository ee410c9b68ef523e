"""Reverting a commit that changed the schema (schema-branches.md 6)."""

import pytest

from omnigraph.errors import BadRequest, SchemaBoundary
from omnigraph.lang.schema.ir import TypeIr
from omnigraph.lang.schema.merge.revert import is_undone, revert_schema
from omnigraph.lang.schema.merge.sides import DataChange
from omnigraph.lang.schema.migrate.plan_steps import AddType
from tests.lang.schema.merge.three_schemas import edited, graph

YARD = """\
interface Named {
    label: String?
}

// ships
node Ship implements Named @description("ships") {
    imo: String @key
    name: String
    flag: String?
    state: enum(active, laid_up)?
    calls: U32?
    @index(flag)
    @unique(name)
}

node Port {
    code: String @key
}

edge CallsAt: Ship -> Port @card(0..2)
""".replace(
    'node Ship implements Named @description("ships")',
    'node Ship @description("ships") implements Named',
)


def revert(commit_edits, later_edits=(), data=None, resolve=None):
    """Apply a commit, then later ones, and revert the first."""
    main = graph(YARD)
    parent = main.branch("parent")
    main.apply(edited(YARD, commit_edits))
    commit = main.branch("commit")
    if later_edits:
        main.apply(edited(main.text, later_edits))

    def wrote(side, type_: TypeIr, prop):
        assert side == "target"
        element = type_.shape.entity + ("" if prop is None else f".{prop}")
        row_ids = (data or {}).get(element, ())
        return DataChange(len(row_ids), tuple(row_ids))

    merged = revert_schema(
        commit.side, parent.side, main.side, commit_id="01C", data=wrote, resolve=resolve
    )
    return parent, main, merged


def kinds(merged):
    return [step.to_json()["kind"] for step in merged.schema.steps]


FLAG = "    flag: String?\n"
ADD_BUILT = (FLAG, FLAG + "    built: I32?\n")
BACK = [
    ("add_property", [ADD_BUILT], ["drop_property"]),
    (
        "add interface property",
        [("label: String?", "label: String?  rank: I32?")],
        ["drop_property"] * 2,
    ),
    ("add_type", [("node Port", "node Tag {\n    no: I32 @key\n}\n\nnode Port")], ["drop_type"]),
    ("add edge type", [("edge CallsAt", "edge Near: Port -> Port\n\nedge CallsAt")], ["drop_type"]),
    (
        "add interface",
        [("node Port", "interface Dated {\n    on: Date?\n}\n\nnode Port")],
        ["drop_type"],
    ),
    (
        "rename_property",
        [(FLAG, '    home: String? @rename_from("flag")\n'), ("@index(flag)", "@index(home)")],
        ["rename_property"],
    ),
    (
        "rename_type",
        [("node Port", 'node Harbour @rename_from("Port")'), ("-> Port", "-> Harbour")],
        ["rename_type"],
    ),
    ("index added", [("@index(flag)", "@index(flag)\n    @index(state)")], ["drop_constraint"]),
    ("index dropped", [("    @index(flag)\n", "")], ["add_constraint"]),
    ("type description", [('"ships"', '"hulls"')], ["update_type_metadata"]),
    (
        "property description",
        [(FLAG, '    flag: String? @description("x")\n')],
        ["update_property_metadata"],
    ),
    ("require_property", [(FLAG, "    flag: String\n")], ["relax_property"]),
    ("shrink_enum", [("enum(active, laid_up)", "enum(active)")], ["extend_enum"]),
    ("tighten_cardinality", [("@card(0..2)", "@card(0..1)")], ["relax_cardinality"]),
    ("unique added", [("@index(flag)", "@index(flag)\n    @unique(flag)")], ["drop_constraint"]),
    (
        "range added",
        [("@index(flag)", "@index(flag)\n    @range(calls, 0..9)")],
        ["drop_constraint"],
    ),
    ("check added", [("@index(flag)", '@index(flag)\n    @check(flag, "a")')], ["drop_constraint"]),
    ("default", [(FLAG, '    flag: String? @default("NO")\n')], ["update_property_metadata"]),
]


@pytest.mark.parametrize(("edits", "steps"), [pytest.param(*rest, id=name) for name, *rest in BACK])
def test_these_steps_are_undone(edits, steps):
    parent, main, merged = revert(edits)
    assert merged.conflicts == ()
    assert merged.schema.ir.shape.to_json() == parent.ir.shape.to_json()
    assert kinds(merged) == steps
    assert merged.schema.text == parent.text
    assert main.ir.ids - merged.schema.ir.ids == main.ir.ids - parent.ir.ids
    assert set(merged.schema.ir.dropped) == main.ir.ids - parent.ir.ids


@pytest.mark.parametrize(("edits", "steps"), [pytest.param(*rest, id=name) for name, *rest in BACK])
def test_these_steps_are_undone_after_later_changes(edits, steps):
    later = [("    calls: U32?\n", "    calls: U32?\n    later: I32?\n")]
    parent, main, merged = revert(edits, later)
    wanted = parent.branch("wanted").apply(edited(YARD, later))
    assert merged.schema.ir.shape.to_json() == wanted.ir.shape.to_json()
    assert kinds(merged) == steps
    number = main.ir.type("node", "Ship").property_ids["later"]
    assert merged.schema.ir.type("node", "Ship").property_ids["later"] == number
    assert "// ships" in merged.schema.text


@pytest.mark.parametrize(
    ("edits", "type_name"),
    [
        pytest.param([("    calls: U32?\n", "")], "Ship", id="drop_property"),
        pytest.param(
            [("\nedge CallsAt: Ship -> Port @card(0..2)\n", "")], "CallsAt", id="drop_type"
        ),
        pytest.param([("name: String\n", "name: String?\n")], "Ship", id="relax_property"),
        pytest.param([("@card(0..2)", "@card(0..3)")], "CallsAt", id="relax_cardinality"),
        pytest.param([("laid_up)", "laid_up, sold)")], "Ship", id="extend_enum"),
        pytest.param([("    label: String?\n", "")], "Named", id="drop of an interface property"),
        pytest.param([("calls: U32?", "calls: U64?")], "Ship", id="widen_property"),
        pytest.param([("    @unique(name)\n", "")], "Ship", id="drop_constraint unique"),
        pytest.param([ADD_BUILT, ("laid_up)", "laid_up, sold)")], "Ship", id="beside others"),
    ],
)
def test_drops_and_loosenings_are_a_boundary(edits, type_name):
    with pytest.raises(SchemaBoundary) as error:
        revert(edits)
    assert error.value.details == {"graph_commit_id": "01C", "type_name": type_name}
    assert "export of the commit's parent" in str(error.value)


def test_values_written_since_are_in_conflict_with_the_revert():
    data = {"node:Ship.built": ("S1", "S2")}
    _, main, merged = revert([ADD_BUILT], data=data)
    (conflict,) = merged.conflicts
    assert conflict.kind == "schema_drop_vs_change"
    assert conflict.detail == {
        "element": "node:Ship.built",
        "dropped_by": "source",
        "changed": ["data"],
        "rows": 2,
        "row_ids": ["S1", "S2"],
    }
    _, main, kept = revert([ADD_BUILT], data=data, resolve="ours")
    assert kept.schema.ir == main.ir
    _, _, gone = revert([ADD_BUILT], data=data, resolve={"node:Ship.built": "theirs"})
    assert kinds(gone) == ["drop_property"]
    assert gone.resolved == ("node:Ship.built",)


def test_a_later_rename_of_what_was_added_is_in_conflict():
    later = [("built: I32?", 'year: I32? @rename_from("built")')]
    _, _, merged = revert([ADD_BUILT], later)
    (conflict,) = merged.conflicts
    assert (conflict.element, conflict.detail["changed"]) == ("node:Ship.built", ["rename"])


def test_a_description_that_changed_again_is_in_conflict():
    _, _, merged = revert([('"ships"', '"hulls"')], [('"hulls"', '"vessels"')])
    (conflict,) = merged.conflicts
    texts = {key: conflict.detail[key] for key in ("base", "source", "target")}
    assert texts == {"base": "hulls", "source": "ships", "target": "vessels"}


def test_a_default_goes_back_to_the_one_before():
    before = edited(YARD, [(FLAG, '    flag: String? @default("NO")\n')])
    main = graph(before)
    parent = main.branch("parent")
    main.apply(edited(before, [('"NO"', '"SE"')]))
    merged = revert_schema(main.side, parent.side, main.side, commit_id="01C")
    assert merged.schema.ir == parent.ir


def test_a_type_that_is_used_since_is_in_conflict():
    tag = ("node Port", "node Tag {\n    no: I32 @key\n}\n\nnode Port")
    later = [("edge CallsAt", "edge Tagged: Ship -> Tag\n\nedge CallsAt")]
    _, _, merged = revert([tag], later)
    (conflict,) = merged.conflicts
    assert (conflict.element, conflict.detail["changed"]) == ("node:Tag", ["edge:Tagged"])


def test_an_interface_that_is_used_since_is_in_conflict():
    dated = ("node Port", "interface Dated {\n    on: Date?\n}\n\nnode Port")
    later = [("edge CallsAt", "node Visit implements Dated {\n    no: I32 @key\n}\n\nedge CallsAt")]
    _, _, merged = revert([dated], later)
    assert [each.element for each in merged.conflicts] == ["interface:Dated"]
    assert merged.conflicts[0].detail["changed"] == ["node:Visit"]


def test_what_was_undone_already_is_nothing_to_undo():
    _, main, merged = revert([ADD_BUILT], [("    built: I32?\n", "")])
    assert merged.schema.ir == main.ir
    assert merged.schema.steps == ()


def test_a_commit_that_left_the_schema_alone_leaves_the_head_alone():
    main = graph(YARD)
    before = main.branch("before")
    main.apply(edited(YARD, [ADD_BUILT]))
    merged = revert_schema(before.side, before.side, main.side, commit_id="01C")
    assert merged.schema.ir == main.ir
    with pytest.raises(BadRequest, match="not in conflict"):
        revert_schema(
            before.side, before.side, main.side, commit_id="01C", resolve={"node:Ship": "ours"}
        )


def test_adding_is_undone_by_a_revert():
    assert is_undone(AddType("node", "A"))

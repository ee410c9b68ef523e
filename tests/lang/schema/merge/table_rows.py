"""The rows of the table in their order; ``table`` has the words they are written in."""

from tests.lang.schema.merge.table import (
    CASES,
    THEN,
    add,
    broken,
    case,
    clashes,
    diverges,
    drop,
    dropped,
    new,
    rename,
    rule,
    whole,
)

__all__ = ["CASES"]

FLAG = "flag: String?"
STATE = "state: enum(active, laid_up, sold)?"
TONNAGE = "tonnage: I32?"
NAME = "name: String"
REMARK = 'remark: String? @description("free text")'
VECTOR = 'vector: Vector(4)? @embed(body, model="m1")'
CHECK = '@check(flag, "^[A-Z]+$")'
RANGE = "@range(tonnage, 0..20000)"
CALLS_AT = "edge CallsAt: Ship -> Port @card(1..5) {"
SHIP = 'node Ship @description("ships") {'
TAG = "node Tag {\n    word: String @key\n    note: String?\n}"


def into(line, other):
    """Replace a line of a body."""
    return f"    {line}\n", f"    {other}\n"


def card(bounds):
    return CALLS_AT, f"edge CallsAt: Ship -> Port @card({bounds}) {{"


def renamed_ship(name="Vessel"):
    """The edits that give Ship another name."""
    return (
        (SHIP, f'node {name} @rename_from("Ship") @description("ships") {{'),
        ("edge CallsAt: Ship", f"edge CallsAt: {name}"),
        ("edge Sails: Crew -> Ship", f"edge Sails: Crew -> {name}"),
    )


NO_PORT = (whole("node Port"), whole("edge CallsAt"))
NO_SHIP = (whole("node Ship"), whole("edge CallsAt"), whole("edge Sails: Crew -> Ship"))

# add | nothing

for line in (
    "built: I32?",
    "built: String?",
    "built: enum(a, b)?",
    "built: [F64]?",
    "built: Vector(3)?",
    "built: Blob?",
):
    case(f"add property {line}", source=(add("Ship", line),), merged=(add("Ship", line),))
case(
    "add edge property",
    source=(add("CallsAt", "note: String?"),),
    merged=(add("CallsAt", "note: String?"),),
)
case(
    "add interface property",
    source=(add("Named", "rank: I32?"),),
    merged=(add("Named", "rank: I32?"),),
)
case("add node type", source=(new(TAG),), merged=(new(TAG),))
case(
    "add edge type",
    source=(new("edge Near: Port -> Port @card(0..3)"),),
    merged=(new("edge Near: Port -> Port @card(0..3)"),),
)
case(
    "add interface with a node type",
    source=(
        new(
            "interface Dated {\n    on: Date?\n}\nnode Visit implements Dated {\n    no: I32 @key\n}"
        ),
    ),
    merged=(
        new(
            "interface Dated {\n    on: Date?\n}\nnode Visit implements Dated {\n    no: I32 @key\n}"
        ),
    ),
)
case(
    "add different properties",
    source=(add("Ship", "built: I32?"),),
    target=(add("Ship", "owner: String?"),),
    merged=(add("Ship", "built: I32?"), add("Ship", "owner: String?")),
)
case(
    "add different types",
    source=(new(TAG),),
    target=(new("node Berth {\n    no: I32 @key\n}"),),
    merged=(new(TAG), new("node Berth {\n    no: I32 @key\n}")),
)
case(
    "add an edge to a type of the other side's property",
    source=(new("edge Near: Port -> Port"),),
    target=(add("Port", "depth: F64?"),),
    merged=(new("edge Near: Port -> Port"), add("Port", "depth: F64?")),
)
case(
    "add a property with an index",
    source=(add("Ship", "year: I32? @index"),),
    target=(add("Port", "depth: F64?"),),
    merged=(
        add("Ship", "year: I32? @index"),
        add("Port", "depth: F64?"),
    ),
)

# add | add, same name, same definition

for line in (
    "built: I32?",
    "built: enum(a, b)?",
    "built: [String]?",
    "built: Vector(3)? @embed(remark)",
    'built: String? @audit("yes", level="2")',
    "built: Blob?",
):
    case(
        f"add the same {line}",
        source=(add("Ship", line),),
        target=(add("Ship", line),),
        merged=(add("Ship", line),),
    )
case(
    "add the same, one described",
    source=(add("Ship", 'built: I32? @description("year")'),),
    target=(add("Ship", "built: I32?"),),
    merged=(add("Ship", 'built: I32? @description("year")'),),
)
case(
    "add the same, both described differently",
    source=(add("Ship", 'built: I32? @description("year")'),),
    target=(add("Ship", 'built: I32? @description("when")'),),
    conflicts=(diverges("node:Ship.built", "description", None, "year", "when"),),
)
case(
    "add the same, one indexed",
    source=(add("Ship", "built: I32? @index"),),
    target=(add("Ship", "built: I32?"),),
    merged=(add("Ship", "built: I32? @index"),),
)
case("add the same type", source=(new(TAG),), target=(new(TAG),), merged=(new(TAG),))
case(
    "add the same type in another order",
    source=(new("node Tag {\n    note: String?\n    word: String\n    @key(word)\n}"),),
    target=(new(TAG),),
    merged=(new(TAG),),
)
case(
    "add the same type, indexed and described by one each",
    source=(new(TAG.replace("node Tag", 'node Tag @description("t")')),),
    target=(new(TAG.replace("note: String?", "note: String? @index")),),
    merged=(
        new(
            TAG.replace("node Tag", 'node Tag @description("t")').replace(
                "note: String?", "note: String? @index"
            )
        ),
    ),
)
case(
    "add the same types and an edge between them",
    source=(new(TAG), new("edge Tagged: Ship -> Tag")),
    target=(new(TAG), new("edge Tagged: Ship -> Tag")),
    merged=(new(TAG), new("edge Tagged: Ship -> Tag")),
)
case(
    "add the same edge type to a type that the other renamed",
    source=(new("edge Near: Ship -> Port"),),
    target=(*renamed_ship(), new("edge Near: Vessel -> Port")),
    merged=(*renamed_ship(), new("edge Near: Vessel -> Port")),
)
case(
    "add the same interface and types of each side for it",
    source=(
        new("interface Dated {\n    on: Date?\n}\nnode A implements Dated {\n    x: I32 @key\n}"),
    ),
    target=(
        new("interface Dated {\n    on: Date?\n}\nnode B implements Dated {\n    x: I32 @key\n}"),
    ),
    merged=(
        new(
            "interface Dated {\n    on: Date?\n}\nnode A implements Dated {\n    x: I32 @key\n}\n"
            "node B implements Dated {\n    x: I32 @key\n}"
        ),
    ),
)
case(
    "add the same property to an interface",
    source=(add("Named", "rank: I32?"),),
    target=(add("Named", "rank: I32?"),),
    merged=(add("Named", "rank: I32?"),),
)
case(
    "one adds it to the interface, the other to the node",
    source=(add("Named", "rank: I32?"),),
    target=(add("Port", "rank: I32?"),),
    merged=(add("Named", "rank: I32?"), add("Port", "rank: I32?")),
)
case(
    "add the same vector and its text",
    source=(add("Ship", "story: String?\n    meaning: Vector(3)? @embed(story)"),),
    target=(add("Ship", "story: String?\n    meaning: Vector(3)? @embed(story)"),),
    merged=(add("Ship", "story: String?\n    meaning: Vector(3)? @embed(story)"),),
)

# add | add, same name, other definition

for source, target in (
    ("I32?", "String?"),
    ("I32?", "I64?"),
    ("enum(a)?", "enum(b)?"),
    ("[I32]?", "I32?"),
    ("Vector(3)?", "Vector(4)?"),
):
    case(
        f"add the same name as {source} and {target}",
        source=(add("Ship", f"built: {source}"),),
        target=(add("Ship", f"built: {target}"),),
        conflicts=(clashes("node:Ship.built", source, target),),
    )
case(
    "add the same name with another annotation",
    source=(add("Ship", "built: I32? @audit"),),
    target=(add("Ship", "built: I32?"),),
    conflicts=(clashes("node:Ship.built", "I32?", "I32?"),),
)
case(
    "add the same vector with another model",
    source=(add("Ship", 'built: Vector(3)? @embed(remark, model="a")'),),
    target=(add("Ship", 'built: Vector(3)? @embed(remark, model="b")'),),
    conflicts=(clashes("node:Ship.built", "Vector(3)?", "Vector(3)?"),),
)
case(
    "add the same vector of another text",
    source=(add("Ship", "built: Vector(3)? @embed(remark)"),),
    target=(add("Ship", "built: Vector(3)? @embed(name)"),),
    conflicts=(clashes("node:Ship.built", "Vector(3)?", "Vector(3)?"),),
)
case(
    "add the same edge property with another type",
    source=(add("CallsAt", "note: String?"),),
    target=(add("CallsAt", "note: I32?"),),
    conflicts=(clashes("edge:CallsAt.note", "String?", "I32?"),),
)
case(
    "add the same interface property with another type",
    source=(add("Named", "rank: I32?"),),
    target=(add("Named", "rank: String?"),),
    conflicts=(clashes("interface:Named.rank", "I32?", "String?"),),
)
for what, other in (
    (
        "key",
        TAG.replace(
            "word: String @key\n    note: String?", "word: String\n    note: String\n    @key(note)"
        ),
    ),
    ("property type", TAG.replace("note: String?", "note: I32?")),
    ("more properties", TAG.replace("note: String?", "note: String?\n    more: I32?")),
    ("unique", TAG.replace("note: String?", "note: String? @unique")),
    ("range", TAG.replace("note: String?", 'note: String?\n    @check(note, "a")')),
    ("implements", TAG.replace("node Tag", "node Tag implements Named")),
):
    case(
        f"add the same type with another {what}",
        source=(new(TAG),),
        target=(new(other),),
        conflicts=(clashes("node:Tag"),),
    )
case(
    "add the same edge type between others",
    source=(new("edge Near: Port -> Port"),),
    target=(new("edge Near: Port -> Ship"),),
    conflicts=(clashes("edge:Near"),),
)
case(
    "add the same edge type with another cardinality",
    source=(new("edge Near: Port -> Port @card(0..1)"),),
    target=(new("edge Near: Port -> Port"),),
    conflicts=(clashes("edge:Near"),),
)
case(
    "add the same interface with another property",
    source=(new("interface Dated {\n    on: Date?\n}"),),
    target=(new("interface Dated {\n    on: DateTime?\n}"),),
    conflicts=(clashes("interface:Dated"),),
)
case(
    "add the same interface with another implied rule",
    source=(new("interface Dated {\n    on: Date? @unique\n}"),),
    target=(new("interface Dated {\n    on: Date?\n}"),),
    conflicts=(clashes("interface:Dated"),),
)
case(
    "a node and an edge may share a name",
    source=(new("node Near {\n    no: I32 @key\n}"),),
    target=(new("edge Near: Port -> Port"),),
    merged=(new("node Near {\n    no: I32 @key\n}"), new("edge Near: Port -> Port")),
)

# add or rename | add or rename of another element to that name

case(
    "rename onto an added name",
    source=(
        rename(FLAG, "owner"),
        (CHECK, '@check(owner, "^[A-Z]+$")'),
        ("@index(state, flag)", "@index(state, owner)"),
    ),
    target=(add("Ship", "owner: String?"),),
    conflicts=(clashes("node:Ship.owner", "String?", "String?"),),
)
case(
    "rename two onto one name",
    source=(rename("calls: U32?", "owner"),),
    target=(rename("length: F32?", "owner"),),
    conflicts=(clashes("node:Ship.owner", "U32?", "F32?"),),
)
case(
    "rename a type onto an added one",
    source=renamed_ship("Boat"),
    target=(new("node Boat {\n    no: I32 @key\n}"),),
    conflicts=(clashes("node:Boat"),),
)
case(
    "rename two types onto one name",
    source=renamed_ship("Thing"),
    target=(("node Paper {", 'node Thing @rename_from("Paper") {'),),
    conflicts=(clashes("node:Thing"),),
)
case(
    "rename edges onto one name",
    source=((CALLS_AT, 'edge Uses: Ship -> Port @card(1..5) @rename_from("CallsAt") {'),),
    target=(("edge Sails: Crew -> Ship", 'edge Uses: Crew -> Ship @rename_from("Sails")'),),
    conflicts=(clashes("edge:Uses"),),
)
case(
    "an added node property against a renamed interface property",
    source=(rename("label: String?", "caption"),),
    target=(add("Port", "caption: I32?"),),
    conflicts=(clashes("node:Port.caption", "String?", "I32?"),),
)

# rename | untouched, or changed otherwise

case(
    "rename a property",
    source=(rename("calls: U32?", "stops"),),
    merged=(rename("calls: U32?", "stops"),),
)
case("rename a type", source=renamed_ship(), merged=renamed_ship())
case(
    "rename an edge type",
    source=((CALLS_AT, 'edge Stops: Ship -> Port @card(1..5) @rename_from("CallsAt") {'),),
    merged=((CALLS_AT, "edge Stops: Ship -> Port @card(1..5) {"),),
)
case(
    "rename an interface property",
    source=(rename("label: String?", "caption"),),
    merged=(rename("label: String?", "caption"),),
)
case(
    "rename a property and describe it",
    source=(rename("calls: U32?", "stops"),),
    target=(into("calls: U32?", 'calls: U32? @description("how many")'),),
    merged=(into("calls: U32?", 'stops: U32? @description("how many")'),),
)
case(
    "rename a property and extend its enum",
    source=(rename(STATE, "status"), ("@index(state, flag)", "@index(status, flag)")),
    target=(into(STATE, "state: enum(active, laid_up, sold, lost)?"),),
    merged=(
        into(STATE, "status: enum(active, laid_up, sold, lost)?"),
        ("@index(state, flag)", "@index(status, flag)"),
    ),
)
case(
    "rename a property and relax it",
    source=(rename("draft: F64", "depth"),),
    target=(into("draft: F64", "draft: F64?"),),
    merged=(into("draft: F64", "depth: F64?"),),
)
case(
    "rename a type and add a property to it",
    source=renamed_ship(),
    target=(add("Ship", "built: I32?"),),
    merged=(*renamed_ship(), add("Ship", "built: I32?")),
)
case(
    "rename a type and one of its properties",
    source=renamed_ship(),
    target=(rename("calls: U32?", "stops"),),
    merged=(*renamed_ship(), rename("calls: U32?", "stops")),
)
case(
    "rename a type that a new edge ends at",
    source=renamed_ship(),
    target=(new("edge Near: Port -> Ship"),),
    merged=(*renamed_ship(), new("edge Near: Port -> Vessel")),
)
case(
    "rename a member of rules, and add a rule with it",
    source=(rename(TONNAGE, "gross"), (RANGE, "@range(gross, 0..20000)")),
    target=(rule("@index(tonnage)"),),
    merged=(
        into(TONNAGE, "gross: I32?"),
        (RANGE, "@range(gross, 0..20000)"),
        rule("@index(gross)"),
    ),
)
case(
    "rename the text of a vector, and add another vector of it",
    source=(
        rename("body: String?", "prose"),
        (VECTOR, 'vector: Vector(4)? @embed(prose, model="m1")'),
    ),
    target=(add("Paper", "short: Vector(2)? @embed(body)"),),
    merged=(
        into("body: String?", "prose: String?"),
        (VECTOR, 'vector: Vector(4)? @embed(prose, model="m1")'),
        add("Paper", "short: Vector(2)? @embed(prose)"),
    ),
)
case(
    "names change hands",
    source=(
        rename(NAME, "title"),
        ("@unique(name)", "@unique(title)"),
        THEN,
        ('    title: String @rename_from("name")\n', "    title: String\n"),
        rename("calls: U32?", "name"),
    ),
    target=(into("calls: U32?", 'calls: U32? @description("how many")'),),
    merged=(
        into(NAME, "title: String"),
        ("@unique(name)", "@unique(title)"),
        into("calls: U32?", 'name: U32? @description("how many")'),
    ),
)
case(
    "a freed name is taken by the other side's rename",
    source=(rename("calls: U32?", "stops"),),
    target=(rename("length: F32?", "extent"),),
    merged=(into("calls: U32?", "stops: U32?"), into("length: F32?", "extent: F32?")),
)
case(
    "rename a type, the other adds an interface's property to it",
    source=(
        ("node Port implements", 'node Harbour @rename_from("Port") implements'),
        ("Ship -> Port", "Ship -> Harbour"),
    ),
    target=(add("Named", "rank: I32?"),),
    merged=(
        ("node Port implements", "node Harbour implements"),
        ("Ship -> Port", "Ship -> Harbour"),
        add("Named", "rank: I32?"),
    ),
)

# rename | rename

case(
    "rename to the same name",
    source=(rename("calls: U32?", "stops"),),
    target=(rename("calls: U32?", "stops"),),
    merged=(rename("calls: U32?", "stops"),),
)
case(
    "rename a type to the same name",
    source=renamed_ship(),
    target=renamed_ship(),
    merged=renamed_ship(),
)
case(
    "rename to other names",
    source=(rename("calls: U32?", "stops"),),
    target=(rename("calls: U32?", "visits"),),
    conflicts=(diverges("node:Ship.calls", "name", "calls", "stops", "visits"),),
)
case(
    "rename a type to other names",
    source=renamed_ship("Vessel"),
    target=renamed_ship("Boat"),
    conflicts=(diverges("node:Ship", "name", "Ship", "Vessel", "Boat"),),
)
case(
    "rename an edge type to other names",
    source=(("edge Sails: Crew -> Ship", 'edge Mans: Crew -> Ship @rename_from("Sails")'),),
    target=(("edge Sails: Crew -> Ship", 'edge Rides: Crew -> Ship @rename_from("Sails")'),),
    conflicts=(diverges("edge:Sails", "name", "Sails", "Mans", "Rides"),),
)
case(
    "rename an interface property to other names",
    source=(rename("label: String?", "caption"),),
    target=(rename("label: String?", "heading"),),
    conflicts=(diverges("interface:Named.label", "name", "label", "caption", "heading"),),
)
case(
    "rename two properties to other names, all told",
    source=(rename("calls: U32?", "a"), rename("length: F32?", "b")),
    target=(rename("calls: U32?", "c"), rename("length: F32?", "d")),
    conflicts=(
        diverges("node:Ship.calls", "name", "calls", "a", "c"),
        diverges("node:Ship.length", "name", "length", "b", "d"),
    ),
)
case(
    "undecided names do not clash besides",
    source=(rename("calls: U32?", "a"), add("Ship", "c: I32?")),
    target=(rename("calls: U32?", "b"), add("Ship", "d: I32?")),
    conflicts=(diverges("node:Ship.calls", "name", "calls", "a", "b"),),
)

# description, instruction

case(
    "describe a property",
    source=(into("calls: U32?", 'calls: U32? @description("c")'),),
    target=(add("Ship", "built: I32?"),),
    merged=(into("calls: U32?", 'calls: U32? @description("c")'), add("Ship", "built: I32?")),
)
case(
    "describe alike",
    source=(into("calls: U32?", 'calls: U32? @description("c")'),),
    target=(into("calls: U32?", 'calls: U32? @description("c")'),),
    merged=(into("calls: U32?", 'calls: U32? @description("c")'),),
)
case(
    "describe a property differently",
    source=(into(REMARK, 'remark: String? @description("one")'),),
    target=(into(REMARK, 'remark: String? @description("two")'),),
    conflicts=(diverges("node:Ship.remark", "description", "free text", "one", "two"),),
)
case(
    "describe a property, and remove its description",
    source=(into(REMARK, 'remark: String? @description("one")'),),
    target=(into(REMARK, "remark: String?"),),
    conflicts=(diverges("node:Ship.remark", "description", "free text", "one", None),),
)
case(
    "remove a description",
    source=(into(REMARK, "remark: String?"),),
    target=(add("Ship", "built: I32?"),),
    merged=(into(REMARK, "remark: String?"), add("Ship", "built: I32?")),
)
case(
    "describe a type differently",
    source=(("ships", "hulls"),),
    target=(("ships", "vessels"),),
    conflicts=(diverges("node:Ship", "description", "ships", "hulls", "vessels"),),
)
case(
    "instruct a type differently",
    source=(("node Port", 'node Port @instruction("a")'),),
    target=(("node Port", 'node Port @instruction("b")'),),
    conflicts=(diverges("node:Port", "instruction", None, "a", "b"),),
)
case(
    "describe and instruct",
    source=(("node Port", 'node Port @instruction("a")'),),
    target=(("node Port", 'node Port @description("b")'),),
    merged=(("node Port", 'node Port @description("b") @instruction("a")'),),
)
case(
    "describe an edge type differently",
    source=(("edge Sails: Crew -> Ship", 'edge Sails: Crew -> Ship @description("x")'),),
    target=(("edge Sails: Crew -> Ship", 'edge Sails: Crew -> Ship @description("y")'),),
    conflicts=(diverges("edge:Sails", "description", None, "x", "y"),),
)
case(
    "describe an interface property differently",
    source=(into("label: String?", 'label: String? @description("x")'),),
    target=(into("label: String?", 'label: String? @description("y")'),),
    conflicts=(diverges("interface:Named.label", "description", None, "x", "y"),),
)
case(
    "describe an interface property, and the node's own",
    source=(into("    alias: String?".strip(), 'alias: String? @description("x")'),),
    target=(("on board", "at sea"),),
    merged=(into("alias: String?", 'alias: String? @description("x")'), ("on board", "at sea")),
)
case(
    "one name, two attributes in conflict",
    source=(into("calls: U32?", 'a: U32? @rename_from("calls") @description("x")'),),
    target=(into("calls: U32?", 'b: U32? @rename_from("calls") @description("y")'),),
    conflicts=(
        diverges("node:Ship.calls", "description", None, "x", "y"),
        diverges("node:Ship.calls", "name", "calls", "a", "b"),
    ),
)

# T -> T?

case(
    "relax",
    source=(into("draft: F64", "draft: F64?"),),
    merged=(into("draft: F64", "draft: F64?"),),
)
case(
    "relax on both sides",
    source=(into("draft: F64", "draft: F64?"),),
    target=(into("draft: F64", "draft: F64?"),),
    merged=(into("draft: F64", "draft: F64?"),),
)
case(
    "relax and describe",
    source=(into("draft: F64", "draft: F64?"),),
    target=(into("draft: F64", 'draft: F64 @description("d")'),),
    merged=(into("draft: F64", 'draft: F64? @description("d")'),),
)

# enums

case(
    "extend an enum",
    source=(into(STATE, "state: enum(active, laid_up, sold, lost)?"),),
    merged=(into(STATE, "state: enum(active, laid_up, sold, lost)?"),),
)
case(
    "extend an enum on both sides",
    source=(into(STATE, "state: enum(active, laid_up, sold, lost)?"),),
    target=(into(STATE, "state: enum(active, laid_up, sold, sunk)?"),),
    merged=(into(STATE, "state: enum(active, laid_up, lost, sold, sunk)?"),),
)
case(
    "extend an enum alike and otherwise",
    source=(into(STATE, "state: enum(active, laid_up, sold, lost, a)?"),),
    target=(into(STATE, "state: enum(active, laid_up, sold, lost, b)?"),),
    merged=(into(STATE, "state: enum(a, active, b, laid_up, lost, sold)?"),),
)

# cardinality

for theirs, ours, both in (
    ("1..9", None, "1..9"),
    ("1..9", "1..7", "1..9"),
    ("0..5", "1..7", "0..7"),
    ("1..", "0..5", "0.."),
    ("1..9", "1..9", "1..9"),
):
    case(
        f"relax a cardinality to {theirs} and {ours}",
        source=(card(theirs),),
        target=() if ours is None else (card(ours),),
        merged=(card(both),),
    )

# indexes

case("add an index", source=(rule("@index(tonnage)"),), merged=(rule("@index(tonnage)"),))
case(
    "add indexes on both sides",
    source=(rule("@index(tonnage)"),),
    target=(rule("@index(calls)"),),
    merged=(rule("@index(tonnage)"), rule("@index(calls)")),
)
case(
    "add the same index",
    source=(rule("@index(tonnage)"),),
    target=(into(TONNAGE, "tonnage: I32? @index"),),
    merged=(rule("@index(tonnage)"),),
)
case("drop an index", source=(drop("@index(remark)"),), merged=(drop("@index(remark)"),))
case(
    "drop one index and add another",
    source=(drop("@index(remark)"), rule("@index(tonnage)")),
    target=(rule("@index(calls)"), rule("@index(tonnage)")),
    merged=(drop("@index(remark)"), rule("@index(tonnage)"), rule("@index(calls)")),
)
case(
    "drop an index, the other describes its member",
    source=(drop("@index(remark)"),),
    target=(("free text", "anything"),),
    merged=(drop("@index(remark)"), ("free text", "anything")),
)
case(
    "add an index to an edge type",
    source=(into("visits: I32?", "visits: I32? @index"),),
    target=(add("CallsAt", "note: String?"),),
    merged=(into("visits: I32?", "visits: I32? @index"), add("CallsAt", "note: String?")),
)
case(
    "add an index to an interface property",
    source=(into("label: String?", "label: String? @index"),),
    target=(add("Port", "depth: F64?"),),
    merged=(into("label: String?", "label: String? @index"), add("Port", "depth: F64?")),
)

# drop | drop, untouched, described, indexed, deleted

case("drop a property", source=(drop("calls: U32?"),), merged=(drop("calls: U32?"),))
case(
    "drop it on both sides",
    source=(drop("calls: U32?"),),
    target=(drop("calls: U32?"),),
    merged=(drop("calls: U32?"),),
)
case(
    "drop a property, the other describes it",
    source=(drop("calls: U32?"),),
    target=(into("calls: U32?", 'calls: U32? @description("c")'),),
    merged=(drop("calls: U32?"),),
)
case(
    "drop a property, the other indexes it",
    source=(drop("calls: U32?"),),
    target=(rule("@index(calls)"),),
    merged=(drop("calls: U32?"),),
)
case(
    "drop a property, the other indexes it with another",
    source=(drop("calls: U32?"),),
    target=(rule("@index(calls, tonnage)"),),
    merged=(drop("calls: U32?"),),
)
case(
    "drop a property that is in an index",
    source=(drop(REMARK), drop("@index(remark)")),
    target=(add("Ship", "built: I32?"),),
    merged=(drop(REMARK), drop("@index(remark)"), add("Ship", "built: I32?")),
)
case(
    "drop different properties",
    source=(drop("calls: U32?"),),
    target=(drop("length: F32?"),),
    merged=(drop("calls: U32?"), drop("length: F32?")),
)
case(
    "drop a property, the other writes another",
    source=(drop("calls: U32?"),),
    target_data={"node:Ship.length": ("S1",), "node:Ship": ("S1",)},
    merged=(drop("calls: U32?"),),
)
case("drop a type", source=(whole("node Paper"),), merged=(whole("node Paper"),))
case(
    "drop a type on both sides",
    source=(whole("node Paper"),),
    target=(whole("node Paper"),),
    merged=(whole("node Paper"),),
)
case(
    "drop a type, the other describes and indexes it",
    source=(whole("node Paper"),),
    target=(
        ("node Paper", 'node Paper @description("p") @instruction("i")'),
        into("notes: String?", 'notes: String? @index @description("n")'),
    ),
    merged=(whole("node Paper"),),
)
case(
    "drop a type, the other drops a property of it",
    source=(whole("node Paper"),),
    target=(drop("notes: String?"),),
    merged=(whole("node Paper"),),
)
case("drop an edge type", source=(whole("edge CallsAt"),), merged=(whole("edge CallsAt"),))
case("drop a type and its edges", source=NO_PORT, merged=NO_PORT)
case(
    "drop a type, the other drops one of its edges",
    source=NO_PORT,
    target=(whole("edge CallsAt"),),
    merged=NO_PORT,
)
case(
    "drop an interface property", source=(drop("label: String?"),), merged=(drop("label: String?"),)
)

# drop of a property | a change

case(
    "drop a property, the other writes it",
    source=(drop("calls: U32?"),),
    target_data={"node:Ship.calls": ("S1", "S3")},
    conflicts=(dropped("node:Ship.calls", "source", "data", row_ids=("S1", "S3")),),
)
case(
    "drop a property, the other writes many rows",
    source=(drop("calls: U32?"),),
    target_data={"node:Ship.calls": tuple(f"S{at:03}" for at in range(50))},
    conflicts=(
        dropped(
            "node:Ship.calls", "source", "data", row_ids=tuple(f"S{at:03}" for at in range(50))
        ),
    ),
)
case(
    "drop a property, the other renames it",
    source=(drop("calls: U32?"),),
    target=(rename("calls: U32?", "stops"),),
    conflicts=(dropped("node:Ship.calls", "source", "rename"),),
)
case(
    "drop a property, the other relaxes it",
    source=(drop("draft: F64"),),
    target=(into("draft: F64", "draft: F64?"),),
    conflicts=(dropped("node:Ship.draft", "source", "relax"),),
)
case(
    "drop a property, the other extends its enum",
    source=(drop(STATE), drop("@index(state, flag)")),
    target=(into(STATE, "state: enum(active, laid_up, sold, lost)?"),),
    conflicts=(dropped("node:Ship.state", "source", "extend_enum"),),
)
case(
    "drop a property, the other embeds it",
    source=(drop("notes: String?"),),
    target=(add("Paper", "second: Vector(2)? @embed(notes)"),),
    conflicts=(dropped("node:Paper.notes", "source", "node:Paper.second"),),
)
case(
    "drop a text and its vector, the other embeds the text anew",
    source=(drop("body: String?"), drop(VECTOR)),
    target=(add("Paper", "second: Vector(2)? @embed(body)"),),
    conflicts=(dropped("node:Paper.body", "source", "node:Paper.second"),),
)
case(
    "drop a property, the other writes and renames and relaxes it",
    source=(drop("draft: F64"),),
    target=(rename("draft: F64", "depth", "F64?"),),
    target_data={"node:Ship.depth": ("S1",)},
    conflicts=(dropped("node:Ship.draft", "source", "data", "rename", "relax", row_ids=("S1",)),),
)
case(
    "drop a property of a renamed type, and write it there",
    source=(drop("calls: U32?"),),
    target=renamed_ship(),
    target_data={"node:Vessel.calls": ("S1",)},
    conflicts=(dropped("node:Ship.calls", "source", "data", row_ids=("S1",)),),
)
case(
    "drop an edge property, the other writes it",
    source=(drop("visits: I32?"),),
    target_data={"edge:CallsAt.visits": ("c1",)},
    conflicts=(dropped("edge:CallsAt.visits", "source", "data", row_ids=("c1",)),),
)
case(
    "drop an interface property, the other renames it",
    source=(drop("label: String?"),),
    target=(rename("label: String?", "caption"),),
    conflicts=(dropped("interface:Named.label", "source", "rename"),),
)
case(
    "drop an interface property, the other writes it on a node",
    source=(drop("label: String?"),),
    target_data={"node:Port.label": ("P1",)},
    conflicts=(dropped("node:Port.label", "source", "data", row_ids=("P1",)),),
)
case(
    "drop an interface property, the other has a new type with values of it",
    source=(drop("label: String?"),),
    target=(new("node Pier implements Named {\n    no: I32 @key\n}"),),
    target_data={"node:Pier.label": ("1",), "node:Pier": ("1",)},
    conflicts=(dropped("node:Pier.label", "source", "data", row_ids=("1",)),),
)

# drop of a type | a change

case(
    "drop a type, the other writes rows",
    source=NO_PORT,
    target_data={"node:Port": ("CPH",)},
    conflicts=(dropped("node:Port", "source", "data", row_ids=("CPH",)),),
)
case(
    "drop a type, the other writes its edges",
    source=NO_PORT,
    target_data={"edge:CallsAt": ("c1",)},
    conflicts=(dropped("edge:CallsAt", "source", "data", row_ids=("c1",)),),
)
case(
    "drop a type, the other adds a property",
    source=(whole("node Paper"),),
    target=(add("Paper", "more: I32?"),),
    conflicts=(dropped("node:Paper", "source", "add_property"),),
)
case(
    "drop a type, the other renames it",
    source=(whole("node Paper"),),
    target=(("node Paper", 'node Sheet @rename_from("Paper")'),),
    conflicts=(dropped("node:Paper", "source", "rename"),),
)
case(
    "drop a type, the other renames a property of it",
    source=(whole("node Paper"),),
    target=(rename("notes: String?", "remarks"),),
    conflicts=(dropped("node:Paper", "source", "rename"),),
)
case(
    "drop a type, the other relaxes a property and extends an enum",
    source=NO_SHIP,
    target=(
        into("draft: F64", "draft: F64?"),
        into(STATE, "state: enum(active, laid_up, sold, lost)?"),
    ),
    conflicts=(dropped("node:Ship", "source", "extend_enum", "relax"),),
)
case(
    "drop an edge type, the other relaxes its cardinality",
    source=(whole("edge CallsAt"),),
    target=(card("0..5"),),
    conflicts=(dropped("edge:CallsAt", "source", "relax_cardinality"),),
)
case(
    "drop an edge type, the other renames it",
    source=(whole("edge CallsAt"),),
    target=((CALLS_AT, 'edge Stops: Ship -> Port @card(1..5) @rename_from("CallsAt") {'),),
    conflicts=(dropped("edge:CallsAt", "source", "rename"),),
)
case(
    "drop a type, the other has a new edge to it",
    source=NO_PORT,
    target=(new("edge Owns: Ship -> Port"),),
    conflicts=(dropped("node:Port", "source", "edge:Owns"),),
)
case(
    "drop a type, the other has new edges from and to it, and rows",
    source=(whole("node Paper"),),
    target=(new("edge Cites: Paper -> Paper"), new("edge About: Paper -> Ship")),
    target_data={"node:Paper": ("p",)},
    conflicts=(
        dropped("node:Paper", "source", "data", "edge:About", "edge:Cites", row_ids=("p",)),
    ),
)
case(
    "drop a type, an interface of it gets a property: no change of the type",
    source=NO_PORT,
    target=(add("Named", "rank: I32?"),),
    merged=(*NO_PORT, add("Named", "rank: I32?")),
)

# drop and add again

case(
    "drop and add again, the other untouched",
    source=(drop("calls: U32?"), THEN, add("Ship", "calls: U32?")),
    target=(add("Ship", "built: I32?"),),
    merged=(drop("calls: U32?"), add("Ship", "calls: U32?"), add("Ship", "built: I32?")),
)
case(
    "drop and add again, the other drops",
    source=(drop("calls: U32?"), THEN, add("Ship", "calls: U32?")),
    target=(drop("calls: U32?"),),
    merged=(drop("calls: U32?"), add("Ship", "calls: U32?")),
)
case(
    "drop and add again on both sides alike",
    source=(drop("calls: U32?"), THEN, add("Ship", "calls: U32?")),
    target=(drop("calls: U32?"), THEN, add("Ship", "calls: U32?")),
    merged=(drop("calls: U32?"), add("Ship", "calls: U32?")),
)
case(
    "drop and add again, the other writes the old one",
    source=(drop("calls: U32?"), THEN, add("Ship", "calls: U32?")),
    target_data={"node:Ship.calls": ("S1",)},
    conflicts=(dropped("node:Ship.calls", "source", "data", row_ids=("S1",)),),
)
case(
    "drop and add again with another type on both sides",
    source=(drop("calls: U32?"), THEN, add("Ship", "calls: String?")),
    target=(drop("calls: U32?"), THEN, add("Ship", "calls: I32?")),
    conflicts=(clashes("node:Ship.calls", "String?", "I32?"),),
)
case(
    "drop a type and add it again, the other untouched",
    source=(whole("node Paper"), THEN, new("node Paper {\n    title: String @key\n}")),
    target=(add("Ship", "built: I32?"),),
    merged=(
        whole("node Paper"),
        new("node Paper {\n    title: String @key\n}"),
        add("Ship", "built: I32?"),
    ),
)

# property added to an interface | a node type added that implements it

case(
    "an interface's new property reaches the other side's new type",
    source=(add("Named", "rank: I32?"),),
    target=(new("node Pier implements Named {\n    no: I32 @key\n}"),),
    merged=(add("Named", "rank: I32?"), new("node Pier implements Named {\n    no: I32 @key\n}")),
)
case(
    "an interface's new property, and both sides' same type of it",
    source=(add("Named", "rank: I32?"), new("node Pier implements Named {\n    no: I32 @key\n}")),
    target=(new("node Pier implements Named {\n    no: I32 @key\n}"),),
    merged=(add("Named", "rank: I32?"), new("node Pier implements Named {\n    no: I32 @key\n}")),
)
case(
    "an interface's new property that the other side's new type declares alike",
    source=(add("Named", "rank: I32?"),),
    target=(new("node Pier implements Named {\n    no: I32 @key\n    rank: I32?\n}"),),
    merged=(
        add("Named", "rank: I32?"),
        new("node Pier implements Named {\n    no: I32 @key\n    rank: I32?\n}"),
    ),
)
case(
    "an interface's renamed property, and a new type of the other side",
    source=(rename("label: String?", "caption"),),
    target=(new("node Pier implements Named {\n    no: I32 @key\n}"),),
    merged=(
        rename("label: String?", "caption"),
        new("node Pier implements Named {\n    no: I32 @key\n}"),
    ),
)

# the result breaks a rule of the language

case(
    "an injected property redeclared with another type",
    source=(add("Named", "rank: I32?"),),
    target=(new("node Pier implements Named {\n    no: I32 @key\n    rank: String?\n}"),),
    conflicts=(broken("node:Pier.rank"),),
)
case(
    "an existing type gets it with another type",
    source=(add("Named", "rank: I32?"),),
    target=(add("Port", "rank: String?"),),
    conflicts=(clashes("node:Port.rank", "I32?", "String?"),),
)
case(
    "edge names equal but for case",
    source=(new("edge Owns: Crew -> Ship"),),
    target=(new("edge OWNS: Crew -> Ship"),),
    conflicts=(broken("edge:Owns"),),
)
case(
    "a renamed edge and an added one equal but for case",
    source=(("edge Sails: Crew -> Ship", 'edge Mans: Crew -> Ship @rename_from("Sails")'),),
    target=(new("edge MANS: Crew -> Ship"),),
    conflicts=(broken("edge:Mans"),),
)
case(
    "two interfaces of a type disagree",
    source=(add("Named", "rank: I32?"),),
    target=(
        new("interface Ranked {\n    rank: String?\n}"),
        new("node Officer implements Named, Ranked {\n    no: I32 @key\n}"),
    ),
    conflicts=(broken("node:Officer.rank"),),
)
case(
    "several rules at once",
    source=(
        add("Named", "rank: I32?"),
        new("interface Dated {\n    on: Date?\n}"),
        new("edge Near: Port -> Port"),
    ),
    target=(
        new("node Pier implements Named {\n    no: I32 @key\n    rank: String?\n}"),
        new("node Quay implements Named {\n    no: I32 @key\n    rank: F64?\n}"),
        new("edge Next: Port -> Port"),
    ),
    conflicts=(broken("node:Pier.rank"), broken("node:Quay.rank")),
)
case(
    "several edge names equal but for case",
    source=(new("edge Near: Port -> Port"), new("edge Next: Port -> Port")),
    target=(new("edge NEAR: Port -> Port"), new("edge NEXT: Port -> Port")),
    conflicts=(broken("edge:Near"), broken("edge:Next")),
)

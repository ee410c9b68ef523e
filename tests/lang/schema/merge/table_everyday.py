"""The everyday changes of schema.md 11.3 when two schemas meet (schema-branches.md 4.1)."""

from tests.lang.schema.merge.table import (
    add,
    broken,
    case,
    clashes,
    diverges,
    drop,
    dropped,
    rename,
    rule,
    whole,
)
from tests.lang.schema.merge.table_rows import (
    CALLS_AT,
    CASES,
    CHECK,
    FLAG,
    NO_SHIP,
    RANGE,
    REMARK,
    STATE,
    TONNAGE,
    VECTOR,
    card,
    into,
)

__all__ = ["CASES"]

CALLS = "calls: U32?"
DRAFT = "draft: F64"


# widening: an attribute

for line, wide in (
    (TONNAGE, "tonnage: I64?"),
    (CALLS, "calls: U64?"),
    (CALLS, "calls: I64?"),
    ("length: F32?", "length: F64?"),
    ("sizes: [I32]?", "sizes: [I64]?"),
):
    case(f"widen {line} to {wide}", source=(into(line, wide),), merged=(into(line, wide),))
case(
    "widen alike",
    source=(into(CALLS, "calls: I64?"),),
    target=(into(CALLS, "calls: I64?"),),
    merged=(into(CALLS, "calls: I64?"),),
)
case(
    "widen differently",
    source=(into(CALLS, "calls: U64?"),),
    target=(into(CALLS, "calls: I64?"),),
    conflicts=(diverges("node:Ship.calls", "type", "U32?", "U64?", "I64?"),),
)
case(
    "widen and rename",
    source=(into(CALLS, "calls: U64?"),),
    target=(rename(CALLS, "stops"),),
    merged=(into(CALLS, "stops: U64?"),),
)
case(
    "widen and require",
    source=(into(CALLS, "calls: U64?"),),
    target=(into(CALLS, "calls: U32"),),
    merged=(into(CALLS, "calls: U64"),),
)
case(
    "widen and give a default",
    source=(into(CALLS, "calls: U64?"),),
    target=(into(CALLS, "calls: U32? @default(3)"),),
    merged=(into(CALLS, "calls: U64? @default(3)"),),
)
case(
    "widen a property with a range, the other alters the range",
    source=(into(TONNAGE, "tonnage: I64?"),),
    target=((RANGE, "@range(tonnage, 0..30000)"),),
    merged=(into(TONNAGE, "tonnage: I64?"), (RANGE, "@range(tonnage, 0..30000)")),
)

# required

case("require", source=(into(FLAG, "flag: String"),), merged=(into(FLAG, "flag: String"),))
case(
    "require on both sides",
    source=(into(FLAG, "flag: String"),),
    target=(into(FLAG, "flag: String"),),
    merged=(into(FLAG, "flag: String"),),
)
case(
    "require and describe",
    source=(into(FLAG, "flag: String"),),
    target=(into(FLAG, 'flag: String? @description("home")'),),
    merged=(into(FLAG, 'flag: String @description("home")'),),
)
case(
    "require one and relax another",
    source=(into(FLAG, "flag: String"),),
    target=(into(DRAFT, "draft: F64?"),),
    merged=(into(FLAG, "flag: String"), into(DRAFT, "draft: F64?")),
)

# defaults: like a description

case(
    "give a default",
    source=(into(CALLS, "calls: U32? @default(1)"),),
    target=(add("Ship", "built: I32?"),),
    merged=(into(CALLS, "calls: U32? @default(1)"), add("Ship", "built: I32?")),
)
case(
    "give the same default",
    source=(into(CALLS, "calls: U32? @default(1)"),),
    target=(into(CALLS, "calls: U32? @default(1)"),),
    merged=(into(CALLS, "calls: U32? @default(1)"),),
)
case(
    "give other defaults",
    source=(into(CALLS, "calls: U32? @default(1)"),),
    target=(into(CALLS, "calls: U32? @default(2)"),),
    conflicts=(diverges("node:Ship.calls", "default", None, "1", "2"),),
)
case(
    "give a default and a description",
    source=(into(CALLS, "calls: U32? @default(1)"),),
    target=(into(CALLS, 'calls: U32? @description("c")'),),
    merged=(into(CALLS, 'calls: U32? @default(1) @description("c")'),),
)
case(
    "add the same property with other defaults",
    source=(add("Ship", "built: I32? @default(1)"),),
    target=(add("Ship", "built: I32? @default(2)"),),
    conflicts=(diverges("node:Ship.built", "default", None, "1", "2"),),
)
case(
    "add the same property, one with a default",
    source=(add("Ship", "built: I32? @default(1)"),),
    target=(add("Ship", "built: I32?"),),
    merged=(add("Ship", "built: I32? @default(1)"),),
)
case(
    "add a required property with a default",
    source=(add("Ship", "built: I32 @default(1)"),),
    target=(add("Ship", "owner: String?"),),
    merged=(add("Ship", "built: I32 @default(1)"), add("Ship", "owner: String?")),
)
case(
    "add the same required property with a default",
    source=(add("Ship", "built: I32 @default(1)"),),
    target=(add("Ship", "built: I32 @default(1)"),),
    merged=(add("Ship", "built: I32 @default(1)"),),
)
case(
    "add the same property, required by one",
    source=(add("Ship", "built: I32 @default(1)"),),
    target=(add("Ship", "built: I32?"),),
    conflicts=(clashes("node:Ship.built", "I32", "I32?"),),
)
case(
    "a default that the other side's enum lost",
    source=(into(STATE, "state: enum(active, laid_up, sold)? @default(sold)"),),
    target=(into(STATE, "state: enum(active, laid_up)?"),),
    conflicts=(broken("node:Ship.state"),),
)
case(
    "a default outside the other side's range",
    source=(into(TONNAGE, "tonnage: I32? @default(9000)"),),
    target=((RANGE, "@range(tonnage, 0..5000)"),),
    conflicts=(broken("node:Ship.tonnage"),),
)

# rules

case("add a unique", source=(rule("@unique(flag)"),), merged=(rule("@unique(flag)"),))
case(
    "add the same unique",
    source=(rule("@unique(flag)"),),
    target=(into(FLAG, "flag: String? @unique"),),
    merged=(rule("@unique(flag)"),),
)
case(
    "add other uniques",
    source=(rule("@unique(flag)"),),
    target=(rule("@unique(flag, remark)"),),
    merged=(rule("@unique(flag)"), rule("@unique(flag, remark)")),
)
case("remove a unique", source=(drop("@unique(name)"),), merged=(drop("@unique(name)"),))
case(
    "remove a unique, the other renames its member",
    source=(drop("@unique(name)"),),
    target=(rename("name: String", "title"), ("@unique(name)", "@unique(title)")),
    merged=(drop("@unique(name)"), rename("name: String", "title")),
)
case("remove a range", source=(drop(RANGE),), merged=(drop(RANGE),))
case("remove it on both sides", source=(drop(RANGE),), target=(drop(RANGE),), merged=(drop(RANGE),))
case(
    "remove a check",
    source=(drop(CHECK),),
    target=(drop(RANGE),),
    merged=(drop(CHECK), drop(RANGE)),
)
case("add a range", source=(rule("@range(calls, 0..9)"),), merged=(rule("@range(calls, 0..9)"),))
case(
    "add the same range",
    source=(rule("@range(calls, 0..9)"),),
    target=(rule("@range(calls, 0..9)"),),
    merged=(rule("@range(calls, 0..9)"),),
)
case(
    "add other ranges of one property",
    source=(rule("@range(calls, 0..9)"),),
    target=(rule("@range(calls, 0..8)"),),
    conflicts=(
        diverges(
            "node:Ship.calls", "constraint", None, "@range(calls, 0..9)", "@range(calls, 0..8)"
        ),
    ),
)
case(
    "alter a range",
    source=((RANGE, "@range(tonnage, 5..)"),),
    target=(add("Ship", "built: I32?"),),
    merged=((RANGE, "@range(tonnage, 5..)"), add("Ship", "built: I32?")),
)
case(
    "alter a range alike",
    source=((RANGE, "@range(tonnage, 5..)"),),
    target=((RANGE, "@range(tonnage, 5..)"),),
    merged=((RANGE, "@range(tonnage, 5..)"),),
)
case(
    "alter a range differently",
    source=((RANGE, "@range(tonnage, 5..)"),),
    target=((RANGE, "@range(tonnage, ..10000)"),),
    conflicts=(
        diverges(
            "node:Ship.tonnage",
            "constraint",
            RANGE,
            "@range(tonnage, 5..)",
            "@range(tonnage, ..10000)",
        ),
    ),
)
case(
    "alter a range, the other removes it",
    source=((RANGE, "@range(tonnage, 5..)"),),
    target=(drop(RANGE),),
    conflicts=(diverges("node:Ship.tonnage", "constraint", RANGE, "@range(tonnage, 5..)", None),),
)
case(
    "alter a check differently",
    source=((CHECK, '@check(flag, "^A")'),),
    target=((CHECK, '@check(flag, "^B")'),),
    conflicts=(
        diverges("node:Ship.flag", "constraint", CHECK, '@check(flag, "^A")', '@check(flag, "^B")'),
    ),
)
case(
    "alter a range and a check of different properties",
    source=((CHECK, '@check(flag, "^A")'),),
    target=((RANGE, "@range(tonnage, 5..)"),),
    merged=((CHECK, '@check(flag, "^A")'), (RANGE, "@range(tonnage, 5..)")),
)
case(
    "add a rule to a property of the other side's new name",
    source=(rule("@range(calls, 0..9)"),),
    target=(rename(CALLS, "stops"),),
    merged=(rename(CALLS, "stops"), rule("@range(stops, 0..9)")),
)
case(
    "drop a property, the other adds rules to it",
    source=(drop(CALLS),),
    target=(rule("@range(calls, 0..9)"), rule("@unique(calls, flag)")),
    merged=(drop(CALLS),),
)
case(
    "drop a type, the other adds rules to it",
    source=NO_SHIP,
    target=(rule("@range(calls, 0..9)"),),
    merged=NO_SHIP,
)
case(
    "a unique over the ends of an edge",
    source=(drop("@unique(src, dst)"),),
    target=(add("CallsAt", "@unique(src, visits)"),),
    merged=(drop("@unique(src, dst)"), add("CallsAt", "@unique(src, visits)")),
)

# enums that shrink

case(
    "shrink an enum",
    source=(into(STATE, "state: enum(active, sold)?"),),
    merged=(into(STATE, "state: enum(active, sold)?"),),
)
case(
    "shrink an enum by other values",
    source=(into(STATE, "state: enum(active, sold)?"),),
    target=(into(STATE, "state: enum(active, laid_up)?"),),
    merged=(into(STATE, "state: enum(active)?"),),
)
case(
    "shrink and grow an enum",
    source=(into(STATE, "state: enum(active, sold)?"),),
    target=(into(STATE, "state: enum(active, laid_up, lost, sold)?"),),
    merged=(into(STATE, "state: enum(active, lost, sold)?"),),
)
case(
    "no value is left",
    source=(into(STATE, "state: enum(active)?"),),
    target=(into(STATE, "state: enum(laid_up, sold)?"),),
    conflicts=(broken("node:Ship.state"),),
)

# cardinality

case("tighten a cardinality", source=(card("1..3"),), merged=(card("1..3"),))
case("tighten it alike", source=(card("1..3"),), target=(card("1..3"),), merged=(card("1..3"),))
case(
    "tighten and relax a cardinality",
    source=(card("1..3"),),
    target=(card("0..5"),),
    conflicts=(diverges("edge:CallsAt", "cardinality", "1..5", "1..3", "0..5"),),
)
case(
    "tighten a cardinality differently",
    source=(card("1..3"),),
    target=(card("1..2"),),
    conflicts=(diverges("edge:CallsAt", "cardinality", "1..5", "1..3", "1..2"),),
)
case(
    "tighten a cardinality and rename the type",
    source=(card("1..3"),),
    target=((CALLS_AT, 'edge Stops: Ship -> Port @card(1..5) @rename_from("CallsAt") {'),),
    merged=((CALLS_AT, "edge Stops: Ship -> Port @card(1..3) {"),),
)

# another embed

case(
    "embed by another model",
    source=((VECTOR, 'vector: Vector(4)? @embed(body, model="m2")'),),
    merged=((VECTOR, 'vector: Vector(4)? @embed(body, model="m2")'),),
)
case(
    "embed differently",
    source=((VECTOR, 'vector: Vector(4)? @embed(body, model="m2")'),),
    target=((VECTOR, 'vector: Vector(4)? @embed(notes, model="m1")'),),
    conflicts=(diverges("node:Paper.vector", "embed", "body by m1", "body by m2", "notes by m1"),),
)
case(
    "embed another text, the other renames it",
    source=((VECTOR, 'vector: Vector(4)? @embed(notes, model="m1")'),),
    target=(rename("notes: String?", "remarks"),),
    merged=(
        into("notes: String?", "remarks: String?"),
        (VECTOR, 'vector: Vector(4)? @embed(remarks, model="m1")'),
    ),
)
case(
    "drop a text that the other embeds now",
    source=(drop("notes: String?"),),
    target=((VECTOR, 'vector: Vector(4)? @embed(notes, model="m1")'),),
    conflicts=(dropped("node:Paper.notes", "source", "node:Paper.vector"),),
)

# another metric

ANGLE, PRODUCT = f"{VECTOR} @metric(cosine)", f"{VECTOR} @metric(dot)"
case("another metric", source=(into(VECTOR, ANGLE),), merged=(into(VECTOR, ANGLE),))
case(
    "the same metric",
    source=(into(VECTOR, ANGLE),),
    target=(into(VECTOR, ANGLE),),
    merged=(into(VECTOR, ANGLE),),
)
case(
    "different metrics",
    source=(into(VECTOR, ANGLE),),
    target=(into(VECTOR, PRODUCT),),
    conflicts=(diverges("node:Paper.vector", "metric", "l2", "cosine", "dot"),),
)

# drops

for name, line, other, word in (
    ("ranks it by another metric", VECTOR, ANGLE, "change_metric"),
    ("widens it", CALLS, "calls: U64?", "widen"),
    ("requires it", FLAG, "flag: String", "require"),
    ("gives it a default", CALLS, "calls: U32? @default(1)", "default"),
    ("shrinks its enum", STATE, "state: enum(active)?", "shrink_enum"),
    (
        "embeds it by another model",
        VECTOR,
        'vector: Vector(4)? @embed(body, model="m2")',
        "change_embed",
    ),
):
    gone = {FLAG: (drop(CHECK), drop("@index(state, flag)")), STATE: (drop("@index(state, flag)"),)}
    owner = "node:Paper" if line == VECTOR else "node:Ship"
    case(
        f"drop a property, the other {name}",
        source=(drop(line), *gone.get(line, ())),
        target=(into(line, other),),
        conflicts=(dropped(f"{owner}.{line.split(':')[0]}", "source", word),),
    )
case(
    "drop a type, the other widens and requires",
    source=NO_SHIP,
    target=(into(CALLS, "calls: U64?"), into(FLAG, "flag: String")),
    conflicts=(dropped("node:Ship", "source", "require", "widen"),),
)
case(
    "drop an edge type, the other tightens its cardinality",
    source=(whole("edge CallsAt"),),
    target=(card("1..3"),),
    conflicts=(dropped("edge:CallsAt", "source", "tighten_cardinality"),),
)
case(
    "drop a property, the other removes its description",
    source=(drop(REMARK), drop("@index(remark)")),
    target=(into(REMARK, "remark: String?"),),
    merged=(drop(REMARK), drop("@index(remark)")),
)

"""Random whole mutations over the schema of a plain model: `for`, `match`, every statement, conditions, `return`.

Values are made kind by kind, so that most texts compile. Every form that is used is counted.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.write.model import Edge, Model, Node, Prop
from tests.write.random_model import DAYS, TEXTS, json_of, make_value

RECORD = {"s": "String", "t": "String", "i": "I64", "f": "F64", "b": "Bool", "d": "Date"}
"""The fields of a record of `for`; all may be null."""
SCALARS = {"String": "s", "I64": "i"}
COMPARED = ["=", "=", "!=", "<", "<=", ">", ">="]
FORMS = {
    *("for", "for over values", "match", "two nodes", "an edge variable", "optional", "exists"),
    *("not", "a condition with a record", "an inline value", "insert node", "insert edge"),
    *("insert named", "upsert node", "upsert edge", "upsert named", "update where", "update $v"),
    *("update edge where", "update $e", "delete where", "delete $v", "delete edge where"),
    *("delete $e", "mixed", "no statement but deletes", "an end by a variable", "an old value"),
    *("a value of a variable", "a value of a record", "null", "arithmetic", "division", "if"),
    *("coalesce", "text", "concat", "length", "exists as a value", "an aggregate", "return"),
    *("return distinct", "return an aggregate", "return a shape", "or", "is null", "in"),
    *("a variable in where", "several rows of one entity", "return a number of rows"),
    "plain inserts",
}


def kind_of(prop: Prop) -> str:
    """The kind of the expressions that fit a property."""
    return {"enum": "String", "I32": "I64"}.get(prop.kind, prop.kind)


@dataclass
class WholeMutation:
    """A mutation as text, with values for its parameters."""

    rnd: random.Random
    model: Model
    forms: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, str] = field(default_factory=dict)
    """Node variables with their types; likewise edges."""
    edges: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    """Variables that statements insert."""
    each: dict[str, str] = field(default_factory=dict)
    """What the variable of `for` gives: expressions with their kinds."""
    declared: list[str] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)
    target: Node | Edge | None = None
    """What bare names are properties of."""
    is_pair: bool = False
    """Whether the match binds more than one variable: rows of one entity may repeat."""

    def used(self, form: str, text: str) -> str:
        """Count a form."""
        self.forms[form] += 1
        return text

    def chance(self, probability: float) -> bool:
        return self.rnd.random() < probability

    def text(self) -> str:
        """The whole text."""
        known = sum(map(len, self.model.rows.values()))
        if self.chance(0.6 if known < 5 else 0.05):
            inserts = self.filling()
            if inserts:
                return f"({', '.join(self.declared)}) {inserts}"
        parts = []
        if self.chance(0.4):
            parts.append(self.for_())
        if self.chance(0.65 if self.model.edges else 0.5):
            parts.append(self.match())
        statements = self.statements()
        parts += statements
        if self.chance(0.5):
            parts.append(self.returned())
        return f"({', '.join(self.declared)}) {' '.join(parts)}"

    def filling(self) -> str:
        """Inserts of sound values without any rows: what the others need to have something to do with."""
        self.forms["plain inserts"] += 1
        kinds = list(self.model.nodes.values())
        nodes = [self.filled(self.rnd.choice(kinds)) for _ in range(self.rnd.randint(1, 3))]
        ties = list(self.model.edges.values())
        edges = [self.filled(self.rnd.choice(ties)) for _ in range(self.rnd.randint(0, 2))]
        return " ".join(one for one in (*nodes, *edges) if one)

    def filled(self, entity: Node | Edge) -> str:
        """One insert; nothing where an edge has no ends."""
        entries = [
            f"{prop.name}: {self.literal(prop)}"
            for prop in entity.props
            if prop.required or self.chance(0.8)
        ]
        if isinstance(entity, Edge):
            for side, type_name in (("from", entity.src), ("to", entity.dst)):
                ids = list(self.model.rows[type_name])
                if not ids:
                    return ""
                given = self.declare(f"p{len(self.given)}", "String", self.rnd.choice(ids))
                entries.append(f"{side}: {given}")
        elif not entries:
            return ""
        return f"insert {entity.name} {{ {', '.join(entries)} }}"

    # -- rows

    def for_(self) -> str:
        """`for` over records, or over values of one kind."""
        count = self.rnd.choice([0, 1, 2, 3, 4, 6])
        if self.chance(0.2):
            kind = self.rnd.choice(list(SCALARS))
            values = [self.plain(kind) for _ in range(count)]
            self.declare("rows", f"[{kind}]", [v for v in values if v is not None])
            self.each = {"$r": kind}
            return self.used("for over values", "for $r in $rows")
        fields = ", ".join(f"{name}: {kind}?" for name, kind in RECORD.items())
        records = [
            {n: self.plain(kind) for n, kind in RECORD.items() if self.chance(0.95)}
            for _ in range(count)
        ]
        self.declare("rows", f"[{{ {fields} }}]", records)
        self.each = {f"$r.{name}": kind for name, kind in RECORD.items()}
        return self.used("for", "for $r in $rows")

    def declare(self, name: str, kind: str, value: Any) -> str:
        self.declared.append(f"${name}: {kind}")
        self.given[name] = value
        return f"${name}"

    def plain(self, kind: str) -> Any:
        """A value of a kind as JSON, now and then null."""
        prop = Prop("p", {"I64": "I32"}.get(kind, kind))
        value = make_value(self.rnd, prop, required=self.chance(0.7))
        if kind == "String" and self.model.nodes and self.chance(0.4):
            name = self.rnd.choice(list(self.model.nodes))
            value = self.rnd.choice([*self.model.rows[name], "a"])
        return json_of(kind, value)

    def match(self) -> str:
        """`match` of one node or two that are joined, with conditions and blocks."""
        self.forms["match"] += 1
        edge = self.model.edges[self.rnd.choice(list(self.model.edges))]
        name = self.rnd.choice([*self.model.nodes, edge.src])
        clauses = [self.binding("a", name)]
        touching = [e for e in self.model.edges.values() if e.src == name]
        if touching and self.chance(0.55):
            edge = self.rnd.choice(touching)
            word = edge.name.lower()
            self.is_pair = True
            if self.chance(0.5):
                self.edges["e"] = edge.name
                clauses.append(self.used("an edge variable", f"$a $e:{word} $b"))
            else:
                clauses.append(self.used("two nodes", f"$a {word} $b"))
            self.nodes["b"] = edge.dst
        if self.each and self.chance(0.7):
            kinds = set(self.each.values())
            props = [p for p in self.model.nodes[name].props if kind_of(p) in kinds]
            if props:
                prop = self.rnd.choice(props)
                value = self.rnd.choice([e for e, k in self.each.items() if k == kind_of(prop)])
                clauses.append(self.used("a condition with a record", f"$a.{prop.name} = {value}"))
        if self.chance(0.3):
            clauses.append(self.condition())
        clauses += self.blocks(name)
        return f"match {{ {'  '.join(clauses)} }}"

    def blocks(self, name: str) -> list[str]:
        """`optional`, `exists` and `not` at the first node."""
        touching = [e for e in self.model.edges.values() if e.src == name]
        if not touching:
            return []
        edge, found = self.rnd.choice(touching), []
        word = edge.name.lower()
        if self.chance(0.25):
            self.nodes["o"] = edge.dst
            self.is_pair = True
            inner = f"$a {word} $o"
            if self.chance(0.3):
                self.edges["f"] = edge.name
                inner = f"$a $f:{word} $o"
            found.append(self.used("optional", f"optional {{ {inner} }}"))
        if self.chance(0.12):
            found.append(self.used("exists", f"exists {{ $a {word} $_ }}"))
        if self.chance(0.12):
            found.append(self.used("not", f"not {{ $a {word} $_ }}"))
        return found

    def binding(self, var: str, name: str) -> str:
        self.nodes[var] = name
        inline = ""
        if self.chance(0.15):
            prop = self.rnd.choice(self.model.nodes[name].props)
            inline = self.used("an inline value", f" {{ {prop.name}: {self.literal(prop)} }}")
        return f"${var}: {name}{inline}"

    # -- statements

    def statements(self) -> list[str]:
        count = self.rnd.choice([1, 1, 2, 2, 3, 4])
        makers = [self.insert] * 5 + [self.update] * 4 + [self.delete]
        texts = [self.rnd.choice(makers)() for _ in range(count)]
        words = {text.split()[0] for text in texts}
        if "delete" in words:
            self.forms["mixed" if len(words) > 1 else "no statement but deletes"] += 1
        return texts

    def insert(self) -> str:
        name = self.rnd.choice([*self.model.nodes, *self.model.edges])
        entity = self.model.nodes.get(name) or self.model.edges[name]
        can_upsert = isinstance(entity, Edge) or bool(entity.key)
        verb = "upsert" if can_upsert and self.chance(0.5) else "insert"
        what = "edge" if isinstance(entity, Edge) else "node"
        self.target = entity if verb == "upsert" else None
        entries = []
        for prop in entity.props:
            if prop.required or self.chance(0.6):
                is_key = isinstance(entity, Node) and prop.name in entity.key
                value = self.key_value(prop) if is_key else self.value(prop)
                entries.append(f"{prop.name}: {value}")
        if isinstance(entity, Edge):
            entries += [f"from: {self.end(entity.src)}", f"to: {self.end(entity.dst)}"]
        self.target = None
        if not entries:
            return self.insert()
        self.forms[f"{verb} {what}"] += 1
        named = ""
        if self.chance(0.35):
            var = f"n{len(self.made)}"
            self.made.add(var)
            (self.edges if isinstance(entity, Edge) else self.nodes)[var] = name
            named = self.used(f"{verb} named", f"${var}: ")
        return f"{verb} {named}{name} {{ {', '.join(entries)} }}"

    def key_value(self, prop: Prop) -> str:
        """A value for a key: most often one that tells rows apart."""
        kind = kind_of(prop)
        found = [expr for expr, of in self.each.items() if of == kind]
        if found and self.chance(0.75):
            return self.used("a value of a record", self.rnd.choice(found))
        known = self.known(kind)
        if known and self.chance(0.3):
            return self.used("a value of a variable", self.rnd.choice(known))
        return self.literal(prop)

    def end(self, type_name: str) -> str:
        """An end of an edge."""
        known = [f"${var}" for var, name in self.nodes.items() if name == type_name]
        if known and self.chance(0.75):
            return self.used("an end by a variable", self.rnd.choice(known))
        if "$r.s" in self.each and self.chance(0.4):
            return self.used("a value of a record", self.rnd.choice(["$r.s", "$r.t"]))
        ids = list(self.model.rows[type_name])
        value = self.rnd.choice(ids) if ids and self.chance(0.95) else "nobody"
        return self.declare(f"p{len(self.given)}", "String", value)

    def update(self) -> str:
        matched = {v: n for v, n in {**self.nodes, **self.edges}.items() if v not in self.made}
        if matched and self.chance(0.6):
            var = self.rnd.choice(list(matched))
            entity = self.model.nodes.get(matched[var]) or self.model.edges[matched[var]]
            free = self.free(entity)
            if free:
                self.forms["update $v" if isinstance(entity, Node) else "update $e"] += 1
                if self.is_pair:
                    self.forms["several rows of one entity"] += 1
                return f"update ${var} set {{ {self.changes(entity, free, var)} }}"
        name = self.rnd.choice([*self.model.nodes, *self.model.edges])
        entity = self.model.nodes.get(name) or self.model.edges[name]
        free = self.free(entity)
        if not free:
            return self.insert()
        is_edge = isinstance(entity, Edge)
        form = "update edge where" if is_edge else "update where"
        changes = self.changes(entity, free, None)
        return self.used(form, f"update {name} set {{ {changes} }} where {self.where(entity)}")

    def free(self, entity: Node | Edge) -> list[Prop]:
        key = entity.key if isinstance(entity, Node) else ()
        return [prop for prop in entity.props if prop.name not in key]

    def changes(self, entity: Node | Edge, free: list[Prop], var: str | None) -> str:
        self.target = entity
        entries = []
        for prop in self.rnd.sample(free, self.rnd.randint(1, len(free))):
            value = self.value(prop)
            if var is not None and not self.each and self.chance(0.2):
                value = self.aggregate(kind_of(prop)) or value
            entries.append(f"{prop.name}: {value}")
        self.target = None
        return ", ".join(entries)

    def aggregate(self, kind: str) -> str | None:
        """An aggregate over the rows of an entity."""
        if kind == "I64":
            known = [one for one in self.known("I64") if one.split(".")[0][1:] not in self.made]
            if known and self.chance(0.5):
                word = self.rnd.choice(["sum", "min", "max", "count"])
                return self.used("an aggregate", f"{word}({self.rnd.choice(known)})")
            return self.used("an aggregate", "count(*)")
        return None

    def delete(self) -> str:
        matched = {v: n for v, n in {**self.nodes, **self.edges}.items() if v not in self.made}
        if matched and self.chance(0.5):
            var = self.rnd.choice(list(matched))
            form = "delete $v" if matched[var] in self.model.nodes else "delete $e"
            return self.used(form, f"delete ${var}")
        name = self.rnd.choice([*self.model.nodes, *self.model.edges])
        entity = self.model.nodes.get(name) or self.model.edges[name]
        form = "delete edge where" if isinstance(entity, Edge) else "delete where"
        return self.used(form, f"delete {name} where {self.where(entity)}")

    def where(self, entity: Node | Edge) -> str:
        """A condition on a target, now and then with a value of the row."""
        self.target = entity
        if isinstance(entity, Edge) and (not entity.props or self.chance(0.5)):
            side, type_name = self.rnd.choice([("from", entity.src), ("to", entity.dst)])
            ids = list(self.model.rows[type_name]) or ["nobody"]
            text = f"{side} = {self.declare(f'p{len(self.given)}', 'String', self.rnd.choice(ids))}"
        else:
            text = self.test(entity)
            if self.chance(0.25):
                word = self.rnd.choice(["or", "and"])
                text = self.used(word, f"{text} {word} {self.test(entity)}")
        self.target = None
        return text

    def test(self, entity: Node | Edge) -> str:
        prop = self.rnd.choice(entity.props)
        kind, roll = kind_of(prop), self.rnd.random()
        others = [*self.known(kind), *(e for e, k in self.each.items() if k == kind)]
        if others and roll < 0.4:
            op = self.rnd.choice(COMPARED) if kind != "Bool" else "="
            return self.used("a variable in where", f"{prop.name} {op} {self.rnd.choice(others)}")
        if roll < 0.5:
            word = self.rnd.choice(["is null", "is not null"])
            return self.used("is null", f"{prop.name} {word}")
        if roll < 0.6 and kind in ("I64", "String"):
            items = ", ".join(self.literal(prop) for _ in range(3))
            return self.used("in", f"{prop.name} in [{items}]")
        return f"{prop.name} {self.rnd.choice(COMPARED)} {self.literal(prop)}"

    def condition(self) -> str:
        """A condition on a variable of the match."""
        name = self.nodes["a"]
        prop = self.rnd.choice(self.model.nodes[name].props)
        if self.chance(0.3):
            return self.used("is null", f"$a.{prop.name} is not null")
        return f"$a.{prop.name} {self.rnd.choice(COMPARED)} {self.literal(prop)}"

    # -- values

    def known(self, kind: str) -> list[str]:
        """The properties of variables of a kind."""
        found = []
        for var, name in {**self.nodes, **self.edges}.items():
            entity = self.model.nodes.get(name) or self.model.edges[name]
            found += [f"${var}.{prop.name}" for prop in entity.props if kind_of(prop) == kind]
        return found

    def literal(self, prop: Prop) -> str:
        """A literal that compiles for a property."""
        match prop.kind:
            case "String":
                return '"' + self.rnd.choice(TEXTS) + '"'
            case "I32":
                return str(self.rnd.choice([-3, -1, 0, 1, 2, 7]))
            case "F64":
                return str(self.rnd.choice([-2.5, -0.5, 0.0, 1.0, 2.5]))
            case "Bool":
                return self.rnd.choice(["true", "false"])
            case "Date":
                return f'date("{self.rnd.choice(DAYS)}")'
        return '"' + self.rnd.choice(prop.values) + '"'

    def value(self, prop: Prop) -> str:
        """What a property is assigned."""
        if self.chance(0.04 if prop.required else 0.1):
            return self.used("null", "null")
        if prop.kind == "enum" and self.chance(0.8):
            return self.literal(prop)
        return self.expression(kind_of(prop), prop, 0)

    def operand(self, kind: str, prop: Prop) -> str:
        """A value, without computing."""
        found = [(expr, "a value of a record") for expr, of in self.each.items() if of == kind]
        found += [(expr, "a value of a variable") for expr in self.known(kind)]
        if self.target is not None:
            bare = [p.name for p in self.target.props if kind_of(p) == kind]
            found += [(name, "an old value") for name in bare]
        if found and self.chance(0.75):
            text, form = self.rnd.choice(found)
            return self.used(form, text)
        if self.chance(0.3):
            value = make_value(self.rnd, prop, required=prop.required)
            json = json_of(kind, value)
            return self.declare(f"p{len(self.given)}", f"{kind}?", json)
        return self.literal(prop)

    def expression(self, kind: str, prop: Prop, depth: int) -> str:
        roll = self.rnd.random()
        if depth > 1 or roll < 0.55:
            return self.operand(kind, prop)
        one = self.expression(kind, prop, depth + 1)
        other = self.expression(kind, prop, depth + 1)
        if roll < 0.63:
            return self.used("coalesce", f"coalesce({one}, {other})")
        if roll < 0.71:
            test = "true"
            if self.nodes.get("a") is not None and self.chance(0.5):
                test = self.exists() or test
            elif self.target is not None and self.target.props:
                test = self.test(self.target)
            return self.used("if", f"if({test}, {one}, {other})")
        if kind == "I64":
            if roll < 0.8:
                texts = self.known("String") or ['"abc"']
                return self.used("length", f"length({self.rnd.choice(texts)})")
            if roll < 0.85:
                return self.used("division", f"({one} % {other})")
            return self.used("arithmetic", f"({one} {self.rnd.choice('+-*')} {other})")
        if kind == "F64":
            if roll < 0.85:
                return self.used("division", f"({one} / {other})")
            return self.used("arithmetic", f"({one} {self.rnd.choice('+-*')} {other})")
        if kind == "String":
            if roll < 0.85:
                return self.used("concat", f"({one} + {other})")
            whole = self.operand("I64", Prop("n", "I32"))
            return self.used("text", f"text({whole})")
        return one

    def exists(self) -> str | None:
        touching = [e for e in self.model.edges.values() if e.src == self.nodes["a"]]
        if not touching:
            return None
        word = self.rnd.choice(touching).name.lower()
        return self.used("exists as a value", f"exists {{ $a {word} $_ }}")

    # -- return

    def returned(self) -> str:
        self.forms["return"] += 1
        kinds = ("String", "I64", "F64", "Bool", "Date")
        known = [one for kind in kinds for one in self.known(kind)]
        if self.chance(0.15):
            keys = self.rnd.sample(known, min(len(known), 1))
            items = [*(f"{one} as k{at}" for at, one in enumerate(keys)), "count(*) as n"]
            whole = self.known("I64")
            if whole and self.chance(0.5):
                items.append(f"sum({self.rnd.choice(whole)}) as s")
            return self.used("return an aggregate", f"return {{ {', '.join(items)} }}")
        known += [*self.each, *(f"${v}" for v in self.nodes)]
        known += [f"id(${v})" for v in [*self.nodes, *self.edges] if v not in self.made]
        if not known:
            return self.used("return a number of rows", "return { count(*) as n }")
        items = [
            f"{one} as k{at}"
            for at, one in enumerate(
                self.rnd.sample(known, min(len(known), self.rnd.randint(1, 4)))
            )
        ]
        if self.nodes and self.chance(0.2):
            var = self.rnd.choice(list(self.nodes))
            items.append(self.used("return a shape", f"${var} {{ * }} as shape"))
        distinct = self.used("return distinct", "distinct ") if self.chance(0.2) else ""
        return f"return {distinct}{{ {', '.join(items)} }}"

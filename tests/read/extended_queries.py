"""Random query texts with conditions, expressions and output of every form, over the schema of ``queries``.

Texts are made kind by kind (number, text, date, date-time, truth), so that nearly all of them compile. Every form
that is used is counted: a test prints the table, so that no form is forgotten.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from omnigraph.lang.schema import compile_schema
from tests.oracle.graph import Graph, Values
from tests.read import queries
from tests.read.queries import ENDS, NUMBERS, TEXTS, TIMES, WORDS, Query

SCHEMA = (
    queries.SCHEMA
    + "edge Follows: Person -> Person { since: I32?  note: String?  km: F64?  marks: [String]? }\n"
)
CATALOG = compile_schema(SCHEMA).catalog
KILOMETRES = [None, 0.0, 0.25, 1.0, 1.0, 2.0]
MARKS: list[list[str] | None] = [None, [], ["z"], ["ann", "z", "ann"], ["", "Bob"]]


def plain_graph(rng: random.Random, persons: int = 8, edges: int = 14) -> Graph:
    """A small graph of ``queries`` with a second edge type between persons, whose weights may be negative."""
    graph = queries.plain_graph(rng, persons, edges)
    people = list(graph.nodes["Person"])
    for name in people:
        if rng.random() < 0.4:
            graph.nodes["Person"][name] = person(rng, name)
    kilometres = [*KILOMETRES, -1.0] if rng.random() < 0.2 else KILOMETRES
    graph.edges["Follows"] = [
        (
            f"Follows{at:03d}",
            rng.choice(people),
            rng.choice(people),
            {
                "since": rng.choice([None, 1, 30]),
                "note": rng.choice([None, *WORDS]),
                "km": rng.choice(kilometres),
                "marks": rng.choice(MARKS),
            },
        )
        for at in range(rng.randint(0, edges) if people else 0)
    ]
    return graph


AGED = """
query aged($least: I64, $most: I64?) {
  match { $s: Person  $s.age >= $least  not $s.age > $most }
  return { $s as who, $s.age as n, $s.nick as word } order { n desc } limit 4
}"""
DEGREES = """
query degrees() {
  match { $s: Person  optional { $s knows $t } }
  return { $s as who, count($t) as n, min($t.nick) as word }
}"""
CHOSEN = """
query chosen($words: [String], $size: I64) {
  for $w in $words match { $s: Person { name: $w } }
  return { $s as who, length($w) as n, $w as word } limit $size
}"""


def person(rng: random.Random, name: str) -> Values:
    """One with values that functions tell apart."""
    seen = rng.choice([-1, -86_400_001, 951_827_696_789])  # before 1970; a 29 February at noon
    return {
        **queries.person(rng, name),
        "seen": seen,
        "born": seen // 86_400_000,
        "tags": rng.choice([["b", "a", "b"], ["ann", "ann"], ["z", "", "a"], []]),
        "nick": rng.choice(["\tAnn\u00a0", "banana", "nann", "Straße", "ΑΣ", "Bob", "a", "b"]),
    }


SOURCES = {
    "aged": (AGED, ["0, 30", "1", "-5, 1"]),
    "degrees": (DEGREES, [""]),
    "chosen": (CHOSEN, ['["ann0", "z1", "ann0"], 2', "[], 3", '["Bob1", "cy0", "2"], 9']),
}
"""Queries that others range over, with arguments for them; all have a node, a number and a text."""
LISTS: dict[str, list[list[object]]] = {
    "[String]": [["ann", "z", "ann"], [], ["", "Bob"]],
    "[I64]": [[1, 30, 1], [0]],
}


UNITS = ["year", "month", "day"]
CLOCK = ["hour", "minute", "second"]
INTEGERS = {"age", "views", "code", "since"}


@dataclass
class ExtendedQuery(Query):
    """A query that uses the second round of the language."""

    forms: Counter[str] = field(default_factory=Counter)
    patterns: bool = False
    """Whether optional blocks, alternatives, paths and lists may come, too."""
    paths: list[str] = field(default_factory=list)
    elements: list[str] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)
    """Edges with a list."""
    weighed: list[str] = field(default_factory=list)
    """Paths with a cost."""
    rows: list[str] = field(default_factory=list)
    """Variables of sources."""
    before: dict[str, str] = field(default_factory=dict)
    """The texts of the sources, by name."""
    given: dict[str, tuple[str, object]] = field(default_factory=dict)
    """The parameters of the query: type and value."""

    def used(self, form: str, text: str) -> str:
        """Count a form."""
        self.forms[form] += 1
        return text

    def text(self) -> str:
        """A query that compiles, most of the time; now and then one without a name."""
        if self.patterns and self.rng.random() < 0.8:
            self.clauses.append(self.binding())
            for _ in range(self.rng.randint(0, 2)):
                self.clauses.append(self.clause(0))
            self.optional_blocks()
            text = self.whole()
        else:
            text = super().text()
        declared = ", ".join(f"${name}: {kind}" for name, (kind, _) in self.given.items())
        inside = text.removeprefix("query q() {").rstrip().removesuffix("}").strip()
        sources = "\n".join(self.before.values())
        if self.rng.random() < 0.2:
            return self.used("anonymous", f"{sources}\n({declared})\n{inside}".strip())
        return f"{sources}\nquery q({declared}) {{\n  {inside}\n}}".strip()

    def param(self, kind: str, value: object) -> str:
        """A parameter that is given this value."""
        name = f"q{len(self.given)}"
        self.given[name] = (kind, value)
        return f"${name}"

    def whole(self) -> str:
        """The text of a query whose clauses are there."""
        body = "\n    ".join(self.clauses)
        returned, tail = self.output()
        return f"query q() {{\n  match {{\n    {body}\n  }}\n  return {{ {returned} }}{tail}\n}}"

    # -- patterns

    def optional_blocks(self) -> None:
        """Some optional blocks, and conditions on what they introduce."""
        for _ in range(self.rng.randint(0, 2)):
            inner, first = self.attached()
            clauses = [first, *(inner.clause(1) for _ in range(self.rng.randint(0, 1)))]
            if self.rng.random() < 0.25:
                clauses.append(self.used("optional in optional", inner.nested()))
            self.clauses.append(self.used("optional", f"optional {{ {'  '.join(clauses)} }}"))
            self.take(inner)
        if self.rng.random() < 0.4:
            self.clauses.append(f"and {self.condition()}")

    def attached(self) -> tuple[ExtendedQuery, str]:
        """A block and its first clause: something new at a node that is known, most of the time."""
        while True:
            inner = self.inner(0)
            first = inner.traversal()
            is_new = len(inner.nodes) > len(self.nodes) or len(inner.paths) > len(self.paths)
            if is_new and any(f"${name}" in first.split() for name in self.nodes):
                return inner, first
            if self.rng.random() < 0.1:
                return inner, inner.clause(1)

    def nested(self) -> str:
        """An optional block inside of this one, which then knows its variables."""
        within = self.inner(1)
        text = f"optional {{ {within.traversal()} }}"
        self.take(within)
        return text

    def take(self, inner: ExtendedQuery) -> None:
        """Know the variables of an optional block."""
        self.nodes, self.edges, self.taken = inner.nodes, inner.edges, inner.taken
        self.paths, self.elements = inner.paths, inner.elements
        self.weighed, self.rows = inner.weighed, inner.rows

    def inner(self, depth: int) -> ExtendedQuery:
        """A block that knows the variables so far."""
        return ExtendedQuery(
            self.rng,
            dict(self.nodes),
            dict(self.edges),
            self.taken + 100 * (depth + 1),
            forms=self.forms,
            patterns=self.patterns,
            paths=list(self.paths),
            elements=list(self.elements),
            marked=list(self.marked),
            weighed=list(self.weighed),
            rows=list(self.rows),
            before=self.before,
            given=self.given,
        )

    def clause(self, depth: int) -> str:
        """A clause; where patterns are wanted, a list to unroll now and then."""
        people = [name for name, kind in self.nodes.items() if kind == "Person"]
        if self.marked and self.rng.random() < 0.3:
            return self.marks_of(self.rng.choice(self.marked))
        if self.patterns and people and self.rng.random() < 0.1:
            name = self.fresh("g")
            self.elements.append(name)
            if self.rng.random() < 0.4:
                param = self.param("[String]", self.rng.choice(LISTS["[String]"]))
                return self.used("for over a parameter", f"for ${name} in {param}")
            return self.used("for", f"for ${name} in ${self.rng.choice(people)}.tags")
        if self.patterns and people and self.rng.random() < 0.1:
            return self.source(people)
        return super().clause(depth)

    def marks_of(self, edge: str) -> str:
        """The elements of the list of an edge."""
        name = self.fresh("g")
        self.elements.append(name)
        return self.used("for over a list of an edge", f"for ${name} in ${edge}.marks")

    def source(self, people: list[str]) -> str:
        """Rows of another query, by themselves or with the node that they hand over."""
        name, var = self.rng.choice(list(SOURCES)), self.fresh("r")
        text, arguments = SOURCES[name]
        self.before[name] = text
        self.rows.append(var)
        clause = self.used("source", f"${var}: {name}({self.rng.choice(arguments)})")
        if self.rng.random() < 0.6:
            clause += self.used("node of a source", f"  ${self.rng.choice(people)} = ${var}.who")
        return clause

    def traversal(self) -> str:
        """A traversal; where patterns are wanted, of any form."""
        if not self.patterns or self.rng.random() < 0.4:
            return super().traversal()
        rng = self.rng
        if rng.random() < 0.1:
            left, right, edge = (
                self.variable("Person", 0.3),
                self.variable("Person", 0.5),
                self.fresh("e"),
            )
            self.edges[edge] = "knows"
            self.marked.append(edge)
            shown = f"${left} ${edge}:{rng.choice(['follows', '<follows>'])} ${right}"
            return f"{shown}  {self.marks_of(edge)}" if rng.random() < 0.7 else shown
        word = rng.choice(["knows", "follows", "near", "knows|follows", "follows|knows", "livesIn"])
        kinds = ENDS.get(word, ("Person", "Person"))
        left, right = self.variable(kinds[0], 0.3), self.variable(kinds[1], 0.5)
        shown = word
        if kinds[0] == kinds[1] and rng.random() < 0.2:
            shown = f"<{word}>"
        self.forms["alternatives"] += "|" in word
        if kinds == ("Person", "Person") and rng.random() < 0.25:
            test = rng.choice(["since > 1", "note is null", 'since = 30 or note starts_with "a"'])
            shown += self.used("a condition on edges", f"[{test}]")
        kind = rng.random()
        if kinds[0] == kinds[1] and kind < 0.5:
            bounds = rng.choice(["{0,1}", "{0,}", "{1,}", "{2,}", "{1,3}", "{0,2}"])
            self.forms["from zero hops"] += bounds.startswith("{0")
            self.forms["an open bound"] += bounds.endswith(",}")
            if rng.random() < 0.5:
                name = self.fresh("w")
                self.paths.append(name)
                shown = self.used("a path", f"${name}:{shown}")
            shown += bounds
        elif kinds == ("Person", "Person") and kind < 0.62:
            weight = "km" if word == "follows" and rng.random() < 0.7 else "since"
            name = self.fresh("w")
            self.paths.append(name)
            self.weighed.append(name)
            if weight == "km" and rng.random() < 0.5:
                shown = self.used("weights under a condition", f"{word}[km >= 0.0]")
            shown = self.used("by", f"${name}:{shown} by {weight}")
        elif kinds == ("Person", "Person") and kind < 0.75:
            name = self.fresh("e")
            self.edges[name] = "knows"
            shown = f"${name}:{shown}"
        return f"${left} {shown} ${right}"

    def number(self, depth: int = 0) -> str:
        """An expression that is a number."""
        rng, kind = self.rng, self.rng.random()
        if self.paths and rng.random() < 0.3:
            return self.used("length of a path", f"length(${rng.choice(self.paths)})")
        if self.weighed and rng.random() < 0.3:
            return self.used("cost of a path", f"cost(${rng.choice(self.weighed)})")
        if self.rows and rng.random() < 0.3:
            return f"${rng.choice(self.rows)}.n"
        if depth > 2 or kind < 0.35:
            known = self.property_of(NUMBERS)
            plain = rng.choice(
                ["0", "1", "2", "30", "0.5", "0.1", "-3", "7.25", "9007199254740993"]
            )
            return known if known and rng.random() < 0.8 else plain
        if kind < 0.6:
            op = rng.choice(["+", "-", "*", "/"])
            both = f"{self.number(depth + 1)} {op} {self.number(depth + 1)}"
            return self.used(op, f"({both})" if rng.random() < 0.7 else both)
        if kind < 0.65:
            op = rng.choice("%%/")
            return self.used(op, f"{self.integer()} {op} {rng.choice(['2', '7', '0', '-3'])}")
        if kind < 0.7:
            return self.used("minus", f"-({self.number(depth + 1)})")
        if kind < 0.8:
            name = rng.choice(["abs", "floor", "ceil", "round"])
            digits = f", {rng.randint(0, 4)}" if name == "round" and rng.random() < 0.5 else ""
            return self.used(name, f"{name}({self.number(depth + 1)}{digits})")
        if kind < 0.85:
            return self.used("length", f"length({self.string(depth + 1)})")
        if kind < 0.9:
            day, unit = self.moment(depth + 1), rng.choice([*UNITS, "weekday"])
            return self.used("part", f'part({day}, "{unit}")')
        if kind < 0.93:
            unit = rng.choice([*UNITS, "week"])
            return self.used("elapsed", f'elapsed({self.day()}, {self.day()}, "{unit}")')
        if kind < 0.97:
            two = f"{self.number(depth + 1)}, {self.number(depth + 1)}"
            return self.used("coalesce", f"coalesce({two})")
        inside = f"{self.condition(depth + 1)}, {self.number(depth + 1)}"
        more = f", {self.number(depth + 1)}" if rng.random() < 0.7 else ""
        return self.used("if", f"if({inside}{more})")

    def integer(self) -> str:
        """A whole number."""
        return self.property_of(INTEGERS) or "17"

    def string(self, depth: int = 0) -> str:
        """An expression that is a text."""
        rng, kind = self.rng, self.rng.random()
        if self.elements and rng.random() < 0.3:
            return f"${rng.choice(self.elements)}"
        if self.rows and rng.random() < 0.2:
            return f"${rng.choice(self.rows)}.word"
        if depth > 2 or kind < 0.45:
            known = self.property_of(TEXTS)
            plain = f'"{rng.choice([*WORDS, "Straße", "ΑΣ", " b "])}"'
            return known if known and rng.random() < 0.8 else plain
        inside = self.string(depth + 1)
        if kind < 0.55:
            return self.used("concat", f"{inside} + {self.string(depth + 1)}")
        if kind < 0.75:
            name = rng.choice(["lower", "upper", "trim"])
            return self.used(name, f"{name}({inside})")
        if kind < 0.82:
            bounds = rng.choice(["0", "1", "2, 1", "0, 2", "1, 0", "-1", "1, 2"])
            return self.used("substring", f"substring({inside}, {bounds})")
        if kind < 0.88:
            old = rng.choice(["n", "", "nn", "é"])
            return self.used("replace", f'replace({inside}, "{old}", "{rng.choice(["", "ß"])}")')
        if kind < 0.94:
            some = [self.number(depth + 1), self.moment(), f"({self.condition(depth + 1)})"]
            some.append(self.property_of({"height", "weight", "share"}) or "2.0")
            return self.used("text", f"text({rng.choice(some)})")
        return self.used("coalesce", f"coalesce({inside}, {self.string(depth + 1)})")

    def day(self) -> str:
        """An expression that is a date."""
        rng = self.rng
        day = self.property_of({"born", "from_day"}) or 'date("2024-02-29")'
        kind = rng.random()
        if kind < 0.5:
            return day
        if kind < 0.7:
            unit = rng.choice([*UNITS, "week"])
            return self.used("floor of a date", f'floor({day}, "{unit}")')
        if kind < 0.9:
            count = rng.choice(["1", "-1", "13", "400", "4000000", "99999999", self.integer()])
            return self.used("shift", f'shift({day}, {count}, "{rng.choice([*UNITS, "week"])}")')
        seen = self.property_of({"seen"})
        return self.used("date", f"date({seen})") if seen else day

    def moment(self, depth: int = 0) -> str:
        """An expression that is a date or a date and time."""
        seen = self.property_of({"seen"})
        if not seen or self.rng.random() < 0.5:
            return self.day()
        kind = self.rng.random()
        if kind < 0.4:
            return seen
        if kind < 0.6:
            return self.used("floor of a date", f'floor({seen}, "{self.rng.choice(CLOCK)}")')
        if kind < 0.8:
            return self.used(
                "shift", f'shift({seen}, 1000, "{self.rng.choice([*CLOCK, "month"])}")'
            )
        return self.used("datetime", f"datetime({self.rng.choice([self.day(), seen])})")

    # -- conditions

    def predicate(self) -> str:
        """A clause that is a condition."""
        return super().predicate() if self.rng.random() < 0.4 else self.condition(0)

    def condition(self, depth: int = 0) -> str:
        """A condition of any form."""
        kind = self.rng.random()
        if depth > 2 or kind < 0.4:
            return self.test(depth)
        if kind < 0.6:
            both = f"{self.condition(depth + 1)} or {self.condition(depth + 1)}"
            return self.used("or", f"({both})")
        if kind < 0.75:
            both = f"{self.condition(depth + 1)} and {self.condition(depth + 1)}"
            return self.used("and", f"({both})")
        if kind < 0.9:
            return self.used("not", f"not ({self.condition(depth + 1)})")
        return self.used("not", f"not {self.test(depth + 1)}")

    def test(self, depth: int) -> str:
        """A condition without `or` and `and`."""
        rng, kind = self.rng, self.rng.random()
        op = rng.choice(["=", "!=", "<", "<=", ">", ">="])
        if kind < 0.3:
            return f"{self.number(depth + 1)} {op} {self.number(depth + 1)}"
        if kind < 0.45:
            return f"{self.string(depth + 1)} {op} {self.string(depth + 1)}"
        if kind < 0.52:
            words = rng.choice(["contains", "starts_with", "ends_with"])
            other = self.string(depth + 1) if rng.random() < 0.4 else f'"{rng.choice("anBb")}"'
            return self.used(words, f"{self.string(depth + 1)} {words} {other}")
        if kind < 0.58:
            return f"{self.day()} {op} {self.day()}"
        if kind < 0.68:
            return self.used("in", self.membership(depth))
        if kind < 0.8:
            some = rng.choice([self.number(depth + 1), self.string(depth + 1), self.day()])
            return self.used("is null", f"{some} is {rng.choice(['', 'not '])}null")
        if kind < 0.86:
            active = self.property_of({"active"})
            return self.used("a truth alone", active) if active else "1 = 1"
        if self.patterns and kind < 0.9 and self.nodes:
            inner = self.inner(depth + 3)
            return self.used("exists", f"exists {{ {inner.traversal()} }}")
        pair = self.pair()
        if pair and kind < 0.93:
            return self.used("nodes compared", f"${pair[0]} {rng.choice(['=', '!='])} ${pair[1]}")
        both = f"({self.condition(depth + 2)}) {rng.choice(['=', '!='])} ({self.test(depth + 2)})"
        return self.used("a condition as a value", both)

    def membership(self, depth: int) -> str:
        """`… in …`."""
        rng = self.rng
        tags = self.property_of({"tags"})
        if tags and rng.random() < 0.4:
            return f"{self.string(depth + 1)} in {tags}"
        if rng.random() < 0.5:
            return f'{self.string(depth + 1)} in ["ann", "z", "{rng.choice(WORDS)}", "ann0"]'
        numbers = rng.choice(["[30, 1, 0]", "[0.5, 30.0, 0.1]", "[]", "[-5]"])
        return f"{self.property_of(NUMBERS) or '1'} in {numbers}"

    # -- output

    def any_value(self) -> str:
        """An expression of any kind that can be returned."""
        kind = self.rng.random()
        if kind < 0.4:
            return self.number()
        if kind < 0.6:
            return self.string()
        if kind < 0.75:
            return self.moment()
        if kind < 0.85:
            return f"({self.condition(1)})"
        if self.paths and kind < 0.92:
            path = self.rng.choice(self.paths)
            if self.rng.random() < 0.5:
                return self.used("edges of a path", f"edges(${path})")
            return self.used("nodes of a path", f"nodes(${path})")
        return super().item()

    def listed(self) -> tuple[str, str]:
        """Items that are expressions, shapes and stars; `distinct`, `having`, sort keys that are expressions."""
        rng = self.rng
        if rng.random() < 0.3:
            return super().listed()
        items = [f"{self.any_value()} as a{at}" for at in range(rng.randint(1, 3))]
        shape = self.shape()
        if shape and rng.random() < 0.25:
            items.append(self.used("shape", f"{shape} as s"))
        distinct = rng.random() < 0.3
        tail = self.having([f"a{at}" for at in range(len(items)) if f"as a{at}" in items[at]])
        if rng.random() < 0.6:
            keys = ["a0" + rng.choice(["", " desc"])]
            if not distinct and rng.random() < 0.6:
                keys.insert(0, self.used("order by an expression", self.number()))
            tail += f" order {{ {', '.join(keys)} }}"
        tail += self.slice()
        shown = ", ".join(items)
        return (f"@distinct {shown}" if distinct else shown), tail

    def shape(self) -> str | None:
        """`$x { … }` of some node or edge."""
        wanted = {"Person": "name, age", "City": "*", "Thing": "size"}
        name, kind = self.rng.choice(list(self.nodes.items()))
        return f"${name} {{ {wanted[kind]} }}"

    def having(self, names: list[str]) -> str:
        """A `having` over output columns, now and then."""
        if not names or self.rng.random() > 0.25:
            return ""
        test = self.rng.choice(["is not null", "is null", "= a0"])
        return self.used("having", f" having {{ {self.rng.choice(names)} {test} }}")

    def slice(self) -> str:
        """`limit` and `offset`, now and then."""
        text = ""
        if self.rng.random() < 0.4:
            count = self.rng.randint(0, 6)
            asked = self.rng.random() < 0.2
            shown = self.used("limit of a parameter", self.param("I64", count)) if asked else count
            text = f" limit {shown}"
        if self.rng.random() < 0.25:
            text += self.used("offset", f" offset {self.rng.randint(0, 4)}")
        return text

    def grouped(self) -> tuple[str, str]:
        """Aggregates of expressions, beside keys that are expressions."""
        rng = self.rng
        if rng.random() < 0.3:
            return super().grouped()
        keys = [self.key() for _ in range(rng.randint(0, 2))]
        shown = [f"{key} as k{at}" for at, key in enumerate(keys)]
        if rng.random() < 0.15 and (shape := self.shape()):
            shown.append(self.used("shape as a key", f"{shape} as s"))
        shown += [f"{self.aggregate()} as x{at}" for at in range(rng.randint(1, 3))]
        tail = self.having(["x0"])
        if rng.random() < 0.5:
            tail += f" order {{ x0 {rng.choice(['asc', 'desc'])} }}" if self.orders else ""
        return ", ".join(shown), tail + self.slice()

    orders: bool = True

    def key(self) -> str:
        """A group key over at least one variable."""
        some = self.any_value()
        self.forms["a key that is an expression"] += "$" in some
        return some if "$" in some else f"${self.rng.choice(list(self.nodes))}"

    def aggregate(self) -> str:
        """One aggregate, or a calculation with two."""
        rng, kind = self.rng, self.rng.random()
        self.orders = True
        if kind < 0.15:
            return self.used("count(*)", "count(*)")
        if kind < 0.25:
            return self.used("count(distinct)", f"count(distinct {self.key()})")
        word = rng.choice(["", "distinct "])
        shape = self.shape()
        if kind < 0.3 and shape:
            return self.used("count of a shape", f"count({word}{shape})")
        if kind < 0.45:
            self.orders = False
            inside = shape if shape and rng.random() < 0.3 else self.key()
            return self.used(f"collect({word.strip()})", f"collect({word}{inside})")
        if kind < 0.6:
            return self.used("aggregates in an expression", f"{self.plain()} + {self.plain()}")
        return self.plain()

    def plain(self) -> str:
        """An aggregate that is a number."""
        function = self.rng.choice(["count", "sum", "avg", "min", "max"])
        inside = self.number(1)
        if "$" not in inside:
            inside = self.property_of(NUMBERS | TIMES if function == "count" else NUMBERS) or "1"
        return f"{function}({inside})"


def made(
    rng: random.Random, forms: Counter[str], *, patterns: bool = False
) -> tuple[str, dict[str, object]]:
    """The text of one query and values for its parameters; its forms are added to the counts."""
    query = ExtendedQuery(rng, patterns=patterns)
    text = query.text()
    if "return { @distinct" in text:
        text = text.replace("return { @distinct", "return distinct {")
        forms["distinct"] += 1
    forms.update(query.forms)
    return text, {name: value for name, (_, value) in query.given.items()}

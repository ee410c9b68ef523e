"""Random graphs and random query texts over one schema, for judging the engine by the oracle.

Plain `random` rather than Hypothesis: a case is a seed, many queries share one stored graph, and a
failing query is short enough to read.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from omnigraph.errors import OmniGraphError
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import ReadPlan
from omnigraph.lang.schema import compile_schema
from tests.oracle.graph import Edge, Graph, Values

SCHEMA = """
    node Person {
      name: String @key
      age: I32?
      height: F64?
      weight: F32?
      views: U64?
      born: Date?
      seen: DateTime?
      nick: String?
      tags: [String]?
      rank: enum(low, mid, high)?
      active: Bool?
    }
    node City {
      code: I64 @key
      label: String?
      size: I32?
    }
    node Thing { note: String?  size: F32? }
    edge Knows: Person -> Person { since: I32?  note: String? }
    edge LivesIn: Person -> City { from_day: Date? }
    edge Near: City -> City
    edge Owns: Person -> Thing { share: F64? }
"""
CATALOG = compile_schema(SCHEMA).catalog

ENDS = {
    "knows": ("Person", "Person"),
    "livesIn": ("Person", "City"),
    "near": ("City", "City"),
    "owns": ("Person", "Thing"),
}
EDGE_PROPERTIES = {"knows": ["since", "note"], "livesIn": ["from_day"], "owns": ["share"]}
WORDS = ["ann", "Bob", "cy", "dé", "Ürs", "z", "", "ann b"]
NUMBERS = {"age", "height", "weight", "views", "code", "size", "since", "share"}
TEXTS = {"name", "nick", "label", "note"}
TIMES = {"born", "seen", "from_day"}


def plain_graph(rng: random.Random, persons: int = 8, edges: int = 14) -> Graph:
    """A small graph with nulls, self-loops, parallel edges and isolated nodes."""
    graph = Graph({name: {} for name in CATALOG.nodes}, {name: [] for name in CATALOG.edges})
    for at in range(rng.randint(0, persons)):
        name = f"{rng.choice(WORDS)}{at}"
        graph.nodes["Person"][name] = person(rng, name)
    for at in range(rng.randint(0, 4)):
        code = rng.choice([-1, 1]) * at * 10
        graph.nodes["City"][str(code)] = {
            "code": code,
            "label": _maybe(rng, WORDS),
            "size": _maybe(rng, [0, 1, 2, -3]),
        }
    for at in range(rng.randint(0, 4)):
        graph.nodes["Thing"][f"t{at}"] = {
            "note": _maybe(rng, WORDS),
            "size": _maybe(rng, [0.5, 1.0, -2.25]),
        }
    for word, (src, dst) in ENDS.items():
        name = word[0].upper() + word[1:]
        sources, targets = list(graph.nodes[src]), list(graph.nodes[dst])
        if sources and targets:
            for at in range(rng.randint(0, edges)):
                row: Edge = (
                    f"{name}{at:03d}",
                    rng.choice(sources),
                    rng.choice(targets),
                    _edge_values(rng, word),
                )
                graph.edges[name].append(row)
    return graph


def _maybe(rng: random.Random, choices: list[object]) -> object:
    return None if rng.random() < 0.3 else rng.choice(choices)


def person(rng: random.Random, name: str) -> Values:
    """The properties of a person."""
    return {
        "name": name,
        "age": _maybe(rng, [0, 1, 30, 31, 40, -5]),
        "height": _maybe(rng, [1.5, 1.75, 30.0, -0.0, 0.0]),
        "weight": _maybe(rng, [1.5, 0.10000000149011612, 70.25]),
        "views": _maybe(rng, [0, 1, 2**63, 2**64 - 1, 9007199254740993]),
        "born": _maybe(rng, [0, 1, 10_000]),
        "seen": _maybe(rng, [0, 1_000, 1_700_000_000_000]),
        "nick": _maybe(rng, WORDS),
        "tags": _maybe(rng, [[], ["a"], ["a", "b"], ["Bob", "ann"]]),
        "rank": _maybe(rng, ["low", "mid", "high"]),
        "active": _maybe(rng, [True, False]),
    }


def _edge_values(rng: random.Random, word: str) -> Values:
    given: dict[str, list[object]] = {
        "since": [1, 2, 30],
        "note": list(WORDS),
        "from_day": [0, 1, 10_000],
        "share": [0.5, 1.0, 30.0],
    }
    return {name: _maybe(rng, given[name]) for name in EDGE_PROPERTIES.get(word, [])}


@dataclass
class Query:
    """One generated query on its way to text."""

    rng: random.Random
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    taken: int = 0
    clauses: list[str] = field(default_factory=list)
    wide: bool = True
    """Whether every construct of the language may come, also such that other systems lack."""

    def text(self) -> str:
        """A query that compiles, most of the time."""
        for _ in range(self.rng.randint(1, 4)):
            self.clauses.append(self.clause(0))
        if not self.nodes:
            self.clauses.append(self.binding())
        body = "\n    ".join(self.clauses)
        returned, tail = self.output()
        return f"query q() {{\n  match {{\n    {body}\n  }}\n  return {{ {returned} }}{tail}\n}}"

    # -- clauses

    def clause(self, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.25:
            return self.binding()
        if kind < 0.65 or not self.nodes:
            return self.traversal()
        if kind < 0.85:
            return self.predicate()
        return self.negation(depth) if depth < 2 else self.predicate()

    def fresh(self, letter: str) -> str:
        self.taken += 1
        return f"{letter}{self.taken}"

    def variable(self, kind: str, new: float) -> str:
        """A variable of a node type: one there is, or a new one."""
        known = [name for name, type_ in self.nodes.items() if type_ == kind]
        if known and self.rng.random() > new:
            return self.rng.choice(known)
        name = self.fresh(kind[0].lower())
        self.nodes[name] = kind
        return name

    def binding(self) -> str:
        kind = self.rng.choice(["Person", "Person", "City", "Thing"])
        name = self.variable(kind, 0.7)
        entry = ""
        if self.rng.random() < 0.4:
            inline = {
                "Person": [
                    *("age: 30", 'nick: "z"', "active: true", 'tags: "a"', 'rank: "low"'),
                    *(f'name: "{word}{at}"' for word in ("ann", "cy", "z", "") for at in range(3)),
                ],
                "City": ["size: 1", 'label: "cy"', "code: 10", "code: 0", "code: 99"],
                "Thing": ["size: 0.5", 'note: "z"'],
            }[kind]
            some = [self.rng.choice(inline)]
            if self.wide and self.rng.random() < 0.2:
                some.append(self.rng.choice(inline))
            entry = f" {{ {', '.join(some)} }}"
        return f"${name}: {kind}{entry}"

    def traversal(self) -> str:
        word = self.rng.choice(["knows", "knows", "knows", "livesIn", "near", "owns"])
        left_type, right_type = ENDS[word]
        left = self.variable(left_type, 0.3)
        right = self.variable(right_type, 0.5) if self.rng.random() < 0.85 else "_"
        same = left_type == right_type
        shown = f"<{word}>" if same and self.rng.random() < 0.2 else word
        if self.rng.random() < 0.25:
            bounds = ["{1,2}", "{2,3}", "{1,3}", "{2,2}", "{3,4}"]
            shown += self.rng.choice([*bounds, "{1,9}", "{2,99}"] if self.wide else bounds)
        elif self.rng.random() < 0.25 and word in EDGE_PROPERTIES:
            edge = self.fresh("e")
            self.edges[edge] = word
            shown = f"${edge}:{shown}"
        elif self.wide and self.rng.random() < 0.05:
            shown = f"$_:{shown}"
        if self.wide and right != "_" and self.rng.random() < 0.05:
            return f"$_ {shown} ${right}"
        if not same and self.rng.random() < 0.2 and right != "_":
            left, right = right, left
        return f"${left} {shown} ${right}"

    def property_of(self, only: set[str] | None = None) -> str | None:
        choices = [
            (name, prop)
            for name, kind in self.nodes.items()
            for prop in CATALOG.nodes[kind].properties
        ]
        choices += [
            (name, prop) for name, word in self.edges.items() for prop in EDGE_PROPERTIES[word]
        ]
        if only is not None:
            choices = [(name, prop) for name, prop in choices if prop in only]
        if not choices:
            return None
        name, prop = self.rng.choice(choices)
        return f"${name}.{prop}"

    def pair(self) -> list[str]:
        """Two variables of one node type, when there are two."""
        persons = [name for name, kind in self.nodes.items() if kind == "Person"]
        cities = [name for name, kind in self.nodes.items() if kind == "City"]
        pairs = [found for found in (persons, cities) if len(found) > 1]
        return self.rng.sample(self.rng.choice(pairs), 2) if pairs else []

    def predicate(self) -> str:
        rng = self.rng
        pair = self.pair()
        if pair and rng.random() < 0.3:
            one, two = pair
            key, other = ("name", "nick") if self.nodes[one] == "Person" else ("code", "label")
            prop, op = rng.choice([(key, "!="), (key, "!="), (other, "="), (key, "=")])
            return f"${one}.{prop} {op} ${two}.{prop}"
        kind = rng.random()
        op = rng.choice(["=", "!=", "<", "<=", ">", ">="])
        number = self.property_of(NUMBERS)
        text = self.property_of(TEXTS)
        if kind < 0.3 and number:
            value = rng.choice(
                ["30", "0", "1", "0.5", "30.5", "-1", "9007199254740993", "1.75", "0.1"]
            )
            # A clause that began with a minus would go on with the one before it.
            first = f"({value})" if value.startswith("-") else value
            return rng.choice([f"{number} {op} {value}", f"{first} {op} {number}"])
        if kind < 0.5 and number:
            return f"{number} {op} {self.property_of(NUMBERS)}"
        if kind < 0.65 and text:
            return f'{text} {op} "{rng.choice(WORDS)}"'
        if kind < 0.75 and text:
            return f"{text} {op} {self.property_of(TEXTS)}"
        if kind < 0.85 and text:
            return f'{text} {rng.choice(["contains", "starts_with"])} "{rng.choice(WORDS)}"'
        if self.wide:
            return self.rarer(op)
        tags = self.property_of({"tags"})
        if kind < 0.9 and tags:
            return f'{tags} contains "{rng.choice(["a", "b", "z"])}"'
        born = self.property_of({"born", "from_day"})
        if kind < 0.95 and born:
            return f'{born} {op} date("1970-01-02")'
        return rng.choice(["1 = 1", "1 = 1", "2 > 1", '"a" = "b"'])

    def rarer(self, op: str) -> str:
        """Predicates on lists, dates, times, enums and truth values, and on two texts."""
        rng = self.rng
        number, text = self.property_of(NUMBERS), self.property_of(TEXTS)
        tags, rank = self.property_of({"tags"}), self.property_of({"rank"})
        born, seen = self.property_of({"born", "from_day"}), self.property_of({"seen"})
        active = self.property_of({"active"})
        choices = [rng.choice(["1 = 1", "1 = 1", "2 > 1", '"a" = "b"'])]
        if text:
            other = self.property_of(TEXTS)
            choices.append(f"{text} {rng.choice(['contains', 'starts_with'])} {other}")
            choices.append(f'["ann", "z", ""] contains {text}')
        if number:
            choices.append(f"{rng.choice(['[30, 1]', '[0.5, 0.1, 30.0]'])} contains {number}")
        if tags:
            choices.append(f'{tags} contains "{rng.choice(["a", "b", "z"])}"')
            choices.append(f"{tags} contains {text or tags}")
        if rank:
            choices.append(f'{rank} {op} "{rng.choice(["low", "mid", "nope"])}"')
        if born:
            choices.append(f'{born} {op} date("1970-01-02")')
            choices.append(f"{born} {op} {self.property_of({'born', 'from_day'})}")
        if seen:
            choices.append(f'{seen} {op} datetime("1970-01-01T00:00:01Z")')
            choices.append(f"{seen} {op} now()")
        if active:
            choices.append(f"{active} {op} {rng.choice(['true', 'false'])}")
        return rng.choice(choices)

    def negation(self, depth: int) -> str:
        pair = self.pair()
        if pair and self.rng.random() < 0.4:
            one, two = pair
            word = "knows" if self.nodes[one] == "Person" else "near"
            shown = self.rng.choice([word, word, word, f"<{word}>", word + "{1,2}"])
            return f"not {{ ${one} {shown} ${two} }}"
        taken = self.taken + 100 * (depth + 1)
        inner = Query(self.rng, dict(self.nodes), dict(self.edges), taken, wide=self.wide)
        clauses = [inner.clause(depth + 1) for _ in range(self.rng.randint(1, 2))]
        return f"not {{ {'  '.join(clauses)} }}"

    # -- output

    def output(self) -> tuple[str, str]:
        return self.grouped() if self.rng.random() < 0.45 else self.listed()

    def listed(self) -> tuple[str, str]:
        items = list(dict.fromkeys(self.item() for _ in range(self.rng.randint(1, 3))))
        tail = ""
        if self.wide and self.rng.random() < 0.2:
            items = [f"{item} as a{at}" for at, item in enumerate(items)]
            shown = ", ".join(f"a{at}{self.rng.choice(['', ' desc'])}" for at in range(len(items)))
            tail += f" order {{ {shown} }}"
        elif self.rng.random() < 0.6:
            keys = dict.fromkeys(
                self.property_of() or items[0] for _ in range(self.rng.randint(1, 2))
            )
            shown = ", ".join(f"{key}{self.rng.choice(['', ' desc', ' asc'])}" for key in keys)
            tail += f" order {{ {shown} }}"
        if self.rng.random() < 0.4:
            tail += f" limit {self.rng.randint(0, 6)}"
        return ", ".join(items), tail

    def item(self) -> str:
        if self.rng.random() < 0.4:
            return f"${self.rng.choice(list(self.nodes))}"
        return self.property_of() or f"${self.rng.choice(list(self.nodes))}"

    def grouped(self) -> tuple[str, str]:
        keys = dict.fromkeys(self.item() for _ in range(self.rng.randint(0, 2)))
        aggregates = []
        for at in range(self.rng.randint(1, 3)):
            function = self.rng.choice(["count", "count", "sum", "avg", "min", "max"])
            if function == "count":
                arg = self.item()
            else:
                wanted = NUMBERS if function in {"sum", "avg"} else NUMBERS | TEXTS | TIMES
                arg = self.property_of(wanted) or ""
            aggregates.append(f"{function}({arg}) as x{at}")
        tail = ""
        if self.rng.random() < 0.5:
            by = [f"x0 {self.rng.choice(['asc', 'desc'])}"]
            if self.wide:
                by += [f"{key}{self.rng.choice(['', ' desc'])}" for key in keys if "." in key]
                self.rng.shuffle(by)
            tail += f" order {{ {', '.join(by)} }}"
        if self.rng.random() < 0.4:
            tail += f" limit {self.rng.randint(0, 5)}"
        return ", ".join([*keys, *aggregates]), tail


def matches(rng: random.Random, count: int) -> Iterator[tuple[str, ReadPlan, ReadPlan]]:
    """Matches of single hops that compile: counted, and listed by the ids of their nodes."""
    made = 0
    while made < count:
        query = Query(rng, wide=False)
        query.text()
        clauses = "\n".join(query.clauses)
        # Comparisons of big integers with floats are exact only in the engine.
        if "{" in clauses.replace("not {", "") or "views" in clauses:
            continue
        names = sorted(query.nodes)[:3]
        items = ", ".join(f"${name}" for name in names)
        texts = [
            f"query q() {{ match {{ {clauses} }} return {{ {output} }} }}"
            for output in (f"{items}, count(${names[0]}) as n", items)
        ]
        try:
            grouped, listed = (compile_query(CATALOG, text) for text in texts)
        except OmniGraphError:
            continue
        assert isinstance(grouped, ReadPlan)
        assert isinstance(listed, ReadPlan)
        made += 1
        yield texts[0], grouped, listed

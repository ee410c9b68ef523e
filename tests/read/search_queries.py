"""Random graphs and query texts with search, rankings, parameters and edge variables.

Beside ``queries``: the schema has texts and vectors, words and numbers are few so that ties, repeats
and empty answers are frequent, and every query brings values for the parameters it declares.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.lang.schema import compile_schema
from tests.oracle.graph import Graph, Values

SCHEMA = """
    node Doc {
      ref: String @key
      title: String?
      body: String? @index
      vec: Vector(2)? @index
      num: I32? @index
      big: U64?
      ratio: F32?
      at: DateTime?
      day: Date?
      flag: Bool?
      tags: [String]?
      marks: [I64]?
    }
    node Tag { word: String?  weight: F64?  spot: Vector(2)? }
    edge Cites: Doc -> Doc { note: String?  num: I32?  at: DateTime? }
    edge Has: Doc -> Tag { num: I32? }
    edge Like: Tag -> Tag { ratio: F32? }
"""
CATALOG = compile_schema(SCHEMA).catalog

ENDS = {"cites": ("Doc", "Doc"), "has": ("Doc", "Tag"), "like": ("Tag", "Tag")}
TYPES = {"cites": "Cites", "has": "Has", "like": "Like"}
WORDS = [
    "run",
    "running",
    "runs",
    "tower",
    "towers",
    "hello",
    "helo",
    "halo",
    "café",
    "cafe",
    "the",
    "x1",
]
REFS = ["a", "b", "c'", 'd"', "é", "Z", "🙂", "a b"]
VALUES: dict[str, list[Any]] = {
    "num": [0, 1, 2, -3],
    "big": [0, 1, 2**63, 2**64 - 1],
    "ratio": [0.5, 1.0, 0.10000000149011612],
    "weight": [0.0, 0.5, 1.0, -2.25],
    "at": [0, 1_000, 1_700_000_000_000],
    "day": [0, 1, 10_000],
    "flag": [True, False],
    "tags": [[], ["run"], ["run", "the"], ["café"]],
    "marks": [[], [1], [0, 1], [2**53 + 1]],
    "vec": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-0.5, 0.5]],
}
VALUES["spot"] = VALUES["vec"]
TEXTS = {"title", "body", "word", "note"}
NUMBERS = {"num", "big", "ratio", "weight"}

# Parameters by type: how they are declared, and the JSON values they are given.
PARAMS: dict[str, list[Any]] = {
    "String": [*WORDS, "", "running towers", "zzz"],
    "I32": [0, 1, "2", -3],
    "I64": [1, 2**53 + 1, "-3"],
    "U32": [0, 1, 2],
    "U64": [0, "18446744073709551615", 2**63],
    "F32": [0.1, 0.5, 1],
    "F64": [0.1, 0.5, 1, -2.25],
    "Bool": [True, False],
    "Date": ["1970-01-01", "1970-01-02"],
    "DateTime": ["1970-01-01", "1970-01-01T00:00:01Z", "2023-11-14T22:13:20.000Z"],
    "[String]": [[], ["run"], ["the", "café"]],
    "[I64]": [[], [1], [0, 2**53 + 1]],
    "Vector(2)": [[0, 0], [1, 0.5], [0.1, 0.9]],
}
FITTING = {
    "num": ["I32", "I64", "U32", "U64", "F32", "F64"],
    "big": ["U64", "I64", "F64", "I32"],
    "ratio": ["F32", "F64", "I32"],
    "weight": ["F64", "F32", "I64"],
    "at": ["DateTime"],
    "day": ["Date"],
    "flag": ["Bool"],
    "ref": ["String"],
    "title": ["String"],
    "body": ["String"],
    "word": ["String"],
    "note": ["String"],
}
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]


def some_text(rng: random.Random) -> str:
    """A few words out of few."""
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 3)))


def plain_graph(rng: random.Random, docs: int = 8, edges: int = 14) -> Graph:
    """A small graph with nulls, equal values, self-loops, parallel edges and isolated nodes."""
    graph = Graph({name: {} for name in CATALOG.nodes}, {name: [] for name in CATALOG.edges})
    for ref in rng.sample(REFS, rng.randint(0, docs)):
        graph.nodes["Doc"][ref] = {**_values(rng, CATALOG.nodes["Doc"].properties), "ref": ref}
    for at in range(rng.randint(0, 5)):
        graph.nodes["Tag"][f"t{at}"] = _values(rng, CATALOG.nodes["Tag"].properties)
    for word, (src, dst) in ENDS.items():
        sources, targets = list(graph.nodes[src]), list(graph.nodes[dst])
        kind = CATALOG.edges[TYPES[word]]
        for at in range(rng.randint(0, edges) if sources and targets else 0):
            ends = rng.choice(sources), rng.choice(targets)
            row = (f"{word}{at:03d}", *ends, _values(rng, kind.properties))
            graph.edges[kind.name].append(row)
    return graph


def _values(rng: random.Random, names: Any) -> Values:
    return {
        name: None
        if rng.random() < 0.25
        else some_text(rng)
        if name in TEXTS
        else rng.choice(VALUES.get(name, [None]))
        for name in names
    }


@dataclass
class Query:
    """One generated query on its way to text, with values for its parameters."""

    rng: random.Random
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    taken: list[int] = field(default_factory=lambda: [0])
    clauses: list[str] = field(default_factory=list)
    shown: tuple[str, str] = ("", "")

    def text(self) -> str:
        """A query that compiles, most of the time."""
        clauses = [self.clause(0) for _ in range(self.rng.randint(1, 4))]
        if not self.nodes:
            clauses.append(self.binding())
        self.clauses, self.shown = clauses, self.output()
        return self.arranged(clauses)

    def arranged(self, clauses: Sequence[str]) -> str:
        """The query with its clauses in this order."""
        declared = ", ".join(f"${name}: {kind}" for name, kind in self.declared.items())
        body = "\n    ".join(clauses)
        returned, tail = self.shown
        return (
            f"query q({declared}) {{\n  match {{\n    {body}\n  }}\n"
            f"  return {{ {returned} }}{tail}\n}}"
        )

    # -- parameters and values

    def fresh(self, letter: str) -> str:
        self.taken[0] += 1
        return f"{letter}{self.taken[0]}"

    def param(self, kind: str) -> str:
        """A parameter of a type with a value for it: null, or left out, when it is optional."""
        known = [name for name, one in self.declared.items() if one.rstrip("?") == kind]
        if known and self.rng.random() < 0.3:
            return f"${self.rng.choice(known)}"
        name, optional = self.fresh("q"), self.rng.random() < 0.4
        self.declared[name] = kind + "?" * optional
        chance = self.rng.random()
        if not optional or chance > 0.4:
            self.given[name] = self.rng.choice(PARAMS[kind])
        elif chance > 0.2:
            self.given[name] = None
        return f"${name}"

    def value_for(self, prop: str) -> str:
        """Something to compare a property with: a literal, a parameter or `now()`."""
        rng = self.rng
        if rng.random() < 0.6:
            return self.param(rng.choice(FITTING[prop]))
        if prop in NUMBERS:
            return rng.choice(["0", "1", "2", "0.5", "0.1", "-3", "9007199254740993"])
        match prop:
            case "at":
                return rng.choice(["now()", 'datetime("1970-01-01T00:00:01Z")'])
            case "day":
                return 'date("1970-01-02")'
            case "flag":
                return rng.choice(["true", "false"])
            case "ref":
                return rng.choice(['"a"', '"é"', '"🙂"', '"d\\""', '"nobody"'])
            case _:
                return self.words()

    def words(self) -> str:
        return f'"{some_text(self.rng)}"'

    def property_of(self, only: set[str] | None = None, nodes_only: bool = False) -> str | None:
        choices = [
            f"${name}.{prop}"
            for name, kind in self.nodes.items()
            for prop in CATALOG.nodes[kind].properties
            if only is None or prop in only
        ]
        if not nodes_only:
            choices += [
                f"${name}.{prop}"
                for name, word in self.edges.items()
                for prop in CATALOG.edges[TYPES[word]].properties
                if only is None or prop in only
            ]
        return self.rng.choice(choices) if choices else None

    # -- clauses

    def clause(self, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.2 or (not self.nodes and kind < 0.5):
            return self.binding()
        if kind < 0.5 or not self.nodes:
            return self.traversal()
        if kind < 0.65:
            return self.search() or self.binding()
        if kind < 0.8 or depth > 2:
            return self.predicate()
        return self.negation(depth)

    def variable(self, kind: str, new: float) -> str:
        known = [name for name, type_ in self.nodes.items() if type_ == kind]
        if known and self.rng.random() > new:
            return self.rng.choice(known)
        # Names in no particular order, for they break ties.
        name = self.rng.choice("abcxyz") + self.fresh(kind[0].lower())
        self.nodes[name] = kind
        return name

    def binding(self) -> str:
        kind = self.rng.choice(["Doc", "Doc", "Doc", "Tag"])
        name = self.variable(kind, 0.6)
        entries = []
        if self.rng.random() < 0.3:
            props = [one for one in CATALOG.nodes[kind].properties if one in FITTING]
            prop = self.rng.choice(props)
            entries.append(f"{prop}: {self.value_for(prop)}")
        if kind == "Doc" and self.rng.random() < 0.1:
            entries.append(f"tags: {self.param('String')}")
        shown = f" {{ {', '.join(entries)} }}" if entries else ""
        return f"${name}: {kind}{shown}"

    def traversal(self) -> str:
        word = self.rng.choice(["cites", "cites", "has", "like"])
        left_type, right_type = ENDS[word]
        left = self.variable(left_type, 0.3)
        right = self.variable(right_type, 0.5) if self.rng.random() < 0.9 else "_"
        same = left_type == right_type
        shown = f"<{word}>" if same and self.rng.random() < 0.3 else word
        if self.rng.random() < 0.2:
            shown += self.rng.choice(["{1,2}", "{2,3}", "{2,2}"])
        elif self.rng.random() < 0.4:
            edge = self.rng.choice("aez") + self.fresh("e")
            self.edges[edge] = word
            shown = f"${edge}:{shown}"
        if not same and self.rng.random() < 0.2 and right != "_":
            left, right = right, left
        return f"${left} {shown} ${right}"

    def search(self) -> str | None:
        text = self.property_of(TEXTS | {"ref"}, nodes_only=True)
        if text is None:
            return None
        query = self.words() if self.rng.random() < 0.5 else self.param("String")
        function = self.rng.choice(["search", "match_text", "fuzzy", "fuzzy"])
        edits = ""
        if function == "fuzzy" and self.rng.random() < 0.7:
            given = ["0", "1", "2", "3", "6"]
            edits = f", {self.param('I32') if self.rng.random() < 0.3 else self.rng.choice(given)}"
        return f"{function}({text}, {query}{edits})"

    def predicate(self) -> str:
        rng = self.rng
        kind = rng.random()
        op = rng.choice(OPERATORS)
        tags, marks = self.property_of({"tags"}), self.property_of({"marks"})
        text = self.property_of(TEXTS)
        if kind < 0.1 and tags:
            return f"{tags} contains {self.param('String')}"
        if kind < 0.2 and marks:
            return f"{marks} contains {self.value_for('num')}"
        if kind < 0.3 and text:
            return f"{self.param('[String]')} contains {text}"
        if kind < 0.4 and text:
            word = rng.choice(["contains", "starts_with"])
            return f"{text} {word} {self.param('String')}"
        number = self.property_of(NUMBERS)
        if kind < 0.55 and number:
            return f"{number} {op} {self.property_of(NUMBERS)}"
        if kind < 0.65 and text:
            return f"{text} {op} {self.property_of(TEXTS)}"
        if kind < 0.7:
            return f"{self.param('I64')} {op} {self.param('F64')}"
        prop = self.property_of(set(FITTING))
        assert prop is not None
        sides = [prop, self.value_for(prop.partition(".")[2])]
        rng.shuffle(sides)
        return f" {op} ".join(sides)

    def negation(self, depth: int) -> str:
        inner = Query(
            self.rng, dict(self.nodes), dict(self.edges), self.declared, self.given, self.taken
        )
        clauses = [inner.clause(depth + 1) for _ in range(self.rng.randint(1, 3))]
        return f"not {{ {'  '.join(clauses)} }}"

    # -- output

    def output(self) -> tuple[str, str]:
        chance = self.rng.random()
        ranking = self.ranking() if chance < 0.6 else None
        if ranking is not None:
            return self.ranked(ranking)
        return self.grouped() if chance > 0.85 else self.listed()

    def ranking(self) -> str | None:
        var = self.rng.choice(list(self.nodes))
        fields = {"Doc": ("vec", ["body", "title"]), "Tag": ("spot", ["word"])}
        vector, texts = fields[self.nodes[var]]

        def near() -> str:
            query = self.rng.choice(
                [self.param("Vector(2)"), "[1, 0.5]", self.words(), self.param("String")]
            )
            return f"nearest(${var}.{vector}, {query})"

        def relevant() -> str:
            query = self.words() if self.rng.random() < 0.5 else self.param("String")
            return f"bm25(${var}.{self.rng.choice(texts)}, {query})"

        def either() -> str:
            return near() if self.rng.random() < 0.5 else relevant()

        match self.rng.randrange(4):
            case 0:
                return relevant()
            case 1:
                third = self.rng.choice(["", ", 1", f", {self.param('I32')}"])
                return f"rrf({either()}, {either()}{third})"
            case _:
                return near()

    def ranked(self, ranking: str) -> tuple[str, str]:
        rng = self.rng
        items = self.items()
        keys = [ranking]
        if rng.random() < 0.5:
            items.append(f"{ranking} as score")
            if rng.random() < 0.4:
                keys = ["score desc" if not ranking.startswith("nearest") else "score"]
        elif not ranking.startswith("nearest") and rng.random() < 0.2:
            keys = [f"{ranking} desc"]
        keys += self.sort_keys(rng.randint(0, 2))
        limit = f" limit {rng.randint(0, 6)}"
        if ranking.startswith("bm25") and rng.random() < 0.5:
            limit = ""
        if rng.random() < (0.6 if ranking.startswith("rrf") else 0.2):
            limit += f" offset {rng.randint(1, 3)}"
        return ", ".join(items), f" order {{ {', '.join(keys)} }}{limit}"

    def items(self) -> list[str]:
        return list(dict.fromkeys(self.item() for _ in range(self.rng.randint(1, 3))))

    def item(self) -> str:
        chance = self.rng.random()
        if chance < 0.3:
            return f"${self.rng.choice(list(self.nodes))}"
        if chance < 0.4:
            return self.param(self.rng.choice(list(PARAMS)))
        if chance < 0.45:
            shown = ["1", '"z"', "now()", "true", 'date("1970-01-02")', "0.5"]
            return f"{self.rng.choice(shown)} as {self.fresh('l')}"
        found = self.property_of()
        assert found is not None
        return f"{found} as {self.fresh('p')}" if self.rng.random() < 0.3 else found

    def sort_keys(self, count: int) -> list[str]:
        plain = set(FITTING)
        keys = dict.fromkeys(self.property_of(plain) or "" for _ in range(count))
        return [f"{key}{self.rng.choice(['', ' desc', ' asc'])}" for key in keys if key]

    def listed(self) -> tuple[str, str]:
        items = self.items()
        aliases = [one.split(" as ")[1] for one in items if " as " in one]
        keys = self.sort_keys(self.rng.randint(0, 2))
        if aliases and self.rng.random() < 0.5:
            keys.insert(0, self.rng.choice(aliases) + self.rng.choice(["", " desc"]))
        tail = f" order {{ {', '.join(keys)} }}" if keys else ""
        if self.rng.random() < 0.4:
            tail += f" limit {self.rng.randint(0, 6)}"
        return ", ".join(items), tail

    def grouped(self) -> tuple[str, str]:
        keys = [one for one in self.items() if "." in one or one[1:] in self.nodes]
        keys = [one for one in keys if not one.startswith(("0", '"', "date"))]
        arguments = [self.property_of(NUMBERS), self.param("I32")]
        argument = self.rng.choice([one for one in arguments if one])
        function = self.rng.choice(["count", "sum", "avg", "min", "max"])
        aggregates = [f"{function}({argument}) as x0"]
        if self.rng.random() < 0.5:
            aggregates.append(f"count({self.property_of()}) as x1")
        tail = f" order {{ x0 {self.rng.choice(['asc', 'desc'])} }}" * (self.rng.random() < 0.5)
        if self.rng.random() < 0.3:
            tail += f" limit {self.rng.randint(0, 4)}"
        return ", ".join([*keys, *aggregates]), tail

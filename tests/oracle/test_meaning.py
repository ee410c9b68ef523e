"""Lowering against the meaning of a match: all assignments of entities that satisfy every clause.

The clauses are generated as data. Their text goes through the compiler and the oracle; their
meaning is worked out here by trying every assignment, with no order of clauses and no plan.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from omnigraph.errors import TypeCheckError
from omnigraph.lang.query import compile_query
from omnigraph.lang.schema import compile_schema
from tests.oracle.graph import Graph
from tests.oracle.interpreter import run
from tests.sampling import examples

SCHEMA = """
    node A { k: String @key  n: I32? }
    node B { k: String @key  n: I32? }
    edge Knows: A -> A { w: I32 }
    edge Owns: A -> B { w: I32 }
"""
CATALOG = compile_schema(SCHEMA).catalog
TYPES = {"a": "A", "b": "B", "k": "Knows", "o": "Owns"}  # by the first letter of a variable
ENDS = {"knows": ("a", "a"), "owns": ("a", "b")}


@dataclass(frozen=True)
class Binding:
    var: str
    n: int | None

    @property
    def text(self):
        entry = "" if self.n is None else f"{{ n: {self.n} }}"
        return f"${self.var}: {TYPES[self.var[0]]} {entry}"

    names = property(lambda self: {self.var})

    def count(self, graph, env):
        return self.n is None or graph.nodes[TYPES[self.var[0]]][env[self.var]]["n"] == self.n


@dataclass(frozen=True)
class Traversal:
    word: str
    src: str
    dst: str
    hops: tuple[int, int] = (1, 1)
    edge: str | None = None
    undirected: bool = False
    backwards: bool = False

    @property
    def text(self):
        left, right = (self.dst, self.src) if self.backwards else (self.src, self.dst)
        word = f"<{self.word}>" if self.undirected else self.word
        edge = f"${self.edge}:" if self.edge else ""
        hops = "" if self.hops == (1, 1) else f"{{{self.hops[0]},{self.hops[1]}}}"
        return f"${left} {edge}{word}{hops} ${right}"

    names = property(lambda self: {self.src, self.dst, self.edge} - {"_", None})

    def count(self, graph, env):
        """The number of ways to fill the anonymous ends."""
        start, end = (TYPES[letter] for letter in ENDS[self.word])
        sources = graph.nodes[start] if self.src == "_" else [env[self.src]]
        targets = graph.nodes[end] if self.dst == "_" else [env[self.dst]]
        return sum(self.joined(graph, env, s, t) for s, t in product(sources, targets))

    def joined(self, graph, env, src, dst):
        edges = graph.edges[self.word.capitalize()]
        if self.edge:
            edges = [edge for edge in edges if edge[0] == env[self.edge]]
        pairs = {(edge[1], edge[2]) for edge in edges}
        if self.undirected:
            pairs |= {(d, s) for s, d in pairs}
        low, high = self.hops
        if self.word == "owns":
            return low == 1 and (src, dst) in pairs
        away = distance(pairs, src, dst)
        # A self-loop on the node reached lets it be emitted one hop later, once.
        looped = src != dst and (dst, dst) in pairs and away + 1 == low
        return low <= away <= high or looped


def distance(pairs, src, dst):
    """The length of the shortest walk of at least one edge, but only a self-loop leads back."""
    if src == dst:
        return 1 if (src, src) in pairs else 99
    level, near = 0, {src}
    while dst not in near and level < 9:
        level, near = level + 1, near | {d for s, d in pairs if s in near}
    return level if dst in near else 99


@dataclass(frozen=True)
class Comparison:
    left: str
    op: str
    right: str | int

    @property
    def text(self):
        right = self.right if isinstance(self.right, int) else prop(self.right)
        return f"{prop(self.left)} {self.op} {right}"

    names = property(lambda self: {n for n in (self.left, self.right) if isinstance(n, str)})

    def count(self, graph, env):
        left = number(graph, env, self.left)
        right = self.right if isinstance(self.right, int) else number(graph, env, self.right)
        if left is None or right is None:
            return False
        return {"=": left == right, "!=": left != right, "<": left < right}[self.op]


def prop(var):
    return f"${var}.{'w' if var[0] in 'ko' else 'n'}"


def number(graph, env, var):
    if var[0] in "ko":
        return next(e[3]["w"] for e in graph.edges[TYPES[var[0]]] if e[0] == env[var])
    return graph.nodes[TYPES[var[0]]][env[var]]["n"]


@dataclass(frozen=True)
class Not:
    clauses: tuple

    @property
    def text(self):
        return f"not {{ {'  '.join(clause.text for clause in self.clauses)} }}"

    names = frozenset()

    def count(self, graph, env):
        return next(assignments(self.clauses, graph, env), None) is None


def solutions(clauses, graph, env):
    """Every assignment of the new variables, with its multiplicity."""
    found = Counter()
    for full, times in assignments(clauses, graph, env):
        found[tuple(sorted(full.items()))] += times
    return found


def assignments(clauses, graph, env):
    new = sorted(set().union(*(clause.names for clause in clauses)) - set(env))
    for entities in product(*(domain(graph, var) for var in new)):
        full = {**env, **dict(zip(new, entities, strict=True))}
        times = 1
        for clause in clauses:
            times *= clause.count(graph, full)
            if not times:
                break
        if times:
            yield full, times


def domain(graph, var):
    if var[0] in "ko":
        return [edge[0] for edge in graph.edges[TYPES[var[0]]]]
    return list(graph.nodes[TYPES[var[0]]])


nodes = st.sampled_from(["a1", "a2", "b1", "b2"])
numbers = st.integers(0, 2)


@st.composite
def traversals(draw, depth, known):
    word = draw(st.sampled_from(["knows", "knows", "owns"]))
    ends = [draw(st.sampled_from([f"{end}1", f"{end}2", "_"])) for end in ENDS[word]]
    edge = f"{word[0]}{depth}{draw(numbers)}" if draw(st.integers(0, 3)) == 0 else None
    bounds = st.sampled_from([(1, 1), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3)])
    return Traversal(
        word,
        *ends,
        hops=(1, 1) if edge else draw(bounds),
        edge=edge,
        undirected=word == "knows" and draw(st.booleans()),
        # Only an end of known type turns an edge round; two new ends are read as written.
        backwards=word == "owns" and bool(known & set(ends)) and draw(st.booleans()),
    )


@st.composite
def blocks(draw, depth=0, seen=frozenset()):
    clauses, known = [], set(seen)
    for _ in range(draw(st.integers(1, 4 if depth == 0 else 3))):
        kinds = ["bind", "traverse", "traverse"] + ["compare"] * bool(known)
        kinds += ["not"] * (depth < 2 and bool(known))
        match draw(st.sampled_from(kinds)):
            case "bind":
                clause = Binding(draw(nodes), draw(st.none() | numbers))
            case "traverse":
                clause = draw(traversals(depth, known))
            case "compare":
                names = st.sampled_from(sorted(known))
                op = draw(st.sampled_from(["=", "!=", "<"]))
                clause = Comparison(draw(names), op, draw(numbers | names))
            case _:
                clause = Not(draw(blocks(depth=depth + 1, seen=frozenset(known))))
        clauses.append(clause)
        known |= clause.names
    return tuple(clauses)


@st.composite
def graphs(draw):
    ids = {"A": ["p", "q", "r"], "B": ["p", "s"]}
    ends = {"Knows": ("A", "A"), "Owns": ("A", "B")}
    graph = Graph({t: {i: {"k": i, "n": draw(st.none() | numbers)} for i in ids[t]} for t in ids})
    for name, (start, end) in ends.items():
        pairs = list(product(ids[start], ids[end]))
        drawn = draw(st.lists(st.sampled_from(pairs), max_size=5))
        graph.edges[name] = [(f"{at}", s, d, {"w": at}) for at, (s, d) in enumerate(drawn)]
    return graph


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), blocks())
def test_a_lowered_match_means_what_its_clauses_say(data, clauses):
    named = sorted(set().union(*(clause.names for clause in clauses)))
    columns = [f"{prop(var)} as {var}" if var[0] in "ko" else f"${var}" for var in named]
    assume(columns)
    body = "\n".join(clause.text for clause in clauses)
    source = f"query q() {{ match {{ {body} }} return {{ {', '.join(columns)} }} }}"
    try:
        plan = compile_query(CATALOG, source)
    except TypeCheckError:
        assume(False)
    graph = data.draw(graphs())
    got = Counter(tuple(sorted(row.items())) for row in run(plan, graph, {}, 0))
    want = Counter()
    for env, times in solutions(clauses, graph, {}).items():
        shown = {var: number(graph, dict(env), var) if var[0] in "ko" else at for var, at in env}
        want[tuple(sorted(shown.items()))] += times
    assert got == want, source

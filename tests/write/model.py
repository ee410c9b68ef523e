"""A graph in plain Python that mutations and loads change as the specification says, and nothing else.

Written from the specification alone: rows in dicts, loops over all of them, no cleverness. An id
that the product makes up is a placeholder here; `settle` puts the real one in its place.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

COMPARE = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
I32 = range(-(2**31), 2**31)


@dataclass
class Prop:
    """A property: `kind` is String, I32, F64, Bool, Date or enum."""

    name: str
    kind: str
    required: bool = False
    values: tuple[str, ...] = ()
    bounds: tuple[float | None, float | None] | None = None


@dataclass
class Node:
    name: str
    props: list[Prop]
    key: tuple[str, ...] = ()
    unique: list[tuple[str, ...]] = field(default_factory=list)


@dataclass
class Edge:
    name: str
    src: str
    dst: str
    props: list[Prop]
    low: int = 0
    high: int | None = None
    unique: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The unique group by which a merge knows edges without an id."""
        with_ends = [sorted(group) for group in self.unique if {"src", "dst"} <= set(group)]
        with_ends.sort(key=lambda group: (len(group), group))
        return tuple(with_ends[0]) if with_ends else None


@dataclass
class Statement:
    """`verb` is insert, update or delete; `values` include from and to of an inserted edge."""

    verb: str
    type_name: str
    values: dict[str, Any] = field(default_factory=dict)
    where: tuple[str, str, Any] | None = None


@dataclass
class Record:
    """One record of a load; `src` and `dst` are for edges, `row_id` is the explicit id if any."""

    type_name: str
    values: dict[str, Any]
    row_id: str | None = None
    src: str | None = None
    dst: str | None = None


class Refused(Exception):
    """The write is refused; `kinds` are the violations that may be reported first."""

    def __init__(self, *kinds: str) -> None:
        super().__init__(*kinds)
        self.kinds = set(kinds)


@dataclass
class Model:
    nodes: dict[str, Node]
    edges: dict[str, Edge]
    rows: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    links: dict[str, dict[str, tuple[str, str, dict[str, Any]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = {name: {} for name in self.nodes}
        self.links = {name: {} for name in self.edges}
        self._fresh = (f"?{number}" for number in itertools.count())

    def run(self, statements: list[Statement]) -> tuple[int, int, bool]:
        """Nodes and edges affected, and whether there is something to commit."""
        affected = [0, 0]
        with self.all_or_nothing():
            for statement in statements:
                changed = getattr(self, statement.verb)(statement)
                affected = [affected[0] + changed[0], affected[1] + changed[1]]
            self.judge()
        return affected[0], affected[1], any(affected)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Forget what the write before touched; a refused one changes nothing."""
        rows, links = copy.deepcopy(self.rows), copy.deepcopy(self.links)
        self.touched: dict[str, set[str]] = {name: set() for name in (*self.nodes, *self.edges)}
        self.sources: dict[str, set[str]] = {name: set() for name in self.edges}
        try:
            yield
        except Refused:
            self.rows, self.links = rows, links
            raise

    # -- loads

    def load(self, records: list[Record], mode: str) -> dict[str, int]:
        """Rows loaded into each table the input touches."""
        with self.all_or_nothing():
            ids = [self.read(record) for record in records]
            if mode == "merge":
                ids = self.identified(records, ids)
            places = [
                (record.type_name, row_id) for record, row_id in zip(records, ids, strict=True)
            ]
            broken = set()
            if mode != "merge" and repeated(places):
                broken.add("unique")
            if mode == "append" and any(row_id in self.table(name) for name, row_id in places):
                broken.add("key")
            if mode == "overwrite":
                for name in {record.type_name for record in records}:
                    self.empty(name)
            last = dict(zip(places, records, strict=True))
            for (_, row_id), record in last.items():
                self.put(record, row_id)
            if broken and self.unique_broken():
                broken.add("unique")
            if broken:
                raise Refused(*broken)
            self.judge()
        return {name: len(found) for name, found in self.touched.items() if found}

    def identified(self, records: list[Record], ids: list[str]) -> list[str]:
        """Edges without an id take that of the edge that holds their tuple."""
        held: dict[Any, str] = {}
        for edge in self.edges.values():
            for row_id, (src, dst, row) in self.links[edge.name].items():
                held[edge.name, members(edge.identity, src, dst, row)] = row_id
        taken = []
        for record, row_id in zip(records, ids, strict=True):
            edge = self.edges.get(record.type_name)
            mine = row_id
            if edge is not None and edge.identity is not None:
                row = {p.name: self.stored(p, record.values.get(p.name)) for p in edge.props}
                found = members(edge.identity, record.src, record.dst, row)
                if None not in found:
                    if record.row_id is None:
                        mine = held.get((edge.name, found), row_id)
                    held.setdefault((edge.name, found), mine)
            taken.append(mine)
        return taken

    def table(self, name: str) -> dict[str, Any]:
        return self.rows[name] if name in self.nodes else self.links[name]

    def empty(self, name: str) -> None:
        if name in self.edges:
            self.sources[name] |= {src for src, _, _ in self.links[name].values()}
        self.table(name).clear()

    def read(self, record: Record) -> str:
        """The id of a record that is sound in itself."""
        entity = self.nodes.get(record.type_name) or self.edges[record.type_name]
        given = {prop.name: record.values.get(prop.name) for prop in entity.props}
        kinds = set(row_kinds(entity.props, given))
        if any(given[prop.name] is None for prop in entity.props if prop.required):
            kinds.add("input")
        if any(prop.kind == "I32" and unfit(given[prop.name]) for prop in entity.props):
            kinds.add("input")
        if isinstance(entity, Edge) and None in (record.src, record.dst):
            kinds.add("input")
        made = record.row_id
        if isinstance(entity, Node) and entity.key and "input" not in kinds:
            made = self.key_id(entity, given)
            if record.row_id not in (None, made):
                kinds.add("input")
        if kinds:
            raise Refused(*kinds)
        return next(self._fresh) if made is None else made

    def put(self, record: Record, row_id: str) -> None:
        """Put the whole row, in place of one that has its id."""
        name = record.type_name
        entity = self.nodes.get(name) or self.edges[name]
        row = {prop.name: self.stored(prop, record.values.get(prop.name)) for prop in entity.props}
        self.touched[name].add(row_id)
        if name in self.nodes:
            self.rows[name][row_id] = row
            return
        assert record.src is not None
        assert record.dst is not None
        if row_id in self.links[name]:
            self.sources[name].add(self.links[name][row_id][0])
        self.sources[name].add(record.src)
        self.links[name][row_id] = (record.src, record.dst, row)

    # -- statements

    def insert(self, statement: Statement) -> tuple[int, int]:
        if statement.type_name in self.edges:
            return self.insert_edge(statement)
        node = self.nodes[statement.type_name]
        row = {prop.name: self.stored(prop, statement.values.get(prop.name)) for prop in node.props}
        self.require(node.props, row)
        row_id = self.key_id(node, row) if node.key else next(self._fresh)
        self.rows[node.name][row_id] = row
        self.touched[node.name].add(row_id)
        return 1, 0

    def insert_edge(self, statement: Statement) -> tuple[int, int]:
        edge = self.edges[statement.type_name]
        row = {prop.name: self.stored(prop, statement.values.get(prop.name)) for prop in edge.props}
        self.require(edge.props, row)
        src, dst = statement.values["from"], statement.values["to"]
        if src is None or dst is None:
            raise Refused("null")
        row_id = next(self._fresh)
        self.links[edge.name][row_id] = (src, dst, row)
        self.touched[edge.name].add(row_id)
        self.sources[edge.name].add(src)
        return 0, 1

    def update(self, statement: Statement) -> tuple[int, int]:
        node = self.nodes[statement.type_name]
        props = {prop.name: prop for prop in node.props}
        matched = [
            row_id for row_id, row in self.rows[node.name].items() if matches(row, statement.where)
        ]
        new = {name: self.stored(props[name], value) for name, value in statement.values.items()}
        self.require([props[name] for name in new], new)
        for row_id in matched:
            self.rows[node.name][row_id].update(new)
            self.touched[node.name].add(row_id)
        return len(matched), 0

    def delete(self, statement: Statement) -> tuple[int, int]:
        name = statement.type_name
        if name in self.edges:
            gone = [
                row_id
                for row_id, (src, dst, row) in self.links[name].items()
                if matches({**row, "from": src, "to": dst}, statement.where)
            ]
            for row_id in gone:
                self.unlink(name, row_id)
            return 0, len(gone)
        gone = [row_id for row_id, row in self.rows[name].items() if matches(row, statement.where)]
        cut = 0
        for row_id in gone:
            del self.rows[name][row_id]
            cut += self.cascade(name, row_id)
        return len(gone), cut

    def cascade(self, type_name: str, node_id: str) -> int:
        cut = 0
        for edge in self.edges.values():
            for row_id, (src, dst, _) in list(self.links[edge.name].items()):
                leaves = edge.src == type_name and src == node_id
                arrives = edge.dst == type_name and dst == node_id
                if leaves or arrives:
                    self.unlink(edge.name, row_id)
                    cut += 1
        return cut

    def unlink(self, name: str, row_id: str) -> None:
        self.sources[name].add(self.links[name][row_id][0])
        del self.links[name][row_id]

    # -- values

    def stored(self, prop: Prop, value: Any) -> Any:
        if value is None:
            return None
        if prop.kind == "I32" and unfit(value):
            raise Refused("overflow")
        return float(value) if prop.kind == "F64" else value

    def require(self, props: list[Prop], row: dict[str, Any]) -> None:
        if any(prop.required and row[prop.name] is None for prop in props):
            raise Refused("null")

    def key_id(self, node: Node, row: dict[str, Any]) -> str:
        texts = [text_of(row[name]) for name in sorted(node.key)]
        if len(texts) == 1:
            return texts[0]
        return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))

    # -- the end of the query

    def judge(self) -> None:
        broken = {kind for kind in self.row_rules() if kind}
        if broken:
            raise Refused(*broken)
        if self.unique_broken():
            raise Refused("unique")
        for edge in self.edges.values():
            for src, dst, _ in self.links[edge.name].values():
                if src not in self.rows[edge.src] or dst not in self.rows[edge.dst]:
                    raise Refused("endpoint")
        for edge in self.edges.values():
            for source in self.sources[edge.name] & self.rows[edge.src].keys():
                count = sum(src == source for src, _, _ in self.links[edge.name].values())
                if count < edge.low or (edge.high is not None and count > edge.high):
                    raise Refused("cardinality")

    def row_rules(self) -> Any:
        for node in self.nodes.values():
            for row_id in self.touched[node.name] & self.rows[node.name].keys():
                yield from row_kinds(node.props, self.rows[node.name][row_id])
        for edge in self.edges.values():
            for row_id in self.touched[edge.name] & self.links[edge.name].keys():
                yield from row_kinds(edge.props, self.links[edge.name][row_id][2])

    def unique_broken(self) -> bool:
        for node in self.nodes.values():
            for group in node.unique:
                tuples = [tuple(row[p] for p in group) for row in self.rows[node.name].values()]
                if repeated([t for t in tuples if None not in t]):
                    return True
        for edge in self.edges.values():
            for group in edge.unique:
                tuples = [members(group, *link) for link in self.links[edge.name].values()]
                if repeated([t for t in tuples if None not in t]):
                    return True
        return False

    # -- made-up ids

    def settle(self, rows: Any, links: Any) -> None:
        """Take over real ids: what is new here and there must be the same rows."""
        for name, found in rows.items():
            real = sorted((key for key in found if key not in self.rows[name]),
                          key=lambda key: repr(found[key]))  # fmt: skip
            mine = sorted((key for key in self.rows[name] if key.startswith("?")),
                          key=lambda key: repr(self.rows[name][key]))  # fmt: skip
            for key, placeholder in zip(real, mine, strict=True):
                self.rows[name][key] = self.rows[name].pop(placeholder)
        for name, found in links.items():
            real = sorted((key for key in found if key not in self.links[name]),
                          key=lambda key: repr(found[key]))  # fmt: skip
            mine = sorted((key for key in self.links[name] if key.startswith("?")),
                          key=lambda key: repr(self.links[name][key]))  # fmt: skip
            for key, placeholder in zip(real, mine, strict=True):
                self.links[name][key] = self.links[name].pop(placeholder)


def matches(row: dict[str, Any], where: tuple[str, str, Any] | None) -> bool:
    assert where is not None
    name, op, value = where
    if row[name] is None or value is None:
        return False
    left, right = row[name], value
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return COMPARE[op](left, right)


def members(
    group: tuple[str, ...] | None, src: str | None, dst: str | None, row: dict[str, Any]
) -> tuple[Any, ...]:
    return tuple({"src": src, "dst": dst, **row}[name] for name in group or ())


def row_kinds(props: list[Prop], row: dict[str, Any]) -> Any:
    for prop in props:
        value = row[prop.name]
        if value is None:
            continue
        if prop.values and value not in prop.values:
            yield "enum"
        if prop.bounds is not None:
            low, high = prop.bounds
            if (low is not None and value < low) or (high is not None and value > high):
                yield "range"


def unfit(value: Any) -> bool:
    return value is not None and value not in I32


def repeated(values: list[Any]) -> bool:
    return len(values) != len(set(values))


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)

"""Oracles that get one rule of the language wrong: each is a change of a few words in one module of the oracle."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

PLACE = Path(__file__).parent
MODULES = ("bound", "functions", "searches", "interpreter")
"""In the order in which they import each other."""

ORDER = [
    ("null comes first", "return (0,)", "return (2,)"),
    ("text goes by its bytes", "(1, value.encode())", "(1, value.casefold().encode())"),
    ("a key may descend", "reverse=descending", "reverse=False"),
    ("the first key leads", "in reversed(list(keys))", "in list(keys)"),
    ("variables break ties", "for name in ([var, *named] if var else named)", "for name in ()"),
    ("variables in order of their names", "key=lambda v: v.name)", "key=lambda v: v.name)[::-1]"),
    ("columns break ties of groups", "order += [(at, False) for at in keys]", "pass"),
    ("an edge breaks ties by its id", "        return bound.id\n    return bound.position", "        return bound.id[:1]\n    return bound.position"),
    ("an element breaks ties by its place", "bound.position if isinstance(bound, Record) else None", "None"),
    ("limit counts from the offset", "answer[first : first + limit]", "answer[first:limit]"),
    ("offset leaves out rows", "first = self.count(self.plan.offset) or 0", "first = 0"),
]  # fmt: skip
MATCH = [
    ("optional keeps a row without a match", "yield from matches or [{**row, **dict.fromkeys(step.introduced)}]", "yield from matches"),
    ("optional adds no row beside matches", "yield from matches or [{**row, **dict.fromkeys(step.introduced)}]", "yield from [*matches, {**row, **dict.fromkeys(step.introduced)}]"),
    ("optional keeps every match", "yield from matches or [", "yield from matches[:1] or ["),
    ("not finds nothing", "if not self.match(step.inner, [row])", "if len(self.match(step.inner, [row])) < 2"),
    ("exists is satisfied by many, too", "bool(self.match(condition.inner, [at.row]))", "len(self.match(condition.inner, [at.row])) == 1"),
    ("a filter at an end counts", "self.bound(row, new, step.dst_filters)", "self.bound(row, new, ())"),
    ("a filter of a binding counts", "{step.var: new}, step.filters)", "{step.var: new}, ())"),
    ("all filters count", "if all(self.satisfied(condition, Place(extended))", "if not filters or any(self.satisfied(condition, Place(extended))"),
    ("only edges that satisfy the condition", "return step.edge_filter is None or self", "return True or self"),
    ("an element as often as it is there", "self.value(step.list, Place(row)) or []", "dict.fromkeys(self.value(step.list, Place(row)) or [])"),
    ("no rows of a null list", "self.value(step.list, Place(row)) or []", "self.value(step.list, Place(row)) or [None]"),
    ("elements of a list that is given", "items = self.params[step.param.name] or []", "items = (self.params[step.param.name] or [])[:1]"),
    ("rows of a source in its order", "self.embed).answer()\n", "self.embed).answer()[::-1]\n"),
    ("a source has its own parameters", "dict(zip(names, args, strict=False))", "dict(zip(names, args[::-1], strict=False))"),
]  # fmt: skip
CONDITIONS = [
    ("not is two-valued", "return not self.satisfied(condition.part, at)", "return not self.satisfied(condition.part, at) and not (isinstance(condition.part, ir.Compare) and None in (self.value(condition.part.left, at), self.value(condition.part.right, at)))"),
    ("null differs from nothing", "if left is None or right is None:\n            return False", "if left is None or right is None:\n            return compare.op == '!='"),
    ("null equals no null", "if left is None or right is None:\n            return False", "if left is None or right is None:\n            return compare.op == '=' and left is right"),
    ("or needs one", "return any(self.satisfied(part, at) for part in condition.parts)", "return all(self.satisfied(part, at) for part in condition.parts)"),
    ("or needs no more than one", "return any(self.satisfied(part, at) for part in condition.parts)", "return sum(self.satisfied(part, at) for part in condition.parts) == 1"),
    ("and needs all", "return all(self.satisfied(part, at) for part in condition.parts)", "return any(self.satisfied(part, at) for part in condition.parts)"),
    ("null is not true", "self.value(condition.operand, at) is True", "self.value(condition.operand, at) is not False"),
    ("an empty list is not null", "self.value(condition.operand, at) is None", "self.value(condition.operand, at) in (None, [])"),
    ("0 and no text are not null", "self.value(condition.operand, at) is None", "not self.value(condition.operand, at)"),
    ("in asks for one element", "any(each == item for each in items)", "any(each == item for each in items[:1])"),
    ("starts_with is at the start", '"prefix": bytes.startswith', '"prefix": operator.contains'),
    ("ends_with is at the end", '"suffix": bytes.endswith', '"suffix": operator.contains'),
    ("contains heeds the case", '"substring": operator.contains', '"substring": lambda a, b: b.lower() in a.lower()'),
    ("at most is not less", '"<=": operator.le', '"<=": operator.lt'),
    ("text is compared by its bytes", "        return value.encode()\n", "        return value.casefold().encode()\n"),
    ("a float beside an F32 is one", "return round_f32(value) if is_given and is_f32 else value", "return value"),
    ("fuzzy forgives two edits", 'edits = 2 if predicate', 'edits = 1 if predicate'),
]  # fmt: skip
OUTPUT = [
    ("count(*) counts rows", "return len(group)", "return len({tuple(_tie(one) for one in row.values()) for row in group if len(row) > 1}) if len(group) > 1 else len(group)"),
    ("count passes over nulls", "if pair[1] is not None]", "if pair[1] is not None or expr.function == 'count']"),
    ("distinct counts once", "if expr.distinct:", "if False:"),
    ("equal values count each", "if expr.distinct:", "if True:"),
    ("a collection ascends", "sorted(pairs, key=lambda pair: _sortable(pair[0]))", "pairs"),
    ("a collection keeps equal values", 'case "collect":\n                return [v for _, v in sorted(pairs', 'case "collect":\n                pairs = list({_sortable(i): (i, v) for i, v in pairs}.values())\n                return [v for _, v in sorted(pairs'),
    ("a shape goes by its entity", "return None if row[expr.var] is None else _id(row[expr.var])", "return None if row[expr.var] is None else repr(self.value(expr, Place(row)))"),
    ("no sum of nothing", "total = sum(present) if present else None", "total = sum(present)"),
    ("no mean of nothing", "return total / part if present else None", "return total / part if present else 0.0"),
    ("a mean passes over nulls", "part = len(present) if", "part = len(group) if"),
    ("a sum beyond I64 is refused", "if total is not None and not -(2**63) <= total < 2**63:", "if False:"),
    ("the least is the least", 'best = min if expr.function == "min" else max', 'best = max if expr.function == "min" else min'),
    ("having drops rows", "return all(self.satisfied(condition, at) for condition in self.plan.having)", "return True"),
    ("having needs all conditions", "return all(self.satisfied(condition, at) for condition in self.plan.having)", "return not self.plan.having or any(self.satisfied(condition, at) for condition in self.plan.having)"),
    ("distinct makes equal rows one", "if self.plan.is_aggregate or self.plan.distinct:", "if self.plan.is_aggregate:"),
    ("one group without keys", "{} if keys else {(): []}", "{}"),
    ("null is a group", "groups.setdefault(key, []).append(row)", "groups.setdefault(key, []).append(row) if (0,) not in key else None"),
    ("the nodes of a path", "node.id if name is None else node.values[name] for node in path.nodes]", "node.id if name is None else node.values[name] for node in path.nodes[1:]]"),
    ("the length of a path is its edges", 'if expr.what == "length":\n        return len(path.edges)', 'if expr.what == "length":\n        return len(path.nodes)'),
    ("edges of a path as they are stored", '"from": step.src, "to": step.dst', '"from": step.dst, "to": step.src'),
]  # fmt: skip
RANKINGS = [
    ("the most relevant first", "return {node: -score for", "return {node: score for"),
    ("the nearest first", "return dict(self.scores)", "return {node: -score for node, score in self.scores.items()}"),
    ("ranks count from one", "enumerate(best[:depth], 1)", "enumerate(best[:depth], 0)"),
    ("an arm is as deep as the rows asked for", "enumerate(best[:depth], 1)", "enumerate(best, 1)"),
    ("an offset deepens an arm", "limit + (self.count(self.plan.offset) or 0)", "limit"),
    ("every arm counts", "sum(1 / (k + arm[n]) for arm in arms if n in arm)", "max(1 / (k + arm[n]) for arm in arms if n in arm)"),
    ("who has no rank is left out", "row[var] is not None and _id(row[var]) in ranks]", "row[var] is not None]\n            ranks = {_id(row[var]): ranks.get(_id(row[var]), math.inf) for row in rows}\n            self.scores = {one: self.scores.get(one, 0.0) for one in ranks}"),
]  # fmt: skip
SEARCHES = [
    ("an edge to itself is one edge", "other = dst if along else src\n                yield", "other = dst if along else src\n                if along and against and step.direction is Direction.BOTH:\n                    yield Step(entity, src, dst), Entity(other, nodes[other], step.dst_type)\n                yield"),
    ("both ways", "step.direction is not Direction.OUT and dst == node", "step.direction is Direction.IN and dst == node"),
    ("all alternatives", "for type_name in step.edge_types:\n        for edge, src, dst", "for type_name in step.edge_types[:1]:\n        for edge, src, dst"),
    ("one row for each edge of a variable", "for way, node in _neighbours(graph, step, start, passes)]", "for way, node in {node.id: (way, node) for way, node in _neighbours(graph, step, start, passes)}.values()]"),
    ("from the least bound on", "if hop >= step.min_hops:", "if hop > step.min_hops:"),
    ("up to the last bound", "hop < step.max_hops)", "hop <= step.max_hops)"),
    ("zero hops are the start", "if step.min_hops == 0 else {}", "if False else {}"),
    ("a loop is one more step", "_keep_least(loops, node.id, onward)", "pass"),
    ("a loop belongs to the hop after", "for node, way in (*news.items(), *loops.items()):", "for node, way in (*loops.items(), *news.items()) if hop > 1 else news.items():"),
    ("the least path of several", "way.rank < ways[node].rank", "way.rank > ways[node].rank"),
    ("nodes of a path before its edges", "return nodes, tuple(step.edge.id.encode() for step in self.edges)", "return tuple(step.edge.id.encode() for step in self.edges), nodes"),
    ("ids of a path from its start", "nodes = tuple(node.id.encode() for node in self.nodes)", "nodes = tuple(node.id.encode() for node in self.nodes[::-1])"),
    ("the cheapest before the shortest", "return way.cost, len(way.edges), way.rank", "return len(way.edges), way.cost, way.rank"),
    ("the shortest of the cheapest", "return way.cost, len(way.edges), way.rank", "return way.cost, 0, way.rank"),
    ("the least of the shortest", "return way.cost, len(way.edges), way.rank", "return way.cost, len(way.edges), 0"),
    ("no way over an edge without a weight", "if weight is None:\n                continue", "weight = weight or 0.0"),
    ("the start is not its own end", "del best[origin.nodes[0].id]", "pass"),
    ("a negative weight is refused", "if math.isnan(weight) or weight < 0:", "if math.isnan(weight):"),
    ("weights of edges that are not there", "if weight is not None and passes(Entity(edge, values, type_name)):", "if weight is not None:"),
]  # fmt: skip
FUNCTIONS = [
    ("nothing is divided by zero", "None if right == 0 else float(left) / float(right)", "float('inf') if right == 0 else float(left) / float(right)"),
    ("no remainder of zero", "if right == 0 or not (LEAST", "if right == 0:\n        return left\n    if not (LEAST"),
    ("a remainder has the sign of the left", "return -size if left < 0 else size", "return left % right"),
    ("beyond I64 is nothing", "return whole if LEAST <= whole <= MOST else None", "return (whole - LEAST) % 2**64 + LEAST"),
    ("halves go away from zero", "math.floor(abs(value) + 0.5)", "round(abs(value))"),
    ("halves of digits go away from zero", "(float(math.floor(scaled)) / scale)", "round(abs(value), digits)"),
    ("floor goes down", "_whole(math.floor),", "_whole(math.trunc),"),
    ("ceil goes up", "_whole(math.ceil)", "_whole(math.trunc)"),
    ("a negative start is nothing", "if start < 0 or (size is not None and size < 0):", "if size is not None and size < 0:"),
    ("a size is no end", "text[start : start + size]", "text[start:size]"),
    ("the first character is 0", "return text[start:] if size is None", "return text[start - 1 if start else 0 :] if size is None"),
    ("nothing is replaced by nothing", "text.replace(old, new) if old else text", "text.replace(old, new)"),
    ("all are replaced", "return text.replace(old, new) if", "return text.replace(old, new, 1) if"),
    ("white space of any kind", "text.strip()", "text.strip(' ')"),
    ("lower is not folded", "text.lower()", "text.casefold()"),
    ("one letter may become two", "text.upper()", "''.join(one.upper() if len(one.upper()) == 1 else one for one in text)"),
    ("code points are counted", '"length": lambda _, value: len(value)', '"length": lambda _, value: len(value.encode() if isinstance(value, str) else value)'),
    ("Monday is 1", "day.isoweekday()}[unit]", "day.weekday()}[unit]"),
    ("a week begins on Monday", "return _joined(types[0], day - timedelta(days=day.isoweekday() - 1), 0)", "return _joined(types[0], day - timedelta(days=day.isoweekday() % 7), 0)"),
    ("a month is clamped", "min(day.day, last)), rest)", "1), rest)"),
    ("a month ends where it does", "last = monthrange(year, month + 1)[1]", "last = 28"),
    ("a shift keeps the hour", "min(day.day, last)), rest)", "min(day.day, last)), 0)"),
    ("a shift stays in the years there are", "return _in_years(value + count * step, is_date)", "return value + count * step"),
    ("elapsed goes toward zero", "size = abs(end - start) // step\n    return size if end >= start else -size", "return (end - start) // step"),
    ("months are those of the calendar", 'if unit in ("year", "month"):\n        sign', 'if unit == "month":\n        days = (end - start) // (1 if types[0].scalar is Scalar.DATE else DAY_MS)\n        return int(days / 30)\n    if unit in ("year", "month"):\n        sign'),
    ("a float shows that it is one", "return repr(float(value))", "return f'{value:g}'"),
    ("a truth is a small word", 'return "true" if value else "false"', "return str(value)"),
    ("the first that is there", "next((arg for arg in args if arg is not None), None)", "args[0]"),
    ("no `b` is nothing", "(args[2] if len(args) == 3 else None)", "args[-1]"),
    ("null makes null", "if any(arg is None for arg in args):\n        return None", "args = [0 if arg is None and kind.is_integer else arg for arg, kind in zip(args, types)]\n    if any(arg is None for arg in args):\n        return None"),
    ("a day before 1970", "value // DAY_MS if types[0]", "int(value / DAY_MS) if types[0]"),
    ("hours of a date and time", "return rest // CLOCK_MS[unit] % of", "return rest // CLOCK_MS[unit]"),
]  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A rule, and the words of a module that say it, with others in their place."""

    rule: str
    module: str
    old: str
    new: str

    def __str__(self) -> str:
        return self.rule

    def runner(self) -> Callable[..., Any]:
        """``run`` of the oracle with this change."""
        text = _source(self.module)
        assert text.count(self.old) == 1, f"{self.rule}: {text.count(self.old)} places"
        return _loaded(self.module, compile(text.replace(self.old, self.new), self.rule, "exec"))


def _of(module: str, changes: list[tuple[str, str, str]]) -> list[Mutant]:
    return [Mutant(rule, module, old, new) for rule, old, new in changes]


def all_mutants() -> list[Mutant]:
    """Every mutant, in the order of the language's pages."""
    inside = _of("interpreter", [*ORDER, *MATCH, *CONDITIONS, *OUTPUT, *RANKINGS])
    ways = [
        Mutant(rule, "searches" if old in _source("searches") else "bound", old, new)
        for rule, old, new in SEARCHES
    ]
    return [*inside, *ways, *_of("functions", FUNCTIONS)]


@functools.cache
def _source(module: str) -> str:
    return (PLACE / f"{module}.py").read_text("utf-8")


@functools.cache
def _code(module: str) -> CodeType:
    return compile(_source(module), f"{module}.py", "exec")


def _loaded(changed: str, code: CodeType) -> Callable[..., Any]:
    """The modules of the oracle anew, one of them changed, without a trace among those in use."""
    names = {module: f"tests.oracle.{module}" for module in MODULES}
    before = {name: sys.modules.get(name) for name in names.values()}
    package = sys.modules["tests.oracle"]
    kept = {module: getattr(package, module, None) for module in MODULES}
    try:
        for module, name in names.items():
            made = ModuleType(name)
            sys.modules[name] = made
            setattr(package, module, made)
            exec(code if module == changed else _code(module), made.__dict__)
        run: Callable[..., Any] = sys.modules[names["interpreter"]].run
        return run
    finally:
        for name, module_before in before.items():
            if module_before is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module_before
        for module, kept_module in kept.items():
            if kept_module is not None:
                setattr(package, module, kept_module)

"""Texts in which a form of the language shows all that it can, for graphs made to tell right from nearly right."""

from __future__ import annotations

import itertools
import random

from tests.oracle.graph import Graph
from tests.read import extended_queries

PATHS = [
    f"match {{ $a: Person  $a $w:{way} $b }} return {{ $a, $b, {values} }}"
    for way, values in [
        ("follows{1,}", "nodes($w) as n, edges($w) as e"),
        ("<follows|knows>{0,3}", "nodes($w) as n, edges($w.note) as e"),
        ("knows|follows{2,4}", "nodes($w) as n, edges($w) as e, length($w) as l"),
        ("knows[since = 1]{1,}", "nodes($w.age) as n, $w"),
        ("follows[km >= 0.0] by km", "nodes($w) as n, edges($w) as e, cost($w) as c"),
        ("<knows|follows> by since", "nodes($w) as n, edges($w) as e, cost($w) as c, $w"),
        ("follows by km", "nodes($w.nick) as n, cost($w) as c, length($w) as l"),
    ]
] + [
    "match { $_ $w:follows{1,} $_ } return { nodes($w) as n, length($w) as l }",
    "match { $a: Person  optional { $a $w:<follows>{2,} $_ } } return { $a, nodes($w) as n, count($w) as l }",
]
"""Every form of a path, all of its values shown; for graphs with many ways."""

OF_PERSONS = [
    *("$p.age + $p.views", "$p.views - $p.age", "$p.age * 9223372036854775807", "-$p.views"),
    *("$p.age / 7", "$p.age / 0", "$p.age % 7", "$p.age % -3", "$p.age % 0", "$p.height * $p.age"),
    *("abs($p.age)", "floor($p.weight - 2)", "ceil($p.weight - 2)", "round($p.height * -1)"),
    *("round($p.weight * 10, 1)", "round($p.height, 1)", "round(0.285, 2)", "floor($p.views)"),
    *("lower($p.nick)", "upper($p.nick)", "trim($p.nick)", "length($p.nick)", "length($p.tags)"),
    *("substring($p.nick, 1)", "substring($p.nick, -1)", "substring($p.nick, 1, 2)"),
    *('replace($p.nick, "an", "")', 'replace($p.nick, "", "x")', '$p.nick + "/" + $p.name'),
    *('part($p.seen, "hour")', 'part($p.seen, "minute")', 'part($p.born, "weekday")'),
    *('floor($p.seen, "week")', 'floor($p.seen, "month")', 'floor($p.seen, "hour")'),
    *(
        'shift($p.seen, 12, "month")',
        'shift($p.born, 1, "month")',
        'shift($p.born, 4000000, "day")',
    ),
    *('elapsed($p.born, date("1969-01-31"), "month")', 'elapsed($p.seen, now(), "hour")'),
    *('elapsed($p.seen, datetime("1970-01-01"), "day")', "date($p.seen)", "datetime($p.born)"),
    *("text($p.height)", "text($p.active)", "text($p.seen)", "text($p.views)", "text($p.age)"),
    *("coalesce($p.nick, $p.name)", "coalesce($p.age, $p.height)", "if($p.active, 1)"),
    *('if($p.age > 1, "old", $p.nick)', "id($p)", "type($p)", "($p.active)", "(not $p.active)"),
    *('($p.nick starts_with "a")', '($p.nick ends_with "n")', '($p.nick contains "A")'),
    *("($p.tags is null)", "($p.age is null)", "($p.weight = 0.1)", "($p.weight > 0.1)"),
    *('("b" in $p.tags)', "(not $p.age = 30)", "($p.age != 30)", "($p.age <= 30 or $p.active)"),
    *(
        "($p.nick < $p.name)",
        "($p.age in [30, 1])",
        "(not $p.age in [30, 1])",
        "($p.nick = $p.nick)",
    ),
]
TERMS = [
    "match {{ $p: Person }} return {{ $p, {} }}".format(
        ", ".join(f"{term} as c{number}" for number, term in enumerate(OF_PERSONS[start::4]))
    )
    for start in range(4)
]
"""Every operator and function on every person."""

OUTPUTS = [
    (
        "match { $a: Person  $b: Person  optional { $b $w:<knows> by since $a } } "
        "return { $a, $b } order { cost($w) desc } limit 6"
    ),
    "match { $p: Person  for $a in $p.tags } return { $p, $a as t } order { $p.active }",
    "match { $p: Person } return { $p.nick as k, count(*) as n, avg($p.height) as a } order { k desc }",
    "match { $p: Person } return distinct { $p.active, $p.rank }",
    "match { $p: Person  for $t in $p.tags } return { $t as t, count($p) as n, collect($p.nick) as c }",
    (
        "match { $p: Person  optional { $p $e:knows $q } } return { $p, count($q) as n, sum($e.since) as s, "
        "collect(distinct $e.note) as c } having { n > 0 or s is null  c is not null } order { n desc }"
    ),
    "match { $p: Person  $p $e:<follows> $q } return { $p, $e.since as s } order { s desc, $p.age }",
    "match { $p $e:knows $q  for $t in $p.tags } return { $t as t, $q { nick } as q, count(distinct id($e)) as n }",
    "match { $p $e:follows $q  for $t in $e.marks } return { $p, $t as t } order { $q.nick desc }",
    "match { $p $e:<follows> $q  for $t in $e.marks  $t != $p.name } return { $t as t, count($q) as n }",
    "match { $p: Person  not { $p knows $q  $q.active } } return { $p.name as n } order { n } limit 3 offset 1",
    "match { $p: Person  exists { $p knows|follows $q } } return { $p.* } order { $p.nick, $p.name desc }",
]
"""Groups, collections, order and windows."""

SEARCHES = [
    'match { $d: Doc  fuzzy($d.body, "hello") } return { $d }',
    'match { $d: Doc  fuzzy($d.title, "run") } return { $d }',
    *(
        f"match {{ $d: Doc }} return {{ $d, rrf({arms}) as s }} order {{ s desc }} limit {size}"
        for arms in (
            'nearest($d.vec, [1, 0.5]), bm25($d.body, "run the hello tower")',
            'bm25($d.title, "running halo café"), nearest($d.vec, [0.1, 0.9]), 1',
        )
        for size in ("1 offset 1", "2 offset 1", "1 offset 2")
    ),
]
"""Over the schema of ``search_queries``."""


def many_ways(seed: int) -> Graph:
    """Persons in layers, nearly all of a layer joined to all of the next: many ways of equal length and cost.

    With seed 2 one of the costs is negative.
    """
    rng = random.Random(f"ways {seed}")
    graph = extended_queries.plain_graph(rng, persons=0)
    names = [f"{letter}{at}" for at, letter in enumerate(rng.sample("abcdefgh", 8))]
    for name in names:
        graph.nodes["Person"][name] = extended_queries.person(rng, name)
    layers = [names[:1], names[1:4], names[4:7], names[7:]]
    joined = [pair for one, two in itertools.pairwise(layers) for pair in _all(one, two)]
    joined += [(rng.choice(names), rng.choice(names)) for _ in range(8)]
    for kind in ("Knows", "Follows"):
        for at, (src, dst) in enumerate(pair for pair in joined * 2 if rng.random() < 0.35):
            values = {"since": rng.choice([1, 1, 2]), "note": rng.choice(["a", "b", None])}
            if kind == "Follows":
                values["km"] = rng.choice([0.0, 0.5, 1.0, 1.0, None])
                values["marks"] = rng.choice(extended_queries.MARKS)
            graph.edges[kind].append((f"{kind}{97 * at % 101:03d}", src, dst, values))
    if seed == 2:
        debt = {"since": 1, "note": "a", "km": -1.0, "marks": None}
        graph.edges["Follows"].append(("Follows200", names[0], names[1], debt))
    return graph


def _all(one: list[str], two: list[str]) -> list[tuple[str, str]]:
    return [(src, dst) for src in one for dst in two]

"""Mutations that each hold one rule which random ones seldom meet, all of one small graph."""

from __future__ import annotations

from typing import Any

SCHEMA = """
node P { name: String @key  n: I64?  s: I32?  f: F64? }
node Q { name: String @key  n: I64? @default(3)  tags: [String]? @default(["new"]) }
node R { title: String }
edge K: P -> P { w: I64? }
edge L: P -> Q
edge C: P -> P { y: I64?  w: I64?  @unique(src, dst, y) }
edge T: P -> P { w: I64?  @unique(src, dst) }
"""
FILL = """
insert P { name: "a", n: 1 } insert P { name: "b", n: 2 } insert P { name: "c", n: 3 }
insert Q { name: "a" } insert Q { name: "b", n: 1 }
insert K { from: "a", to: "b", w: 5 } insert K { from: "a", to: "c", w: 7 } insert K { from: "b", to: "c", w: 1 }
insert K { from: "c", to: "a", w: 2 } insert L { from: "a", to: "a" } insert L { from: "b", to: "b" }
insert C { from: "a", to: "b", y: 1, w: 1 } insert C { from: "a", to: "b", y: 2, w: 2 }
insert T { from: "a", to: "b", w: 1 } insert T { from: "b", to: "c", w: 9 }
"""
ROWS = "($rows: [{ s: String, i: I64? }]) for $r in $rows "
MANY: dict[str, Any] = {
    "rows": [
        {"s": "a", "i": 5},
        {"s": "new", "i": 1},
        {"s": "a", "i": None},
        {"s": "new", "i": 2},
        {"s": "b", "i": 4},
    ]
}
FIXED: list[tuple[str, dict[str, Any]]] = [
    ('match { $p: P { name: "a" } } update $p set { n: 10 } delete $p return { $p.n as n }', {}),
    ("match { $p: P } delete K where w > 0 update $p set { n: if(exists { $p k $_ }, 1, 0) }", {}),
    ("match { $p: P } update $p set { n: if($p.n > 0, $p.s, 1 % 0) }", {}),
    ('update P set { f: 500.0 } where name = "a"', {}),
    ('upsert C { from: "a", to: "b", y: 2, w: 9 }', {}),
    ('upsert C { from: "a", to: "b", w: 9 }', {}),
    ('upsert C { from: "a", to: "b", y: null, w: 9 } upsert C { from: "a", to: "b", y: null, w: 8 }', {}),
    ("match { $p: P  $p k $q } update $p set { n: sum($q.n) }", {}),
    ("match { $p: P  $p k $q } update $p set { n: $q.n }", {}),
    ("match { $p: P  $p k $q } update $q set { n: count(*), s: max($p.n) }", {}),
    ('($big: I64) update P set { s: $big } where name = "nobody"', {"big": 2**40}),
    ('($big: I64) match { $p: P { name: "nobody" } } update $p set { s: $big }', {"big": 2**40}),
    ('($big: I64) match { $p: P { name: "nobody" } } update P set { s: $big } where n > 0', {"big": 2**40}),
    ('match { $p: P { name: "a" } } delete $p update $p set { n: 5 }', {}),
    ('match { $p: P { name: "a" } } delete $p insert P { name: "a" } update $p set { n: 5 } return { $p.n as n }', {}),
    ('delete Q where name = "a"', {}),
    ('delete P where name = "a" upsert P { name: "a", s: 1 } insert K { from: "a", to: "a", w: 1 }', {}),
    ('insert Q { name: "c" } upsert Q { name: "d", tags: null } upsert Q { name: "b" } insert Q { name: "a", n: 9 }', {}),
    (ROWS + "upsert P { name: $r.s, n: coalesce(n, 100) + $r.i } return { $r.s as s }", MANY),
    (ROWS + "upsert P { name: $r.s, n: coalesce(n, 100) + coalesce($r.i, 1) }", MANY),
    (ROWS + "upsert $v: P { name: $r.s, n: $r.i } return { $v.n as n, $r.i as i, id($v) as id }", MANY),
    (ROWS + "insert P { name: $r.s, s: $r.i } update P set { s: s + 1 } where name = $r.s", MANY),
    (ROWS + "match { $p: P { name: $r.s } } upsert K { from: $p, to: $r.s, w: coalesce(w, 0) + $r.i }", MANY),
    (ROWS + "update P set { n: $r.i } where n = $r.i - 1", MANY),
    (ROWS + "match { optional { $p: P { name: $r.s } } } update $p set { n: $p.n + 1 } delete $p", MANY),
    (ROWS + "match { optional { $p: P { name: $r.s } } } insert L { from: $p, to: $r.s }", MANY),
    ("match { $p: P } insert R { title: $p.name } insert $r: R { title: $p.name + $p.name } return { $r.title as t }", {}),
    ("match { $p: P } upsert Q { name: $p.name, n: $p.n } insert L { from: $p, to: $p.name }", {}),
    ("match { $a $e:k $b } update $e set { w: $e.w + $b.n } delete K where w > 8 return { $e.w as w }", {}),
    ("match { $a $e:k $b } delete $b delete $a return distinct { $a.n as a, $b.n as b }", {}),
    ('match { $a $e:t $b  $e.w = 1 } insert T { from: $a, to: $b, w: 5 } insert R { title: text($e.w) } delete $e', {}),
    ('insert T { from: "a", to: "b" } delete P where name = "b"', {}),
    ('insert T { from: "a", to: "b", w: 5 } delete T where w = 1', {}),
    ("match { $p: P } update $p set { n: $p.n / 0.0 }", {}),
    ("match { $p: P } update $p set { f: $p.n / ($p.n - $p.n) }", {}),
    ("match { $p: P } update $p set { n: $p.n * 9223372036854775807 }", {}),
    ("match { $p: P } update $p set { n: coalesce($p.n * 9223372036854775807, 7) }", {}),
    ("update P set { n: n + $m.n } where n < 3", {}),
    ("match { $m: P { name: \"c\" } } update P set { n: n + $m.n } where n <= $m.n return { $m.n as n }", {}),
]  # fmt: skip

"""Well-formed sources that between them use every form of the language."""

from __future__ import annotations

READS = (
    "query q() { match { $x: T } return { $x } }",
    """
    query q($a: String, $b: I32?, $c: [F64], $d: Vector(3)?) { match { $x: T { p: $a, q: 1, } }
    return { $x.p as p, $x.q } order { p desc, $x.q } limit 10 }
    """,
    """
    query q() @description("d") @instruction("i") { match { $x: T { } $x knows $y $y knows{1,3} $z
    $x <knows> $z $x $e:knows $y $x $e:<knows>{1,1} $y $_ knows{2,} $_ } return { $e.w } }
    """,
    """
    query q() { match { $x: T $x.p contains "a" "abc" contains $x.p $x.q starts_with $a $q
    contains true $q contains [1, 2] $q < knows $q >= -1.5 now() > $x.d } return { $x.p } }
    """,
    """
    query q() { match { $x: T not { $x.p = $x.p } not { $x knows $y not { $y.p != 3 } } } return {
    count($x) as n sum($x.p) avg($x.p) min($x.p) max($x.p) $x.q } order { n desc } }
    """,
    """
    query q() { match { $x: T search($x.p, "a b") match_text($x.p, $t) fuzzy($x.p, "c", 1)
    search($x.p, "a") = true } return { $x.p } order { bm25($x.p, "a") desc, $x.p asc } }
    """,
    """
    query q() { match { $x: T } return { $x.p, rrf(nearest($x.v, [1, 2.5]), bm25($x.p, $q), 60) as
    s, 1, now(), true, $q } order { nearest($x.v, $q) } limit 5 }
    """,
    """
    query q() { match { $x: T { d: date("2020-01-01"), t: datetime("2020-01-01T00:00:00Z"), n:
    now(), l: [], b: false } } return { name as other } }
    """,
    """
    query match($return: Bool) { match { $match: Match { match: true, count: 1, date: $return }
    $match contains $limit $order count $not $a match{1,2} $b $a <true> $b $a $order:order $b
    count = date notify = asc_x } return { $match.return as as, count as count order limit, }
    order { asc asc, desc desc, order, count } limit 0 }
    """,
    """
    query q($l: [{ h: String, n: I32? }], $n: I64) { for $r in $l match { $x: T $x.p = $r.h or not
    $x.q in [1, -2] and ($x.q is not null or exists { $x knows|likes $_ }) optional { $x $e:road[toll is
    null and km < 3]{0,} $y for $g in $y.tags } $s: other($n, 1 + 2) $x.active not not $x.active
    ($n) in $x.codes $x.name ends_with "a" + lower($x.name) $x $p:road by km $z } return distinct {
    $x { p, q } as s, $y.*, -$x.p * (2 - $x.q) / 3 % 4 as v, ($x.p > 1) as big, if(exists { $x: T }, 1)
    } having { v > 1 and v < 3  not (big = true) } order { $x.p + 1 desc } limit $n offset 5 }
    """,
    """
    query q() { match { $x: T } return { count(*) as n, count(distinct $x.p), collect($x { * }) as all,
    sum($x.p) / count(*) as mean, coalesce($x.p, 1), date($x.at), round($x.p, 2), nodes($p.name) } }
    """,
)
WRITES = (
    """
    query w() { insert T { p: 1, q: "x" r: now() s: $s, } }
    """,
    "query w($a: Date) { update T set { p: $a q: [true] } where p >= -3 }",
    """
    query w() { delete T where from = "a" delete U where set != "b" }
    """,
    """
    query w() { insert A { a: 1 } update A set { a: 2 } where a = 1 insert B { set: 1 where: 2 } }
    """,
    """
    query w($l: [String]) { for $i in $l match { $x: T { p: $i } } insert $n: T { p: null q: $x.p + 1 }
    upsert U { from: $x, to: $n } update $x set { q: sum($x.q) } update T set { q: q + 1 } where q is
    null or q in [1, 2] and not = 3 delete $x delete T where q ends_with "a" return { $n, $x.p as p } }
    """,
)
FILES = (
    "",
    "// nothing\n/* at all */",
    READS[0] + "\n" + WRITES[0],
    READS[0] + "\n($a: I32) match { $r: q() $r.x > $a } return { $r.x } limit 1",
    "for $a in $b insert T { p: $a }",
)
SOURCES = READS + WRITES + FILES

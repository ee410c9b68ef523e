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
)
FILES = (
    "",
    "// nothing\n/* at all */",
    READS[0] + "\n" + WRITES[0],
)
SOURCES = READS + WRITES + FILES

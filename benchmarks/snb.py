"""LDBC's interactive workload on a network of its shape: short and complex reads, and inserts, beside Kùzu.

    ./dev bench snb [--tiny | --small | --large] [--json]

Two sizes are measured, of 1,650 and 9,200 persons; `--small` and `--large` take one of them, `--tiny` is for a look at
whether everything works. Messages are posts or comments, with an edge type for each, and the fourteenth complex read
goes by stored weights. All answers are compared with Kùzu's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.contest.dataset import write_dataset
from benchmarks.contest.engines import Question
from benchmarks.contest.interactive import DAY_MS, START, tables
from benchmarks.contest.peers import peers_directory
from benchmarks.contest.referee import (
    OURS,
    Contest,
    Failed,
    Player,
    Score,
    as_json,
    note,
    table,
    totals,
    verdict,
)
from benchmarks.contest.snb import network

SIZES = {"tiny": 150, "small": 1_650, "large": 9_200}
KUZU = "kuzu"
WRITES = 20
MIDDLE = (START + 600) * DAY_MS
PERSON = {"no": 21}
PERIOD = {**PERSON, "since": MIDDLE - 100 * DAY_MS, "until": MIDDLE + 100 * DAY_MS}


def question(name: str, title: str, ours: str, cypher: str, params: dict[str, Any]) -> Question:
    """A question in two languages. What it takes is declared by the kinds of its values."""
    kinds = {int: "I64", str: "String"}
    declared = ", ".join(f"${key}: {kinds[type(value)]}" for key, value in params.items())
    sources, _, own = ours.rpartition("---")
    return Question(name, title, f"{sources}\n({declared})\n{own}", cypher, "", params)


SHORT = (
    question(
        "point", "a plain read by key",
        "match { $p: Person { number: $no } } return { $p.first as first }",
        "MATCH (p:Person {number: $no}) RETURN p.first",
        PERSON,
    ),
    question(
        "is1", "IS1 a profile",
        """match { $p: Person { number: $no }  $p livesIn $c }
        return { $p.first as first, $p.last as last, $p.joined as joined, $c.name as city }""",
        """MATCH (p:Person {number: $no})-[:LivesIn]->(c:City)
        RETURN p.first, p.last, p.joined, c.name""",
        PERSON,
    ),
    question(
        "is2", "IS2 the newest comments and their threads",
        """match { $p: Person { number: $no }  $p commented $c  $c onComment{0,} $top  $top onPost $post
                   $a wrote $post }
        return { $c.number as no, $c.content as text, $c.at as at, $post.number as post, $a.number as author }
        order { at desc, no desc } limit 10""",
        """MATCH (:Person {number: $no})-[:Commented]->(c:Comment)
        WITH c ORDER BY c.at DESC, c.number DESC LIMIT 10
        MATCH (c)-[:OnComment*0..30]->(top:Comment)-[:OnPost]->(post:Post)<-[:Wrote]-(a:Person)
        RETURN c.number, c.content, c.at, post.number, a.number ORDER BY c.at DESC, c.number DESC""",
        PERSON,
    ),
    question(
        "is3", "IS3 friends, and since when",
        """match { $p: Person { number: $no }  $p $k:<knows> $f }
        return { $f.number as no, $f.first as first, $f.last as last, $k.since as since }
        order { since desc, no }""",
        """MATCH (:Person {number: $no})-[k:Knows]-(f:Person)
        RETURN f.number AS no, f.first, f.last, k.since AS since ORDER BY since DESC, no""",
        PERSON,
    ),
    question(
        "is4", "IS4 a message",
        "match { $m: Post { number: $post } } return { $m.at as at, $m.content as text }",
        "MATCH (m:Post {number: $post}) RETURN m.at, m.content",
        {"post": 777},
    ),
    question(
        "is5", "IS5 its author",
        """match { $m: Post { number: $post }  $p wrote $m }
        return { $p.number as no, $p.first as first, $p.last as last }""",
        "MATCH (:Post {number: $post})<-[:Wrote]-(p:Person) RETURN p.number, p.first, p.last",
        {"post": 777},
    ),
    question(
        "is6", "IS6 the forum of a comment",
        """match { $c: Comment { number: $comment }  $c onComment{0,} $top  $top onPost $post
                   $f containerOf $post  $f hasModerator $p }
        return { $f.number as forum, $f.name as name, $p.number as moderator, $p.first as first }""",
        """MATCH (:Comment {number: $comment})-[:OnComment*0..30]->(:Comment)-[:OnPost]->(:Post)
        <-[:ContainerOf]-(f:Forum)-[:HasModerator]->(p:Person)
        RETURN f.number, f.name, p.number, p.first""",
        {"comment": 1234},
    ),
    question(
        "is7", "IS7 replies, and who knows whom",
        """match { $m: Post { number: $post }  $author wrote $m  $c onPost $m  $a commented $c }
        return { $c.number as no, $c.content as text, $a.number as by, exists { $a <knows> $author } as knows }
        order { $c.at desc, by }""",
        """MATCH (author:Person)-[:Wrote]->(:Post {number: $post})<-[:OnPost]-(c:Comment)<-[:Commented]-(a:Person)
        RETURN c.number, c.content, a.number AS by, EXISTS { MATCH (a)-[:Knows]-(author) }
        ORDER BY c.at DESC, by""",
        {"post": 3},
    ),
)  # fmt: skip

COMPLEX = (
    question(
        "ic1", "IC1 people of a name within three steps",
        """match { $p: Person { number: $no }  $p $w:<knows>{1,3} $f  $f.first = $name  $f livesIn $city
                   optional { $f $s:studyAt $u }  optional { $f $j:workAt $co } }
        return { $f.last as last, $f.number as no, length($w) as distance, $city.name as city,
                 collect(distinct $u.name + " " + text($s.year)) as studies,
                 collect(distinct $co.name + " " + text($j.year)) as jobs }
        order { distance, last, no } limit 20""",
        """MATCH (p:Person {number: $no})-[w:Knows* SHORTEST 1..3]-(f:Person)
        WHERE f.first = $name AND f.number <> $no
        WITH f, length(w) AS distance ORDER BY distance, f.last, f.number LIMIT 20
        MATCH (f)-[:LivesIn]->(city:City)
        OPTIONAL MATCH (f)-[s:StudyAt]->(u:University)
        OPTIONAL MATCH (f)-[j:WorkAt]->(co:Company)
        RETURN f.last AS last, f.number AS no, distance, city.name,
          coalesce(list_sort(collect(DISTINCT CASE WHEN u.name IS NULL THEN NULL
            ELSE u.name + " " + string(s.year) END)), CAST([] AS STRING[])),
          list_sort(collect(DISTINCT co.name + " " + string(j.year)))
        ORDER BY distance, last, no""",
        {**PERSON, "name": "Eva"},
    ),
    question(
        "ic2", "IC2 the newest posts of friends",
        """match { $p: Person { number: $no }  $p <knows> $f  $f wrote $m  $m.at < $before }
        return { $f.number as friend, $m.number as no, $m.content as text } order { $m.at desc, no } limit 20""",
        """MATCH (:Person {number: $no})-[:Knows]-(f:Person)-[:Wrote]->(m:Post) WHERE m.at < $before
        RETURN f.number, m.number AS no, m.content ORDER BY m.at DESC, no LIMIT 20""",
        {**PERSON, "before": MIDDLE},
    ),
    question(
        "ic3", "IC3 friends who wrote from two countries",
        """match { $p: Person { number: $no }  $p <knows>{1,2} $f  $f livesIn $city  $city isPartOf $home
                   $home.number != $x  $home.number != $y  $f wrote $m  $m madeIn $c
                   $c.number = $x or $c.number = $y  $m.at >= $since  $m.at < $until }
        return { $f.number as no, count(if($c.number = $x, 1)) as in_x, count(if($c.number = $y, 1)) as in_y,
                 count(*) as n }
        having { in_x > 0 and in_y > 0 } order { n desc, no } limit 20""",
        """MATCH (p:Person {number: $no})-[:Knows*1..2]-(f:Person) WHERE f.number <> $no WITH DISTINCT f
        MATCH (f)-[:LivesIn]->(:City)-[:IsPartOf]->(home:Country) WHERE home.number <> $x AND home.number <> $y
        MATCH (f)-[:Wrote]->(m:Post)-[:MadeIn]->(c:Country)
        WHERE (c.number = $x OR c.number = $y) AND m.at >= $since AND m.at < $until
        WITH f.number AS no, CAST(sum(CASE WHEN c.number = $x THEN 1 ELSE 0 END) AS INT64) AS in_x,
          CAST(sum(CASE WHEN c.number = $y THEN 1 ELSE 0 END) AS INT64) AS in_y, count(*) AS n
        WHERE in_x > 0 AND in_y > 0 RETURN no, in_x, in_y, n ORDER BY n DESC, no LIMIT 20""",
        {**PERIOD, "x": 1, "y": 2},
    ),
    question(
        "ic4", "IC4 new tags of friends' posts",
        """match { $p: Person { number: $no }  $p <knows> $f  $f wrote $post  $post hasTag $t
                   $post.at >= $since and $post.at < $until
                   not { $p <knows> $g  $g wrote $old  $old hasTag $t  $old.at < $since } }
        return { $t.name as tag, count(distinct $post) as n } order { n desc, tag } limit 10""",
        """MATCH (p:Person {number: $no})-[:Knows]-(:Person)-[:Wrote]->(post:Post)-[:HasTag]->(t:Tag)
        WHERE post.at >= $since AND post.at < $until
        WITH p, t, count(DISTINCT post.number) AS n
        WHERE NOT EXISTS { MATCH (p)-[:Knows]-(:Person)-[:Wrote]->(old:Post)-[:HasTag]->(t) WHERE old.at < $since }
        RETURN t.name AS tag, n ORDER BY n DESC, tag LIMIT 10""",
        PERIOD,
    ),
    question(
        "ic5", "IC5 forums that friends joined, by their posts",
        """match { $p: Person { number: $no }  $p <knows>{1,2} $f  $forum $m:hasMember $f  $m.since > $after
                   optional { $forum containerOf $post  $f wrote $post } }
        return { $forum.name as name, $forum.number as no, count(distinct $post) as posts }
        order { posts desc, no } limit 20""",
        """MATCH (p:Person {number: $no})-[:Knows*1..2]-(f:Person) WHERE f.number <> $no WITH DISTINCT f
        MATCH (forum:Forum)-[m:HasMember]->(f) WHERE m.since > $after
        OPTIONAL MATCH (forum)-[:ContainerOf]->(post:Post)<-[:Wrote]-(f)
        RETURN forum.name, forum.number AS no, count(DISTINCT post.number) AS posts
        ORDER BY posts DESC, no LIMIT 20""",
        {**PERSON, "after": MIDDLE},
    ),
    question(
        "ic6", "IC6 tags beside a tag",
        """match { $p: Person { number: $no }  $p <knows>{1,2} $f  $f wrote $post  $t: Tag { number: $tag }
                   $post hasTag $t  $post hasTag $o  $o != $t }
        return { $o.name as tag, count(distinct $post) as n } order { n desc, tag } limit 10""",
        """MATCH (p:Person {number: $no})-[:Knows*1..2]-(f:Person) WHERE f.number <> $no WITH DISTINCT f
        MATCH (f)-[:Wrote]->(post:Post)-[:HasTag]->(:Tag {number: $tag})
        MATCH (post)-[:HasTag]->(o:Tag) WHERE o.number <> $tag
        RETURN o.name AS tag, count(DISTINCT post.number) AS n ORDER BY n DESC, tag LIMIT 10""",
        {**PERSON, "tag": 1},
    ),
    question(
        "ic7", "IC7 the newest like of everyone",
        """query newest($no: I64) {
          match { $p: Person { number: $no }  $p wrote $m  $l $k:likes $m }
          return { $l as liker, max($k.at) as at }
        }
        ---
        match { $p: Person { number: $no }  $n: newest($no)  $l: Person  $l = $n.liker  $l $k:likes $m
                $p wrote $m  $k.at = $n.at }
        return { $l.number as liker, $l.first as first, $n.at as at, min($m.number) as message,
                 floor(min($k.at - $m.at) / 60000) as minutes, (not { $l <knows> $p }) as is_new }
        order { at desc, liker } limit 20""",
        """MATCH (p:Person {number: $no})-[:Wrote]->(m:Post)<-[k:Likes]-(l:Person)
        WITH p, l, max(k.at) AS at ORDER BY at DESC, l.number LIMIT 20
        MATCH (p)-[:Wrote]->(m:Post)<-[k:Likes]-(l) WHERE k.at = at
        WITH p, l, at, min(m.number) AS message, min(k.at - m.at) / 60000 AS minutes
        RETURN l.number AS liker, l.first, at, message, minutes, NOT EXISTS { MATCH (l)-[:Knows]-(p) }
        ORDER BY at DESC, liker""",
        PERSON,
    ),
    question(
        "ic8", "IC8 the newest replies",
        """match { $p: Person { number: $no }  $p wrote $m  $c onPost $m  $a commented $c }
        return { $a.number as by, $c.at as at, $c.number as no, $c.content as text } order { at desc, no } limit 20""",
        """MATCH (:Person {number: $no})-[:Wrote]->(:Post)<-[:OnPost]-(c:Comment)<-[:Commented]-(a:Person)
        RETURN a.number, c.at AS at, c.number AS no, c.content ORDER BY at DESC, no LIMIT 20""",
        PERSON,
    ),
    question(
        "ic9", "IC9 the newest posts within two steps",
        """match { $p: Person { number: $no }  $p <knows>{1,2} $f  $f wrote $m  $m.at < $before }
        return { $f.number as by, $m.number as no, $m.content as text } order { $m.at desc, no } limit 20""",
        """MATCH (p:Person {number: $no})-[:Knows*1..2]-(f:Person) WHERE f.number <> $no WITH DISTINCT f
        MATCH (f)-[:Wrote]->(m:Post) WHERE m.at < $before
        RETURN f.number, m.number AS no, m.content ORDER BY m.at DESC, no LIMIT 20""",
        {**PERSON, "before": MIDDLE},
    ),
    question(
        "ic10", "IC10 friends of friends, by their interests",
        """match { $p: Person { number: $no }  $p <knows>{2,2} $f
                   part($f.birthday, "month") = $month and part($f.birthday, "day") >= 21
                     or part($f.birthday, "month") = $month % 12 + 1 and part($f.birthday, "day") < 22
                   $f livesIn $city  optional { $f wrote $post } }
        return { $f.number as no, $f.first as first, $city.name as city,
                 2 * count(if(exists { $post hasTag $t  $p hasInterest $t }, 1)) - count($post) as score }
        order { score desc, no } limit 10""",
        """MATCH (p:Person {number: $no})-[w:Knows* SHORTEST 1..2]-(f:Person)
        WHERE length(w) = 2 AND f.number <> $no
          AND ((date_part('month', f.birthday) = $month AND date_part('day', f.birthday) >= 21)
            OR (date_part('month', f.birthday) = $month % 12 + 1 AND date_part('day', f.birthday) < 22))
        MATCH (f)-[:LivesIn]->(city:City)
        OPTIONAL MATCH (f)-[:Wrote]->(post:Post)
        WITH f, city, post, EXISTS { MATCH (post)-[:HasTag]->(t:Tag)<-[:HasInterest]-(:Person {number: $no}) } AS common
        RETURN f.number AS no, f.first, city.name,
          2 * CAST(sum(CASE WHEN common THEN 1 ELSE 0 END) AS INT64) - count(post.number) AS score
        ORDER BY score DESC, no LIMIT 10""",
        {**PERSON, "month": 5},
    ),
    question(
        "ic11", "IC11 who has worked in a country since",
        """match { $p: Person { number: $no }  $p <knows>{1,2} $f  $f $w:workAt $c  $c basedIn $x
                   $x.number = $country  $w.year < $year }
        return { $f.number as no, $f.first as first, $c.name as company, $w.year as since }
        order { since, no, company desc } limit 10""",
        """MATCH (p:Person {number: $no})-[:Knows*1..2]-(f:Person) WHERE f.number <> $no WITH DISTINCT f
        MATCH (f)-[w:WorkAt]->(c:Company)-[:BasedIn]->(:Country {number: $country}) WHERE w.year < $year
        RETURN f.number AS no, f.first, c.name AS company, w.year AS since
        ORDER BY since, no, company DESC LIMIT 10""",
        {**PERSON, "country": 3, "year": 2010},
    ),
    question(
        "ic12", "IC12 friends' replies in a class of tags",
        """match { $p: Person { number: $no }  $p <knows> $f  $f commented $c  $c onPost $post  $post hasTag $t
                   $t hasType $k  $k isSubclassOf{0,} $base  $base.number = $class }
        return { $f.number as no, $f.first as first, count(distinct $t) as tags, count(distinct $c) as replies }
        order { replies desc, no } limit 20""",
        """MATCH (base:TagClass {number: $class})<-[:IsSubclassOf*0..10]-(k:TagClass)<-[:HasType]-(t:Tag)
        MATCH (:Person {number: $no})-[:Knows]-(f:Person)-[:Commented]->(c:Comment)-[:OnPost]->(post:Post)-[:HasTag]->(t)
        RETURN f.number AS no, f.first, count(DISTINCT t.number), count(DISTINCT c.number) AS replies
        ORDER BY replies DESC, no LIMIT 20""",
        {**PERSON, "class": 1},
    ),
    question(
        "ic13", "IC13 the length of the shortest way",
        """match { $x: Person { number: $no }  $y: Person { number: $other }
                   optional { $x $p:<knows>{0,} $y } }
        return { coalesce(length($p), -1) as steps }""",
        """MATCH (x:Person {number: $no})-[p:Knows* SHORTEST 1..30]-(y:Person {number: $other})
        RETURN length(p)""",
        {**PERSON, "other": 140},
    ),
    question(
        "ic14", "IC14 the cheapest way",
        """match { $x: Person { number: $no }  $y: Person { number: $other }  $x $p:<knows> by weight $y }
        return { cost($p) as cost }""",
        """MATCH (x:Person {number: $no})-[p:Knows* WSHORTEST(weight) 1..30]-(y:Person {number: $other})
        RETURN cost(p)""",
        {**PERSON, "other": 140},
    ),
)  # fmt: skip
NEW = {"new": 0}
AT = {**NEW, "at": MIDDLE}
INSERTS = (
    question(
        "iu1", "IU1 a person",
        """insert $p: Person { number: $new, first: "Zoe", last: "New", birthday: date("1990-01-01"), joined: $at }
        insert LivesIn { from: $p, to: 1 } insert HasInterest { from: $p, to: 2 } insert HasInterest { from: $p, to: 3 }
        insert StudyAt { from: $p, to: 4, year: 2001 } insert WorkAt { from: $p, to: 5, year: 2005 }""",
        """MATCH (c:City {number: 1}), (t:Tag {number: 2}), (o:Tag {number: 3}), (u:University {number: 4}),
          (w:Company {number: 5})
        CREATE (p:Person {number: $new, first: "Zoe", last: "New", birthday: date("1990-01-01"), joined: $at}),
          (p)-[:LivesIn]->(c), (p)-[:HasInterest]->(t), (p)-[:HasInterest]->(o),
          (p)-[:StudyAt {year: 2001}]->(u), (p)-[:WorkAt {year: 2005}]->(w)""",
        AT,
    ),
    question(
        "iu2", "IU2 a like of a post",
        """match { $p: Person { number: 20 }  $m: Post { number: $new % 1000 } } insert Likes { from: $p, to: $m, at: $at }""",
        """MATCH (p:Person {number: 20}), (m:Post {number: $new % 1000}) CREATE (p)-[:Likes {at: $at}]->(m)""",
        AT,
    ),
    question(
        "iu3", "IU3 a like of a comment",
        """match { $p: Person { number: 20 }  $m: Comment { number: $new % 1000 } }
        insert LikesComment { from: $p, to: $m, at: $at }""",
        """MATCH (p:Person {number: 20}), (m:Comment {number: $new % 1000}) CREATE (p)-[:LikesComment {at: $at}]->(m)""",
        AT,
    ),
    question(
        "iu4", "IU4 a forum",
        """insert $f: Forum { number: $new, name: "new" } insert HasModerator { from: $f, to: 20 }""",
        """MATCH (p:Person {number: 20}) CREATE (f:Forum {number: $new, name: "new"}), (f)-[:HasModerator]->(p)""",
        NEW,
    ),
    question(
        "iu5", "IU5 a member of a forum",
        """match { $f: Forum { number: $new % 1000 }  $p: Person { number: 20 } }
        insert HasMember { from: $f, to: $p, since: $at }""",
        """MATCH (f:Forum {number: $new % 1000}), (p:Person {number: 20}) CREATE (f)-[:HasMember {since: $at}]->(p)""",
        AT,
    ),
    question(
        "iu6", "IU6 a post",
        """insert $m: Post { number: $new, content: "new", at: $at } insert Wrote { from: 20, to: $m }
        insert ContainerOf { from: 7, to: $m } insert MadeIn { from: $m, to: 3 } insert HasTag { from: $m, to: 2 }""",
        """MATCH (p:Person {number: 20}), (f:Forum {number: 7}), (c:Country {number: 3}), (t:Tag {number: 2})
        CREATE (m:Post {number: $new, content: "new", at: $at}), (p)-[:Wrote]->(m), (f)-[:ContainerOf]->(m),
          (m)-[:MadeIn]->(c), (m)-[:HasTag]->(t)""",
        AT,
    ),
    question(
        "iu7", "IU7 a comment",
        """insert $c: Comment { number: $new, content: "new", at: $at } insert Commented { from: 20, to: $c }
        insert OnPost { from: $c, to: 7 }""",
        """MATCH (p:Person {number: 20}), (m:Post {number: 7})
        CREATE (c:Comment {number: $new, content: "new", at: $at}), (p)-[:Commented]->(c), (c)-[:OnPost]->(m)""",
        AT,
    ),
    question(
        "iu8", "IU8 a friendship",
        """match { $a: Person { number: 20 }  $b: Person { number: $new % 100 } }
        insert Knows { from: $a, to: $b, since: $at, weight: 1.5 }""",
        """MATCH (a:Person {number: 20}), (b:Person {number: $new % 100})
        CREATE (a)-[:Knows {since: $at, weight: 1.5}]->(b)""",
        AT,
    ),
)  # fmt: skip


def measured(persons: int) -> tuple[dict[str, Score], dict[str, dict[str, float]]]:
    """One size: reads of both engines in turns, then the inserts."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_dataset(place, *tables(network(persons)))
        contest = Contest(place, (*SHORT, *COMPLEX), {}, (OURS, KUZU))
        scores = contest.run(cold=False)
        return scores, inserts(place, list(scores))


def inserts(place: Path, engines: Sequence[str]) -> dict[str, dict[str, float]]:
    """The median seconds of every insert, by engine."""
    found: dict[str, dict[str, float]] = {}
    for name in engines:
        with Player(name, place, place / f"{name}.db", peers_directory()) as player:
            player.order("open")
            found[name] = {}
            for number, one in enumerate(INSERTS):
                try:
                    found[name][one.name] = _median(player, one, 10_000_000 * (number + 1))
                except Failed as fault:
                    note(f"{one.name}: {fault}")
    return found


def _median(player: Player, one: Question, first: int) -> float:
    taken = [
        player.write(replace(one, params={**one.params, "new": first + at}))
        for at in range(WRITES + 3)
    ]
    return statistics.median(taken[3:])


def shown(size: str, scores: dict[str, Score], writes: dict[str, dict[str, float]]) -> None:
    """The tables and verdicts of one size."""
    print(f"\n{size}: {SIZES[size]:,} persons; ratio = omnigraph / Kùzu")
    table("warm medians, ms", scores, (*SHORT, *COMPLEX), "warm")
    totals(scores)
    print(f"\n{'inserts, medians, ms':46}" + "".join(f"{name:>12}" for name in writes))
    for one in INSERTS:
        cells = [
            f"{found[one.name] * 1000:12.2f}" if one.name in found else f"{'-':>12}"
            for found in writes.values()
        ]
        print(f"{one.title:46}" + "".join(cells))
    print()
    for one in (*SHORT[1:], *COMPLEX):
        print(verdict(scores, one))
    point = scores[OURS].warm["point"]
    for one in SHORT[1:]:
        print(f"{one.title:46}{scores[OURS].warm[one.name] / point:9.2f} x a plain read (bar 1.3)")


def main() -> None:
    """Both sizes, or the one that was asked for."""
    parser = argparse.ArgumentParser(prog="./dev bench snb")
    for name, persons in SIZES.items():
        parser.add_argument(f"--{name}", action="store_true", help=f"only {persons:,} persons")
    parser.add_argument("--json", action="store_true", help="everything measured as JSON")
    chosen = parser.parse_args()
    sizes = [name for name in SIZES if getattr(chosen, name)] or ["small", "large"]
    told = {}
    for size in sizes:
        scores, writes = measured(SIZES[size])
        told[size] = {**json.loads(as_json(scores)), "inserts": writes}
        if not chosen.json:
            shown(size, scores, writes)
    if chosen.json:
        print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()

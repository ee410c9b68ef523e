"""LDBC's subgraph queries (LSQB) on a network of its shape: omnigraph, Kùzu, Ladybug and DuckDB.

    ./dev bench lsqb [--small | --large] [--json] [--engines NAME,...]

Two sizes are measured, of about 1.3 and 7.4 million edges; `--small` and `--large` take one of them. Every
count is compared with one worked out in NumPy. Persons know each other in both directions, in all engines.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.contest.dataset import write_dataset
from benchmarks.contest.engines import Question, Row
from benchmarks.contest.referee import Contest, Score, as_json, table, totals, verdict
from benchmarks.contest.snb import COUNTRIES, TAGS, Ints, Network, frames, network

ENGINES = ("omnigraph", "kuzu", "ladybug", "duckdb")
SIZES = {"small": 1_650, "large": 9_200}


def matrix(pairs: Ints, shape: tuple[int, int]) -> sparse.csr_array:
    """Pairs as a matrix of ones."""
    return sparse.csr_array((np.ones(pairs.shape[1], np.int64), (pairs[0], pairs[1])), shape=shape)


def answers(net: Network) -> dict[str, list[Row]]:
    """Every count with sums and products of the adjacency matrices."""
    persons, messages = net.persons, net.messages
    edges = net.edges
    tags_of = matrix(edges["HasTag"], (messages, TAGS))
    tags = np.bincount(edges["HasTag"][0], minlength=messages)
    likes = np.bincount(edges["Likes"][1], minlength=messages)
    replies = np.bincount(edges["ReplyOf"][1], minlength=messages)
    creator = edges["HasCreator"][1]
    knows = matrix(edges["Knows"], (persons, persons))
    degree = np.bincount(edges["Knows"][0], minlength=persons)
    interests = np.bincount(edges["HasInterest"][0], minlength=persons)
    country = edges["PartOf"][1][edges["LivesIn"][1]]

    below, post = edges["ReplyOfPost"]
    of_post = np.bincount(post, tags[below], messages).astype(np.int64)
    forum, contained = edges["ContainerOf"]
    of_forum = np.bincount(forum, of_post[contained], net.forums).astype(np.int64)
    members = np.bincount(edges["HasMember"][0], minlength=net.forums)

    home = matrix(np.stack([np.arange(persons), country]), (persons, COUNTRIES))
    near = knows.multiply(home @ home.T).tocsr()
    comment, message = edges["ReplyOf"]
    shared = np.asarray(tags_of[comment].multiply(tags_of[message]).sum(axis=1)).ravel()
    friends, into = edges["Knows"]
    paths = (degree[friends] - 1) * interests[into]
    closed = np.asarray((knows @ knows).multiply(knows).sum(axis=0)).ravel()
    counts = {
        "q1": (of_forum * members).sum(),
        "q2": np.asarray(knows[creator[below], creator[post]]).sum(),
        "q3": (near @ near).multiply(near).sum(),
        "q4": (tags * likes * replies).sum(),
        "q5": (tags[message] * tags[comment] - shared).sum(),
        "q6": paths.sum(),
        "q7": (tags * np.maximum(likes, 1) * np.maximum(replies, 1)).sum(),
        "q8": ((tags[message] - shared) * tags[comment]).sum(),
        "q9": paths.sum() - (closed * interests).sum(),
    }
    return {name: [[int(count)]] for name, count in counts.items()}


QUESTIONS = (
    Question(
        "q1",
        "1 a path of nine variables",
        """query q() { match { $p livesIn $city  $city partOf $country  $f hasMember $p
           $f containerOf $post  $c replyOfPost $post  $c hasTag $t  $t hasType $k }
           return { count($p) as n } }""",
        """MATCH (:Country)<-[:PartOf]-(:City)<-[:LivesIn]-(:Person)<-[:HasMember]-(:Forum)
           -[:ContainerOf]->(:Message)<-[:ReplyOfPost]-(:Message)-[:HasTag]->(:Tag)
           -[:HasType]->(:TagClass) RETURN count(*)""",
        """SELECT count(*) FROM PartOf JOIN LivesIn ON LivesIn.dst = PartOf.src
           JOIN HasMember ON HasMember.dst = LivesIn.src
           JOIN ContainerOf ON ContainerOf.src = HasMember.src
           JOIN ReplyOfPost ON ReplyOfPost.dst = ContainerOf.dst
           JOIN HasTag ON HasTag.src = ReplyOfPost.src JOIN HasType ON HasType.src = HasTag.dst""",
    ),
    Question(
        "q2",
        "2 answers to posts of friends (a cycle)",
        """query q() { match { $a knows $b  $c hasCreator $a  $c replyOfPost $p  $p hasCreator $b }
           return { count($a) as n } }""",
        """MATCH (a:Person)-[:Knows]->(b:Person), (a)<-[:HasCreator]-(c:Message)
           -[:ReplyOfPost]->(p:Message)-[:HasCreator]->(b) RETURN count(*)""",
        """SELECT count(*) FROM Knows JOIN HasCreator c ON c.dst = Knows.src
           JOIN ReplyOfPost r ON r.src = c.src
           JOIN HasCreator p ON p.src = r.dst AND p.dst = Knows.dst""",
    ),
    Question(
        "q3",
        "3 triangles within a country",
        """query q() { match { $a knows $b  $b knows $c  $c knows $a  $a livesIn $x  $x partOf $k
           $b livesIn $y  $y partOf $k  $c livesIn $z  $z partOf $k } return { count($a) as n } }""",
        """MATCH (k:Country) MATCH (a:Person)-[:LivesIn]->(:City)-[:PartOf]->(k)
           MATCH (b:Person)-[:LivesIn]->(:City)-[:PartOf]->(k)
           MATCH (c:Person)-[:LivesIn]->(:City)-[:PartOf]->(k)
           MATCH (a)-[:Knows]->(b)-[:Knows]->(c)-[:Knows]->(a) RETURN count(*)""",
        """WITH home AS (SELECT l.src AS person, p.dst AS country
           FROM LivesIn l JOIN PartOf p ON p.src = l.dst)
           SELECT count(*) FROM Knows x JOIN Knows y ON y.src = x.dst
           JOIN Knows z ON z.src = y.dst AND z.dst = x.src JOIN home a ON a.person = x.src
           JOIN home b ON b.person = y.src AND b.country = a.country
           JOIN home c ON c.person = z.src AND c.country = a.country""",
    ),
    Question(
        "q4",
        "4 tags, author, likes and answers of messages",
        """query q() { match { $m hasTag $t  $m hasCreator $c  $l: Person  $l likes $m
           $r: Message  $r replyOf $m } return { count($m) as n } }""",
        """MATCH (:Tag)<-[:HasTag]-(m:Message)-[:HasCreator]->(:Person),
           (m)<-[:Likes]-(:Person), (m)<-[:ReplyOf]-(:Message) RETURN count(*)""",
        """SELECT count(*) FROM HasTag JOIN HasCreator ON HasCreator.src = HasTag.src
           JOIN Likes ON Likes.dst = HasTag.src JOIN ReplyOf ON ReplyOf.dst = HasTag.src""",
    ),
    Question(
        "q5",
        "5 different tags of a message and its answers",
        """query q() { match { $m hasTag $s  $r: Message  $r replyOf $m  $r hasTag $t
           $s.number != $t.number } return { count($m) as n } }""",
        """MATCH (s:Tag)<-[:HasTag]-(:Message)<-[:ReplyOf]-(:Message)-[:HasTag]->(t:Tag)
           WHERE s.number <> t.number RETURN count(*)""",
        """SELECT count(*) FROM HasTag s JOIN ReplyOf r ON r.dst = s.src
           JOIN HasTag t ON t.src = r.src WHERE s.dst <> t.dst""",
    ),
    Question(
        "q6",
        "6 interests of friends of friends",
        """query q() { match { $a knows $b  $b knows $c  $c hasInterest $t  $a.number != $c.number }
           return { count($a) as n } }""",
        """MATCH (a:Person)-[:Knows]->(:Person)-[:Knows]->(c:Person)-[:HasInterest]->(:Tag)
           WHERE a.number <> c.number RETURN count(*)""",
        """SELECT count(*) FROM Knows x JOIN Knows y ON y.src = x.dst
           JOIN HasInterest i ON i.src = y.dst WHERE x.src <> y.dst""",
    ),
    Question(
        "q7",
        "7 as 4, likes and answers optional",
        """query q() { match { $m hasTag $t  $m hasCreator $c  optional { $l: Person  $l likes $m }
           optional { $r: Message  $r replyOf $m } } return { count($m) as n } }""",
        """MATCH (:Tag)<-[:HasTag]-(m:Message)-[:HasCreator]->(:Person)
           OPTIONAL MATCH (m)<-[:Likes]-(l:Person) OPTIONAL MATCH (m)<-[:ReplyOf]-(r:Message)
           RETURN count(*)""",
        """SELECT count(*) FROM HasTag JOIN HasCreator ON HasCreator.src = HasTag.src
           LEFT JOIN Likes ON Likes.dst = HasTag.src
           LEFT JOIN ReplyOf ON ReplyOf.dst = HasTag.src""",
    ),
    Question(
        "q8",
        "8 tags of a message that its answer lacks",
        """query q() { match { $m hasTag $s  $r: Message  $r replyOf $m  $r hasTag $t
           not { $r hasTag $s }  $s.number != $t.number } return { count($m) as n } }""",
        """MATCH (s:Tag)<-[:HasTag]-(:Message)<-[:ReplyOf]-(r:Message)-[:HasTag]->(t:Tag)
           WHERE NOT EXISTS { MATCH (r)-[:HasTag]->(s) } AND s.number <> t.number
           RETURN count(*)""",
        """SELECT count(*) FROM HasTag s JOIN ReplyOf r ON r.dst = s.src
           JOIN HasTag t ON t.src = r.src ANTI JOIN HasTag n ON n.src = r.src AND n.dst = s.dst
           WHERE s.dst <> t.dst""",
    ),
    Question(
        "q9",
        "9 as 6, of friends of friends who are no friends",
        """query q() { match { $a knows $b  $b knows $c  $c hasInterest $t  not { $a knows $c }
           $a.number != $c.number } return { count($a) as n } }""",
        """MATCH (a:Person)-[:Knows]->(:Person)-[:Knows]->(c:Person)-[:HasInterest]->(:Tag)
           WHERE NOT EXISTS { MATCH (a)-[:Knows]->(c) } AND a.number <> c.number
           RETURN count(*)""",
        """SELECT count(*) FROM Knows x JOIN Knows y ON y.src = x.dst
           JOIN HasInterest i ON i.src = y.dst ANTI JOIN Knows n ON n.src = x.src AND n.dst = y.dst
           WHERE x.src <> y.dst""",
    ),
)


def measured(persons: int, engines: list[str]) -> tuple[Network, dict[str, Score]]:
    """One size: make the network, load it everywhere, ask in turns."""
    net = network(persons)
    with tempfile.TemporaryDirectory() as name:
        write_dataset(Path(name), *frames(net))
        contest = Contest(Path(name), QUESTIONS, answers(net), engines)
        return net, contest.run(cold=False)


def main() -> None:
    """Both sizes, or the one that was asked for."""
    parser = argparse.ArgumentParser(prog="./dev bench lsqb")
    parser.add_argument("--small", action="store_true", help="only about 1.3 million edges")
    parser.add_argument("--large", action="store_true", help="only about 7.4 million edges")
    parser.add_argument("--json", action="store_true", help="everything measured as JSON")
    parser.add_argument("--engines", default=",".join(ENGINES), help="names, with commas")
    chosen = parser.parse_args()
    sizes = [name for name in SIZES if getattr(chosen, name)] or list(SIZES)
    shown = {}
    for size in sizes:
        net, scores = measured(SIZES[size], chosen.engines.split(","))
        shown[size] = json.loads(as_json(scores))
        if chosen.json:
            continue
        count = sum(pairs.shape[1] for pairs in net.edges.values())
        print(
            f"\n{size}: {net.persons:,} persons, {net.messages:,} messages, {count:,} edges; ",
            end="",
        )
        print("ratio = omnigraph / fastest peer")
        table("warm medians, ms", scores, QUESTIONS, "warm")
        table("warm, the fastest run, ms", scores, QUESTIONS, "best")
        totals(scores)
        print()
        for question in QUESTIONS:
            print(verdict(scores, question))
    if chosen.json:
        print(json.dumps(shown, indent=2))


if __name__ == "__main__":
    main()

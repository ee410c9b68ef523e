"""The network of ``snb`` with what LDBC's interactive workload asks for besides: names, dates, weights, studies, work.

Posts and comments are two node types, so an edge type at a message exists once for each of them. A friendship is
stored once. Times are milliseconds since 1970.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.contest.snb import CITIES, CLASSES, COUNTRIES, TAGS, Ints, Network

COMPANIES, UNIVERSITIES = 300, 200
FIRST = ("Ada", "Ben", "Eva", "Ida", "Jan", "Kai", "Lea", "Max", "Noa", "Uma")
DAY_MS = 86_400_000
START, DAYS = date(2010, 1, 1).toordinal() - date(1970, 1, 1).toordinal(), 1_000
Nodes = dict[str, pa.Table]
Edges = dict[str, tuple[str, str, pa.Table]]


def tables(net: Network, seed: int = 11) -> tuple[Nodes, Edges]:
    """All node and edge types as tables."""
    random = np.random.default_rng(seed)
    comments = net.messages - net.posts
    posted = _times(random, net.posts)
    # An answer comes after what it answers.
    written = np.concatenate([posted, np.zeros(comments, np.int64)])
    for comment, parent in net.edges["ReplyOf"].T.tolist():
        written[comment] = written[parent] + 60_000 + comment % 86_400_000
    return _nodes(random, net, written), _edges(random, net, written)


def _nodes(random: np.random.Generator, net: Network, written: Ints) -> Nodes:
    persons, posts = net.persons, net.posts
    comments = net.messages - posts
    named = {
        "Tag": TAGS,
        "TagClass": CLASSES,
        "City": CITIES,
        "Country": COUNTRIES,
        "University": UNIVERSITIES,
        "Company": COMPANIES,
        "Forum": net.forums,
    }
    born = random.integers(-5_000, 12_000, persons).astype(np.int32)
    return {
        "Person": pa.table(
            {
                "number": np.arange(persons),
                "first": pa.array(FIRST).take(pa.array(random.integers(0, len(FIRST), persons))),
                "last": [f"name {number % 997:03}" for number in range(persons)],
                "birthday": pa.array(born, pa.date32()),
                "joined": _times(random, persons),
            }
        ),
        "Post": pa.table(
            {
                "number": np.arange(posts),
                "content": [f"post {number}" for number in range(posts)],
                "at": written[:posts],
            }
        ),
        "Comment": pa.table(
            {
                "number": np.arange(comments),
                "content": [f"comment {number}" for number in range(comments)],
                "at": written[posts:],
            }
        ),
        **{
            name: pa.table(
                {
                    "number": np.arange(size),
                    "name": [f"{name.lower()} {number:05}" for number in range(size)],
                }
            )
            for name, size in named.items()
        },
    }


def _edges(random: np.random.Generator, net: Network, written: Ints) -> Edges:
    persons, posts = net.persons, net.posts
    found = net.edges
    creator = found["HasCreator"][1]
    comment, parent = found["ReplyOf"]
    to_post = parent < posts
    knows = found["Knows"][:, found["Knows"][0] < found["Knows"][1]]
    tagged = found["HasTag"][:, found["HasTag"][0] < posts]
    liked = found["Likes"][:, found["Likes"][1] < posts]
    liked_comment = found["Likes"][:, found["Likes"][1] >= posts]
    classes = np.arange(1, CLASSES)
    home = found["PartOf"][1][found["LivesIn"][1]]
    # Most write from where they live.
    abroad = random.random(posts) < 0.3
    made = np.where(abroad, random.integers(0, COUNTRIES, posts), home[creator[:posts]])
    study, work = np.flatnonzero(random.random(persons) < 0.8), np.arange(persons)
    forums = np.arange(net.forums)
    joined = found["HasMember"]
    # Whole parts of a quarter, so that sums are the same in any order.
    weight = np.asarray(random.integers(1, 40, knows.shape[1]), np.float64) / 4

    def ends(one: Ints, two: Ints, **more: npt.NDArray[Any]) -> pa.Table:
        return pa.table({"src": one, "dst": two, **more})

    return {
        "Knows": ("Person", "Person", ends(*knows, since=_times(random, knows.shape[1]), weight=weight)),
        "Wrote": ("Person", "Post", ends(creator[:posts], np.arange(posts))),
        "Commented": ("Person", "Comment", ends(creator[posts:], np.arange(len(comment)))),
        "OnPost": ("Comment", "Post", ends(comment[to_post] - posts, parent[to_post])),
        "OnComment": ("Comment", "Comment", ends(comment[~to_post] - posts, parent[~to_post] - posts)),
        "ContainerOf": ("Forum", "Post", ends(*found["ContainerOf"])),
        "HasMember": ("Forum", "Person", ends(*joined, since=_times(random, joined.shape[1]))),
        "HasModerator": ("Forum", "Person", ends(forums, random.integers(0, persons, net.forums))),
        "HasTag": ("Post", "Tag", ends(*tagged)),
        "HasInterest": ("Person", "Tag", ends(*found["HasInterest"])),
        "Likes": ("Person", "Post", ends(*liked, at=_after(random, written[liked[1]]))),
        "LikesComment": ("Person", "Comment", ends(
            liked_comment[0], liked_comment[1] - posts, at=_after(random, written[liked_comment[1]]))),
        "LivesIn": ("Person", "City", ends(*found["LivesIn"])),
        "MadeIn": ("Post", "Country", ends(np.arange(posts), made)),
        "IsPartOf": ("City", "Country", ends(*found["PartOf"])),
        "StudyAt": ("Person", "University", ends(
            study, random.integers(0, UNIVERSITIES, len(study)), year=_years(random, len(study)))),
        "WorkAt": ("Person", "Company", ends(
            work, random.integers(0, COMPANIES, persons), year=_years(random, persons))),
        "BasedIn": ("Company", "Country", ends(
            np.arange(COMPANIES), random.integers(0, COUNTRIES, COMPANIES))),
        "HasType": ("Tag", "TagClass", ends(*found["HasType"])),
        "IsSubclassOf": ("TagClass", "TagClass", ends(classes, (classes - 1) // 3)),
    }  # fmt: skip


def _times(random: np.random.Generator, count: int) -> Ints:
    """Different times, as far as that goes, so that the newest are the same everywhere."""
    return START * DAY_MS + random.integers(0, DAYS * DAY_MS, count)


def _after(random: np.random.Generator, times: Ints) -> Ints:
    return times + random.integers(60_000, 20 * DAY_MS, len(times))


def _years(random: np.random.Generator, count: int) -> Ints:
    return random.integers(1990, 2013, count)

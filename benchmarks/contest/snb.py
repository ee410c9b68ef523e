"""A network of persons, forums, messages and tags with the shape of LDBC's social network benchmark.

Who knows whom depends on where people live and what they like; a few know many. The busy write more, the
answers to a message come mostly from friends of its author, and its tags are those of its forum or of what
it answers. A node is its position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
COUNTRIES, CITIES, TAGS, CLASSES = 60, 800, 4_000, 71


@dataclass(frozen=True)
class Network:
    """The edges of every type, as two rows of ends; `knows` is stored in both directions."""

    persons: int
    forums: int
    posts: int
    messages: int
    edges: dict[str, Ints]


def network(persons: int, seed: int = 5) -> Network:
    """Everything else grows with the number of persons."""
    random = np.random.default_rng(seed)
    country_of_city = np.concatenate(
        [np.arange(COUNTRIES), _skewed(random, CITIES - COUNTRIES, COUNTRIES, 0.8)]
    )
    city = _skewed(random, persons, CITIES, 0.6)
    knows = _knows(random, persons, country_of_city[city])
    friends = _Near(knows, persons)
    class_of_tag = np.concatenate([np.arange(CLASSES), _skewed(random, TAGS - CLASSES, CLASSES, 1)])
    interest = _pairs(
        np.repeat(np.arange(persons), random.geometric(1 / 22, persons)),
        lambda count: _skewed(random, count, TAGS, 0.7),
        TAGS,
    )
    # Forums: a moderator, friends of it, and anybody.
    forums = persons * 8
    moderator = friends.busy(random, forums)
    size = np.minimum(random.pareto(1.1, forums) * 3 + 2, persons // 4).astype(np.int64)
    forum = np.repeat(np.arange(forums), size)
    member = np.where(
        random.random(len(forum)) < 0.6,
        friends.one(random, moderator[forum]),
        random.integers(0, persons, len(forum)),
    )
    members = _distinct(forum, member, persons)
    topic = _skewed(random, forums, TAGS, 0.7)
    # Posts: in a forum, by one of its members.
    posts = persons * 80
    joined = _Near(members, forums)
    post_forum = np.sort(forums - 1 - _skewed(random, posts, forums, 0.5))
    author = joined.one(random, post_forum)
    author = np.where(author < 0, moderator[post_forum], author)
    # Comments: half of them answer a post, the others a comment that is already there.
    comments = persons * 90
    messages = posts + comments
    to_post = random.random(comments) < 0.5
    to_post[0] = True
    earlier = posts + (random.random(comments) ** 0.7 * np.arange(comments)).astype(np.int64)
    parent = np.where(to_post, _skewed(random, comments, posts, 0.45), earlier)
    creator = np.concatenate([author, np.empty(comments, np.int64)])
    tag_of = np.concatenate([topic[post_forum], np.empty(comments, np.int64)])
    own = _skewed(random, comments, TAGS, 0.7)
    stranger = random.integers(0, persons, comments)
    is_friend, keeps = random.random(comments) < 0.7, random.random(comments) < 0.35
    # A comment may answer the one before it, so this goes one generation at a time.
    pending = np.arange(comments)
    known = np.zeros(messages, bool)
    known[:posts] = True
    while len(pending):
        ready = known[parent[pending]]
        now, pending = pending[ready], pending[~ready]
        above = parent[now]
        near = friends.one(random, creator[above])
        creator[posts + now] = np.where(is_friend[now] & (near >= 0), near, stranger[now])
        tag_of[posts + now] = np.where(keeps[now], tag_of[above], own[now])
        known[posts + now] = True
    tags = _tagged(random, tag_of, posts)
    # Likes: mostly by friends of the author.
    liked = _skewed(random, persons * 110, messages, 0.35)
    liked = random.permutation(messages)[liked]
    fan = friends.one(random, creator[liked])
    fan = np.where(
        (fan >= 0) & (random.random(len(liked)) < 0.8),
        fan,
        random.integers(0, persons, len(liked)),
    )
    comment = np.arange(posts, messages)
    return Network(
        persons,
        forums,
        posts,
        messages,
        {
            "Knows": knows,
            "LivesIn": np.stack([np.arange(persons), city]),
            "PartOf": np.stack([np.arange(CITIES), country_of_city]),
            "HasInterest": interest,
            "HasType": np.stack([np.arange(TAGS), class_of_tag]),
            "HasMember": members,
            "ContainerOf": np.stack([post_forum, np.arange(posts)]),
            "HasCreator": np.stack([np.arange(messages), creator]),
            "HasTag": tags,
            "Likes": _distinct(fan, liked, messages),
            "ReplyOf": np.stack([comment, parent]),
            "ReplyOfPost": np.stack([comment[to_post], parent[to_post]]),
        },
    )


ENDS = {
    "Knows": ("Person", "Person"),
    "LivesIn": ("Person", "City"),
    "PartOf": ("City", "Country"),
    "HasInterest": ("Person", "Tag"),
    "HasType": ("Tag", "TagClass"),
    "HasMember": ("Forum", "Person"),
    "ContainerOf": ("Forum", "Message"),
    "HasCreator": ("Message", "Person"),
    "HasTag": ("Message", "Tag"),
    "Likes": ("Person", "Message"),
    "ReplyOf": ("Message", "Message"),
    "ReplyOfPost": ("Message", "Message"),
}


def frames(net: Network) -> tuple[dict[str, pa.Table], dict[str, tuple[str, str, pa.Table]]]:
    """The graph as tables."""
    sizes = {
        "Country": COUNTRIES,
        "City": CITIES,
        "Person": net.persons,
        "Forum": net.forums,
        "Message": net.messages,
        "Tag": TAGS,
        "TagClass": CLASSES,
    }
    nodes = {name: pa.table({"number": np.arange(size)}) for name, size in sizes.items()}
    edges = {
        name: (*ENDS[name], pa.table({"src": pairs[0], "dst": pairs[1]}))
        for name, pairs in net.edges.items()
    }
    return nodes, edges


class _Near:
    """The right ends of pairs by their left ends."""

    def __init__(self, pairs: Ints, size: int) -> None:
        self.degrees = np.bincount(pairs[0], minlength=size)
        self.starts = np.cumsum(self.degrees) - self.degrees
        self.ends = pairs[1][np.argsort(pairs[0], kind="stable")]

    def one(self, random: np.random.Generator, of: Ints) -> Ints:
        """One of them for each, by chance; -1 where there is none."""
        places = self.starts[of] + (random.random(len(of)) * self.degrees[of]).astype(np.int64)
        chosen = self.ends[np.minimum(places, len(self.ends) - 1)]
        return np.where(self.degrees[of] > 0, chosen, -1)

    def busy(self, random: np.random.Generator, count: int) -> Ints:
        """Left ends, each as likely as it has right ones."""
        share = (self.degrees + 1) / (self.degrees + 1).sum()
        return random.choice(len(share), count, p=share)


def _skewed(random: np.random.Generator, count: int, size: int, power: float) -> Ints:
    """Positions whose weights fall like a power of the rank; a position is its rank."""
    weights = np.arange(1.0, size + 1) ** -power
    places = np.searchsorted(np.cumsum(weights) / weights.sum(), random.random(count))
    return np.minimum(places, size - 1)


def _knows(random: np.random.Generator, persons: int, country: Ints) -> Ints:
    """Mostly neighbours in the order of countries, some anywhere; degrees follow a power law."""
    order = np.lexsort((random.random(persons), country))
    place = np.empty(persons, np.int64)
    place[order] = np.arange(persons)
    degree = np.minimum(random.pareto(1.6, persons) * 6 + 3, persons // 8).astype(np.int64)
    one = np.repeat(np.arange(persons), degree)
    near = np.round(random.standard_cauchy(len(one)) * 12).astype(np.int64)
    two = order[(place[one] + near) % persons]
    anywhere = random.random(len(one)) < 0.25
    # Those who know many are known by more.
    two[anywhere] = random.choice(persons, int(anywhere.sum()), p=degree / degree.sum())
    low, high = np.minimum(one, two), np.maximum(one, two)
    pairs = _distinct(low[low != high], high[low != high], persons)
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    return both[:, np.lexsort((both[1], both[0]))]


def _tagged(random: np.random.Generator, tag_of: Ints, posts: int) -> Ints:
    """The tag of a message and some others; half of the posts have none."""
    messages = len(tag_of)
    count = random.geometric(0.55, messages)
    count[:posts] -= 1
    count[random.random(messages) < 0.2] = 0
    message = np.repeat(np.arange(messages), count)
    first = np.concatenate([[True], message[1:] != message[:-1]])
    tag = np.where(first, tag_of[message], _skewed(random, len(message), TAGS, 0.7))
    return _distinct(message, tag, TAGS)


def _pairs(left: Ints, draw: Any, size: int) -> Ints:
    return _distinct(left, draw(len(left)), size)


def _distinct(left: Ints, right: Ints, size: int) -> Ints:
    """Pairs without repeats, sorted, as two rows."""
    keys = np.unique(left * size + right)
    return np.stack([keys // size, keys % size])

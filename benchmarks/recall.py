"""Finding what was said: questions about made conversations, and how many of their answers each query finds.

    ./dev bench recall [--small]

A conversation is a chain of turns. Most things are told outright; some are asked for, and the answer comes with the next turn
or two, in a few words that repeat little of the question. Topics come up in many conversations. The questions put to the graph
say the same things in other words: half of their words are synonyms that no turn has, and vectors know synonyms but
are noisy. So words, meaning and neighbours each find a part, as in real conversations.

Twenty turns may be shown. `recall` is the share of the turns that answer a question among them, `hit` the share of questions
with at least one, `MRR` the mean of one over the place of the first. `--small` is a fifth.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import omnigraph as og

Vectors = npt.NDArray[np.float32]
Answer = list[str]

SHOWN, DIMENSION, TURNS = 20, 64, 40
SYNONYMS, TOPICS, WORDS_OF_A_TOPIC, COMMON = 2, 60, 10, 60
TOLD, ASKED_ABOUT = 0.65, 0.4
"""How much is told outright, and how much of what is said somebody asks for later."""
NAMES = ("ann", "bob", "cleo", "dan", "eva", "finn")

SCHEMA = f"""
node Turn {{ ref: String @key
  speaker: String
  at: DateTime
  text: String @index
  around: String @index
  vec: Vector({DIMENSION}) @index }}
edge Next: Turn -> Turn
"""
PARAMETERS = f"$t: String, $v: Vector({DIMENSION})"


def _query(rank: str, more: str = "", columns: str = "$x.ref as hit") -> str:
    match = f"match {{ $x: Turn {more} }}"
    return f"query q({PARAMETERS}) {{ {match} return {{ {columns} }} order {{ {rank} }} limit {SHOWN} }}"


WORDS, WINDOW, MEANING = "bm25($x.text, $t)", "bm25($x.around, $t)", "nearest($x.vec, $v)"
NEIGHBOURS = "optional { $b next $x }  optional { $x next $a }"
WITH_NEIGHBOURS = "$x.ref as hit, $a.ref as after, $b.ref as before"
TWICE = f"rrf({WORDS}, {WORDS}, {MEANING})"
"""An arm that is named twice counts twice."""
ALL = f"rrf({WORDS}, {WORDS}, {WINDOW}, {MEANING}, 10)"
WAYS: Mapping[str, str] = {
    "bm25": _query(WORDS),
    "nearest": _query(MEANING),
    "rrf of both": _query(f"rrf({WORDS}, {MEANING})"),
    "rrf of both and of the words around, k = 10": _query(ALL),
    "bm25, and the turns after and before": _query(WORDS, NEIGHBOURS, WITH_NEIGHBOURS),
    "rrf of both, and those turns": _query(TWICE, NEIGHBOURS, WITH_NEIGHBOURS),
    "rrf with the words around, and those turns": _query(ALL, NEIGHBOURS, WITH_NEIGHBOURS),
}


@dataclass(frozen=True)
class Asked:
    """A question: its words, its vector, and the turns that answer it."""

    words: str
    vector: Vectors
    evidence: frozenset[str]


class Talk:
    """Conversations and questions about them, the same for a seed."""

    def __init__(self, conversations: int, seed: int = 5) -> None:
        self._random = np.random.default_rng(seed)
        self._meanings: dict[str, Vectors] = {}
        self.turns: list[dict[str, Any]] = []
        self.asked: list[Asked] = []
        for number in range(conversations):
            self._conversation(number)

    def _conversation(self, number: int) -> None:
        random = self._random
        began = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
        pair = random.choice(NAMES, 2, replace=False)
        texts: list[str] = []
        while len(texts) < TURNS:
            topic = int(random.integers(0, TOPICS))
            words = [f"w{topic}x{at}" for at in random.choice(WORDS_OF_A_TOPIC, 5, replace=False)]
            first, answers = len(texts), 1
            if random.random() < TOLD:
                texts.append(self._said([*words[:3], *self._fillers(6)]))
            else:  # asked, and answered by the next turn or two
                first, answers = first + 1, int(random.integers(1, 3))
                texts.append(self._said([*words[:3], *self._fillers(6)]))
                texts += [self._said([words[3 + at], *self._fillers(3)]) for at in range(answers)]
            if random.random() < ASKED_ABOUT:
                other = [self._other_word(words[0]), *words[1:3], self._other_word(words[3])]
                evidence = frozenset(f"c{number:04d}t{first + at:03d}" for at in range(answers))
                asked = [*other, str(pair[first % 2])]
                self.asked.append(Asked(self._said(asked), self._vector(asked), evidence))
            texts += [self._said(self._fillers(5)) for _ in range(int(random.integers(0, 2)))]
        for at, text in enumerate(texts):
            self.turns.append(
                {
                    "ref": f"c{number:04d}t{at:03d}",
                    "speaker": str(pair[at % 2]),
                    "at": (began + timedelta(minutes=at)).isoformat(),
                    "text": f"{pair[at % 2]} {text}",
                    "around": " ".join(texts[max(0, at - 1) : at + 2]),
                    "vec": self._vector(text.split()).tolist(),
                }
            )

    def _fillers(self, count: int) -> list[str]:
        return [f"common{at}" for at in self._random.integers(0, COMMON, count)]

    def _other_word(self, word: str) -> str:
        return f"{word}s{self._random.integers(0, SYNONYMS)}"

    def _said(self, words: Sequence[str]) -> str:
        return " ".join(self._random.permutation(list(words)))

    def _vector(self, words: Sequence[str]) -> Vectors:
        """The meaning of words, of synonyms the same, with noise."""
        whole = np.zeros(DIMENSION)
        for word in words:
            root = word.partition("s")[0] if word.startswith("w") else word
            if root not in self._meanings:
                own = np.random.default_rng(list(root.encode()))
                self._meanings[root] = own.normal(size=DIMENSION).astype(np.float32)
            whole += self._meanings[root] * (0.3 if root.startswith("common") else 1.0)
        whole += self._random.normal(size=DIMENSION, scale=1.5)
        made: Vectors = (whole / np.linalg.norm(whole)).astype(np.float32)
        return made


class Textbook:
    """BM25 as it is written down, over all turns, to compare with."""

    def __init__(self, turns: Sequence[Mapping[str, Any]], k: float = 1.2, b: float = 0.75) -> None:
        self._refs = [turn["ref"] for turn in turns]
        counts = [Counter(turn["text"].split()) for turn in turns]
        lengths = np.array([sum(count.values()) for count in counts])
        norms = k * (1 - b + b * lengths / lengths.mean())
        self._scores: dict[str, list[tuple[int, float]]] = {}
        seen = Counter(word for count in counts for word in count)
        for at, count in enumerate(counts):
            for word, times in count.items():
                rare = math.log(1 + (len(turns) - seen[word] + 0.5) / (seen[word] + 0.5))
                score = rare * times * (k + 1) / (times + norms[at])
                self._scores.setdefault(word, []).append((at, score))

    def __call__(self, question: Asked) -> Answer:
        """The best turns."""
        totals: Counter[int] = Counter()
        for word in set(question.words.split()):
            for at, score in self._scores.get(word, ()):
                totals[at] += score  # type: ignore[assignment] # scores are fractions
        return [self._refs[at] for at, _ in totals.most_common(SHOWN)]


def loaded(place: Path, talk: Talk) -> og.Graph:
    """A graph of all turns, each joined with the next of its conversation."""
    graph = og.init(place, SCHEMA)
    edges = [
        {"edge": "Next", "from": one["ref"], "to": two["ref"]}
        for one, two in zip(talk.turns, talk.turns[1:], strict=False)
        if one["ref"][:5] == two["ref"][:5]
    ]
    graph.load([*({"type": "Turn", "data": turn} for turn in talk.turns), *edges])
    graph.optimize()
    return graph


def asking(graph: og.Graph, text: str) -> Callable[[Asked], Answer]:
    """Ask the graph; hits are followed by their neighbours, and no turn is shown twice."""

    def ask(question: Asked) -> Answer:
        params = {"t": question.words, "v": question.vector.tolist()}
        shown = [
            ref for row in graph.query(text, params) for ref in row.values() if ref is not None
        ]
        return list(dict.fromkeys(shown))[:SHOWN]

    return ask


def judged(
    ask: Callable[[Asked], Answer], questions: Sequence[Asked]
) -> tuple[float, float, float, float]:
    """Recall, hits, the mean of one over the first place, and the median milliseconds of a question."""
    recalls, firsts, times = [], [], []
    for question in questions:
        began = time.perf_counter()
        answer = ask(question)
        times.append((time.perf_counter() - began) * 1000)
        places = [at for at, ref in enumerate(answer, 1) if ref in question.evidence]
        recalls.append(len(places) / len(question.evidence))
        firsts.append(1 / places[0] if places else 0.0)
    hits = sum(first > 0 for first in firsts) / len(questions)
    return statistics.mean(recalls), hits, statistics.mean(firsts), statistics.median(times)


def main() -> None:
    """Make the conversations, ask in every way, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    talk = Talk(30 if parser.parse_args().small else 150)
    print(f"{len(talk.turns):,} turns, {len(talk.asked):,} questions, {SHOWN} turns shown")
    print(f"{'':44}{'recall':>8}{'hit':>8}{'MRR':>8}{'ms':>8}")
    with tempfile.TemporaryDirectory() as place, loaded(Path(place) / "talk", talk) as graph:
        ways = {"BM25 as in textbooks": Textbook(talk.turns)} | {
            name: asking(graph, text) for name, text in WAYS.items()
        }
        for name, ask in ways.items():
            recall, hit, first, ms = judged(ask, talk.asked)
            print(f"{name:44}{recall:8.3f}{hit:8.3f}{first:8.3f}{ms:8.1f}", flush=True)


if __name__ == "__main__":
    main()

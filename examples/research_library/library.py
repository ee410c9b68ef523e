"""A made-up library of any size, always the same for the same number, and an embedder without a network."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

TOPICS = {
    "tides": "tide moon harbour level current gauge coast estuary",
    "ice": "ice glacier melt core snow sheet polar temperature",
    "wind": "wind turbine gust wake blade offshore power storm",
    "fish": "cod herring stock catch spawning plankton trawl migration",
}
VERBS = ("Measuring", "Modelling", "Predicting", "Explaining", "Mapping")
NAMES = ("Ada", "Ines", "Bo", "Cy", "Dana", "Egil", "Fay", "Gus", "Hilde", "Ivo")


def library(papers: int = 60) -> Iterator[dict[str, Any]]:
    """Authors, topics and papers that mostly cite earlier ones of their topic."""
    chance = random.Random(papers)
    yield from ({"type": "Author", "data": {"name": name}} for name in NAMES)
    yield from ({"type": "Topic", "data": {"slug": topic}} for topic in TOPICS)
    for number in range(papers):
        yield from _paper(number, papers, chance)


def _paper(number: int, papers: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    topics = list(TOPICS)
    topic, slug = topics[number % len(topics)], f"w{number}"
    words = TOPICS[topic].split()
    chosen = chance.sample(words, 5)
    data = {
        "slug": slug,
        "title": f"{chance.choice(VERBS)} the {chosen[0]} by {chosen[1]}",
        "abstract": f"We study the {' and the '.join(chosen)} of the northern sea.",
        "year": 2015 + int(10 * math.sqrt(number / papers)),  # more of them every year
    }
    yield {"type": "Paper", "data": data}
    yield {"edge": "On", "from": slug, "to": topic}
    for name in chance.sample(NAMES, chance.choice((1, 2, 2, 3))):
        yield {"edge": "Wrote", "from": name, "to": slug}
    same = range(number % len(topics), number, len(topics))
    cited = set(chance.sample(same, min(2, len(same))))
    if number and chance.random() < 0.3:
        cited.add(chance.randrange(number))
    yield from ({"edge": "Cites", "from": slug, "to": f"w{other}"} for other in sorted(cited))


class Letters:
    """Vectors from runs of three letters: words that look alike are near, `modelled` and `modelling`.

    It needs no model and no network. For meaning, use a provider (docs: Vectors of texts).
    """

    model = "letters-1"

    def embed(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float64]:
        """Return a vector of length 1 for each text."""
        vectors = np.zeros((len(texts), dimension))
        for row, text in enumerate(texts):
            for word in text.lower().split():
                padded = f"^{word}$"
                for start in range(len(padded) - 2):
                    vectors[row, zlib.crc32(padded[start : start + 3].encode()) % dimension] += 1
        lengths: npt.NDArray[np.float64] = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / lengths

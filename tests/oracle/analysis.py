"""Text analysis, relevance and the mock embedding, from the specification and in plain Python.

The analyser is the default of Lance's inverted index, which stems first and folds last: `résumé`
and `resume` are different terms. It is exact for Latin text; other scripts are split where Python,
not Rust, sees an alphanumeric.
"""

from __future__ import annotations

import functools
import math
import struct
import unicodedata

import snowballstemmer  # type: ignore[import-untyped]

MAX_TERM_LENGTH = 40
K1, B = 1.2, 0.75

_STOP_WORDS = """
    a about above after again against all am an and any are as at be because been before being below
    between both but by can did do does doing down during each few for from further had has have
    having he her here hers herself him himself his how i if in into is it its itself just me more
    most my myself now of off on once only or other our ours ourselves out over own re same she
    should so some such than that the their theirs them themselves then there these they this those
    through to too under until up very was we were what when where which while who whom why will
    with you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

# Letters that Unicode does not decompose but ASCII folding spells out.
LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "þ": "th", "ı": "i"}
)

_stem = snowballstemmer.stemmer("english").stemWord


def analyse(text: str) -> list[str]:
    """The terms of a text, in order, repeats kept."""
    return [term for term in places(text) if term is not None]


def places(text: str) -> list[str | None]:
    """What stands at each place of a text: a term, or nothing for a stop word or one that is too long."""
    words = "".join(char if char.isalnum() else " " for char in text).split()
    return [_term(word) for word in words]


@functools.lru_cache(10_000)  # random texts have few words, and each of them often
def _term(word: str) -> str | None:
    if len(word) > MAX_TERM_LENGTH:
        return None
    stem = _stem(word.lower())
    return None if stem in STOP_WORDS else _fold(stem)


def shares_term_or_phrase(text: str, query: str) -> bool:
    """Whether a text holds some word of a question or some phrase between its double quotes."""
    pieces = query.split('"')
    if len(pieces) % 2 == 0:
        # The last quote has no partner: it only separates.
        pieces[-2:] = [" ".join(pieces[-2:])]
    words = {term for piece in pieces[::2] for term in analyse(piece)}
    return bool(words & set(analyse(text))) or any(
        _occurs(places(text), places(phrase)) for phrase in pieces[1::2]
    )


def _occurs(text: list[str | None], phrase: list[str | None]) -> bool:
    """Whether the terms of a phrase stand in a text at the same distances from each other."""
    wanted = [(at, term) for at, term in enumerate(phrase) if term is not None]
    if not wanted:
        return False
    padded = [*text, *[None] * len(phrase)]
    first = wanted[0][0]
    return any(
        all(padded[start + at - first] == term for at, term in wanted) for start in range(len(text))
    )


def _fold(term: str) -> str:
    decomposed = unicodedata.normalize("NFKD", term.translate(LETTERS))
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def within_edits(left: str, right: str, limit: int) -> bool:
    """Whether the Levenshtein distance of two terms is at most `limit`."""
    row = list(range(len(right) + 1))
    for at, char in enumerate(left, 1):
        previous, row = row, [at]
        for other_at, other in enumerate(right, 1):
            substituted = previous[other_at - 1] + (char != other)
            row.append(min(substituted, previous[other_at] + 1, row[-1] + 1))
    return row[-1] <= limit


def bm25_scores(texts: dict[str, str], query: str) -> dict[str, float]:
    """The relevance of every text that shares a term with the query, by the key of the text.

    A text without terms is no document; a term written twice in the query counts twice.
    """
    documents = {key: terms for key, text in texts.items() if (terms := analyse(text))}
    average = sum(map(len, documents.values())) / max(1, len(documents))
    scores: dict[str, float] = {}
    for term in analyse(query):
        holders = {key: terms for key, terms in documents.items() if term in terms}
        idf = math.log(1 + (len(documents) - len(holders) + 0.5) / (len(holders) + 0.5))
        for key, terms in holders.items():
            count = terms.count(term)
            norm = K1 * (1 - B + B * len(terms) / average)
            scores[key] = scores.get(key, 0.0) + idf * count * (K1 + 1) / (count + norm)
    return scores


def mock_embedding(text: str, dim: int) -> list[float]:
    """The deterministic vector of the mock provider: FNV-1a-64, xorshift, unit length."""
    mask = 2**64 - 1
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 & mask
    values = []
    for _ in range(dim):
        state ^= state << 13 & mask
        state ^= state >> 7
        state ^= state << 17 & mask
        values.append(round_f32(2 * (state / mask) - 1))
    length = math.sqrt(sum(value * value for value in values))
    return [round_f32(value / length) for value in values]


def round_f32(value: float) -> float:
    """The nearest float32; beyond its range, infinity."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)

"""Phrases in the text of a search: what stands between two double quotes.

The text `"state of the art" database` asks for the word `database` or for the phrase.

A phrase occurs where its terms stand in a text at the same distances from each other. Stop words and words that are
too long have no terms, and keep their places on both sides. An index knows no places: it gives the rows that have
all terms of a phrase, and their texts are looked at here.

    state _ _ art   in   "the state of any art"   ->   yes: two places between
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Mask
from omnigraph.storage.tables.indexing.full_text import analysed, placed

Places = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """The text between two quotes, and what stands at its places; there are terms at the first and the last."""

    text: str
    places: Places

    @property
    def terms(self) -> list[str]:
        """The terms, in order."""
        return [term for term in self.places if term is not None]


@dataclass(frozen=True, slots=True)
class SearchText:
    """The text of a search: words, one of which is enough, and phrases, one of which is enough."""

    words: str
    phrases: tuple[Phrase, ...] = ()


def search_text(query: str) -> SearchText:
    """Take the phrases out of the text of a search. A quote without a partner separates words."""
    pieces = query.split('"')
    if len(pieces) < 3:
        return SearchText(query)
    if len(pieces) % 2 == 0:
        pieces[-2:] = [" ".join(pieces[-2:])]
    words, phrases = pieces[::2], []
    for text in pieces[1::2]:
        places = _trimmed(placed(text))
        if len(places) == 1:
            words.append(text)
        elif places:
            phrases.append(Phrase(text, places))
    return SearchText(" ".join(words), tuple(phrases))


def _trimmed(places: Sequence[str | None]) -> Places:
    """The places from the first term to the last."""
    known = [at for at, term in enumerate(places) if term is not None]
    return tuple(places[known[0] : known[-1] + 1]) if known else ()


def texts_with_phrase(texts: pa.Array, phrase: Phrase, at_once: int) -> Mask:
    """In which texts a phrase occurs; ``at_once`` texts are looked at at a time."""
    parts = []
    for begin in range(0, len(texts), at_once):
        look()
        parts.append(_occurs(texts.slice(begin, at_once), phrase))
    return np.concatenate([np.zeros(0, np.bool_), *parts])


def _occurs(texts: pa.Array, phrase: Phrase) -> Mask:
    """In which texts a phrase occurs: the terms of all texts stand in one array, with the text of each.

    No term crosses white space, so each distinct word between it is analysed once.
    """
    lists = pc.utf8_split_whitespace(texts)
    words = lists.flatten().dictionary_encode()
    number = {term: at for at, term in enumerate(phrase.terms)}
    held = [_places_of(word) for word in words.dictionary.to_pylist()]
    counts = np.array([len(places) for places in held], np.int64)
    numbers = np.array(
        [-1 if term is None else number.get(term, -1) for places in held for term in places],
        np.int32,
    )
    word = words.indices.to_numpy()
    times = counts[word]
    ends = np.cumsum(times)
    within = np.arange(times.sum()) - np.repeat(ends - times, times)
    terms = numbers[np.repeat((np.cumsum(counts) - counts)[word], times) + within]
    rows = np.repeat(pc.list_parent_indices(lists).to_numpy(), times)
    found = np.zeros(len(texts), np.bool_)
    length = len(phrase.places)
    if len(terms) < length:
        return found
    starts = np.flatnonzero(rows[: len(rows) - length + 1] == rows[length - 1 :])
    for at, term in enumerate(phrase.places):
        if term is not None:
            starts = starts[terms[starts + at] == number[term]]
    found[rows[starts]] = True
    return found


def _places_of(word: str) -> list[str | None]:
    if word.isascii() and word.isalnum():
        return [next(iter(analysed(word)), None)]
    return placed(word)

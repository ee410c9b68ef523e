"""Rankings: `nearest`, `bm25`, and their fusion by reciprocal rank.

rrf(nearest(…), bm25(…)) with k = 60: a node that is 1st in one and 3rd in the other scores
1 / 61 + 1 / 63; a node that only one of them ranks gets that part alone
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.cancel import aside
from omnigraph.embeddings.embedder import Embedder
from omnigraph.embeddings.provider import embed_texts, require_embedder
from omnigraph.errors import BadRequest, ParamError, ProviderError
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.read.kernels.arrays import Codes, Counts, Floats
from omnigraph.read.search.nearest import nearest_nodes
from omnigraph.read.search.phrases import search_text
from omnigraph.read.search.scratch_index import COLUMN, with_scratch_index
from omnigraph.read.search.text_match import own_index, words_or_phrases
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.view import View
from omnigraph.storage.tables.indexing.full_text import analysed, text_hits
from omnigraph.storage.tables.indexing.index_health import IndexUnusable


@dataclass(frozen=True, slots=True)
class Ranked:
    """Entities best first, tied ones by id. ``places`` counts from 0 and is equal for tied ones."""

    codes: Codes
    scores: Floats
    places: Counts


def rank(
    view: View,
    node_type: NodeType,
    ranking: ir.Ranking,
    params: Mapping[str, Any],
    candidates: Codes | None,
    limit: int | None,
    embedder: Embedder | None,
    *,
    is_whole: bool = False,
) -> Ranked:
    """Rank the candidates (None: every node of the type) that the ranking does not leave out.

    With a limit the best ``limit`` come back, and everything tied with the last of them. A fusion is as deep as its
    arms, each of which brings ``limit`` entities: ``is_whole`` says that all it makes of them is wanted.
    """
    run = _Run(view, view.nodes(node_type.name), params, candidates, embedder)
    match ranking:
        case ir.Nearest():
            return run.nearest(ranking, limit)
        case ir.Bm25():
            return run.bm25(ranking, limit)
        case ir.Rrf():
            return run.fused(ranking, limit, is_whole)


@dataclass(frozen=True, slots=True)
class _Run:
    view: View
    space: NodeSpace
    params: Mapping[str, Any]
    candidates: Codes | None
    embedder: Embedder | None

    def nearest(self, ranking: ir.Nearest, limit: int | None) -> Ranked:
        query = ir.value_of(ranking.query, self.params)
        if isinstance(query, str):
            query = self._embedded(ranking, query)
        if query is None:
            return _nothing()
        name = ranking.field.property
        if ranking.metric == "cosine" and _is_zero(query):
            raise ProviderError(
                "the provider made a zero vector of the text, which has no direction to compare by"
            )
        codes, distances = nearest_nodes(
            self.view, self.space, name, query, self.candidates, limit, ranking.metric
        )
        return _ordered(codes, distances, distances, limit)

    def _embedded(self, ranking: ir.Nearest, text: str) -> npt.NDArray[np.float32]:
        place = f"{self.space.type.name}.{ranking.field.property}"
        embedder = require_embedder(self.embedder, f"nearest to a text on {place}")
        dimension = ranking.field.type.dim
        assert dimension is not None
        made = aside(
            lambda: embed_texts(embedder, [text], dimension, place, ranking.model, role="query"),
            minds_signals=True,
        )
        return made.reshape(dimension)

    def bm25(self, ranking: ir.Bm25, limit: int | None) -> Ranked:
        query = ir.value_of(ranking.query, self.params)
        if query is None or not analysed(query):
            return _nothing()
        codes, scores = self._relevant(ranking.field.property, query, limit)
        return _ordered(codes, scores, -scores, limit)

    def _relevant(self, name: str, query: str, limit: int | None) -> tuple[Codes, Floats]:
        if self.space.stored_name(name) is None or limit == 0:
            return np.empty(0, np.int32), np.empty(0, np.float64)
        chosen, candidates = None, self.candidates
        searched = search_text(query)
        if searched.phrases:
            # All terms make the score, as words do; a row may have terms of a phrase without the phrase.
            found = words_or_phrases(self.view, self.space, name, searched)
            candidates = found if candidates is None else np.intersect1d(found, candidates)
        if limit is not None and limit >= self.space.size:
            limit = None
        if candidates is not None:
            limit, chosen = None, np.zeros(self.space.size, np.bool_)
            chosen[candidates] = True
        wanted = None if limit is None else limit + self.view.thresholds.search.spare_hits
        while True:
            codes, scores = self._hits(name, query, wanted)
            complete = wanted is None or len(codes) < wanted
            # Beyond the last hit there may be more that are tied with it.
            if complete or limit is None or scores[limit - 1] > scores[-1]:
                break
            wanted = wanted * 8 if wanted is not None else None
        known = codes >= 0
        if chosen is not None:
            known &= chosen[codes]
        return codes[known], scores[known]

    def _hits(self, name: str, query: str, limit: int | None) -> tuple[Codes, Floats]:
        """Ordinals and scores, best first. Lance completes an index with the rows it lacks."""
        own = own_index(self.view, self.space, name, IndexKind.FTS)
        thresholds = self.view.thresholds.search
        if own is not None and own.tail_rows <= thresholds.unindexed_rows:
            with contextlib.suppress(IndexUnusable):
                rows, scores = text_hits(self.space.pinned.table, own.column, query, limit=limit)
                return self.space.ordinals_of_row_ids(rows), scores
        rows, scores = with_scratch_index(
            self.space,
            name,
            lambda table: text_hits(table, COLUMN, query, limit=limit),
            thresholds.scratch_bytes,
        )
        return rows.astype(np.int32), scores

    def fused(self, ranking: ir.Rrf, limit: int | None, is_whole: bool) -> Ranked:
        k = checked_k(ranking, self.params)
        arms = [self._arm(arm, limit) for arm in ranking.arms]
        codes = np.unique(np.concatenate(arms))
        places = [_places(arm, codes) for arm in arms]
        # The least part first: the same places in other arms make the same sum.
        scores = np.zeros(len(codes))
        for part in np.sort([1 / (k + place) for place in places], axis=0):
            scores += part
        # Ties keep the order of the first arm, then of the second, and so on; codes are in id order.
        order = np.lexsort((*reversed(places), -scores))[: None if is_whole else limit]
        return Ranked(codes[order], scores[order], np.arange(len(order)))

    def _arm(self, arm: ir.Nearest | ir.Bm25, limit: int | None) -> Codes:
        """What an arm contributes, best first: as many as are asked for, in every arm.

        With arms of unequal depth, whatever is in a shorter one would outrank what only a
        longer one has.
        """
        ranked = self.nearest(arm, limit) if isinstance(arm, ir.Nearest) else self.bm25(arm, limit)
        return ranked.codes[:limit]


def _places(arm: Codes, wanted: Codes) -> Floats:
    """The places, from 1, that entities have in an arm; infinite for those not in it."""
    places = np.full(len(wanted), np.inf)
    places[np.searchsorted(wanted, arm)] = np.arange(1, len(arm) + 1)
    return places


def check_ranking(ranking: ir.Ranking | None, params: Mapping[str, Any]) -> None:
    """Refuse parameters that no ranking can be made by, whatever the match is."""
    if isinstance(ranking, ir.Rrf):
        checked_k(ranking, params)
    for arm in ranking.arms if isinstance(ranking, ir.Rrf) else (ranking,):
        if isinstance(arm, ir.Nearest) and arm.metric == "cosine":
            _check_direction(arm.query, params)


def _check_direction(query: ir.Operand, params: Mapping[str, Any]) -> None:
    if not isinstance(query, ir.ParamRef):
        return
    vector = params[query.name]
    if vector is not None and not isinstance(vector, str) and _is_zero(vector):
        raise ParamError(
            f"parameter `{query.name}` of type {query.type.display} is a zero vector, which has no "
            "direction to compare by",
            param=query.name,
            type=query.type.display,
        )


def _is_zero(vector: Any) -> bool:
    """Whether a vector has no direction."""
    return not np.asarray(vector, np.float32).any()


def checked_k(ranking: ir.Rrf, params: Mapping[str, Any]) -> int:
    """The constant of a fusion, or the refusal of a parameter that is out of range."""
    k: int | None = ir.value_of(ranking.k, params)
    if k is None or k <= 0:
        shown = "null" if k is None else k
        raise BadRequest(
            f"runtime error: rrf needs a positive k and got {shown}; pass a whole number above 0",
            k=k,
        )
    return k


def _ordered(codes: Codes, scores: Floats, key: Floats, limit: int | None) -> Ranked:
    """By the key ascending, then by ordinal, which is the order of the ids; cut after the limit."""
    if limit is not None and len(codes) > limit > 0:
        best = key <= np.partition(key, limit - 1)[limit - 1]
        codes, scores, key = codes[best], scores[best], key[best]
    order = np.lexsort((codes, key))
    key = key[order]
    places = np.zeros(len(codes), np.int64)
    np.cumsum(key[1:] != key[:-1], out=places[1:])
    return Ranked(codes[order], scores[order], places)


def _nothing() -> Ranked:
    empty: npt.NDArray[np.int32] = np.empty(0, np.int32)
    return Ranked(empty, np.empty(0, np.float64), np.empty(0, np.int64))

"""Full-text search in Lance: the analyser, and the hits of an inverted index.

Without an inverted index Lance searches with another analyser, and its fuzzy search sees indexed
fragments only, so the caller must know what the index covers (``indexes.IndexState.tail``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.cancel import aside
from omnigraph.errors import StorageError
from omnigraph.storage.tables.indexing.index_health import IndexUnusable, blame, is_usable
from omnigraph.storage.tables.indexing.index_kinds import TEXT_ANALYSIS
from omnigraph.storage.tables.lance_import import lance, lance_module
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_errors import lance_errors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# By default Lance takes the first 50 terms within reach and silently ignores the others.
_ALL_TERMS = 2**31 - 1


# Words as a text has them, none left out.
_UNCHANGED: dict[str, Any] = {
    "base_tokenizer": TEXT_ANALYSIS["base_tokenizer"],
    "max_token_length": None,
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
}


class TooManyEdits(StorageError):
    """More edits were asked for than Lance's fuzzy search supports."""


def analysed(text: str) -> list[str]:
    """The terms of a text as the product's inverted indexes store them, repeats included."""
    return [token.text for token in lance().tokenize(text, **TEXT_ANALYSIS)]


def placed(text: str) -> list[str | None]:
    """What stands at each place of a text: a term, or None for a stop word or one that is too long."""
    words = [token.text for token in lance().tokenize(text, **_UNCHANGED)]
    # A word by itself has one term at most. In a text Lance counts places from the first term.
    return [next(iter(analysed(word)), None) for word in words]


def can_be_fuzzy(term: str) -> bool:
    """Whether Lance keeps the term whole in a fuzzy query, which it splits but does not stem."""
    return term.isalnum() and term == term.lower() and len(term.encode()) <= 40


def text_hits(
    table: Table,
    column: str,
    query: str,
    *,
    edits: int = 0,
    limit: int | None = None,
    indexed_only: bool = False,
    every_term: bool = False,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    """Row ids and scores of the rows that share a term with the query, or have all of them, best first.

    With ``edits`` the words of the query are terms, and a term within that many edits counts.
    ``IndexUnusable`` where the index cannot be searched; it is not used any more if that is its fault.
    """
    if not is_usable(table.ref, table.dataset, [column]):
        raise IndexUnusable(f"the text index on {column} of {table.ref} is damaged")
    try:
        queries = lance_module("query")
        operators = queries.FullTextOperator
        match = queries.MatchQuery(
            query,
            column,
            fuzziness=edits,
            max_expansions=_ALL_TERMS,
            operator=operators.AND if every_term else operators.OR,
        )
        return _hits(table, column, match, limit, indexed_only)
    except TooManyEdits:
        raise
    except StorageError as error:
        blame(table.ref, table.dataset, [column], error)
        raise IndexUnusable(str(error).removeprefix("runtime error: ")) from error


def _hits(
    table: Table, column: str, match: Any, limit: int | None, indexed_only: bool
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    options: dict[str, Any] = {"fast_search": True} if indexed_only else {}
    with lance_errors(f"searching {column} of {table.ref}"):
        try:
            scanner = table.dataset.scanner(
                columns=["_score"],
                with_row_id=True,
                full_text_query=match,
                limit=limit,
                **options,
            )
            rows = aside(scanner.to_table, minds_signals=True)
        except (OSError, ValueError, RuntimeError) as error:
            if "automaton exceeds" in str(error):
                raise TooManyEdits("terms that many edits away cannot be looked up") from error
            raise
    scores = rows.column("_score").to_numpy().astype("float64")
    return rows.column("_rowid").to_numpy(), scores

"""The two columns of a frame that hold the ids of an edge's ends."""

from __future__ import annotations

from omnigraph.errors import BadRequest


def check_ends(from_col: object, to_col: object) -> None:
    """Refuse names that are no texts, and one name for both."""
    for argument, column in (("from_col", from_col), ("to_col", to_col)):
        if not isinstance(column, str) or not column:
            raise BadRequest(
                f"{argument} is {column!r}; give the name of the column that holds the ids of that end"
            )
    if from_col == to_col:
        raise BadRequest(
            f"from_col and to_col both name the column `{from_col}`, so every edge would end where "
            "it begins; name two columns"
        )

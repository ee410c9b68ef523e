"""Rows that rules have looked at are the rows that are written, also of a frame that changes.

Spark keeps what tasks gave, and computes it again where it was lost: with an executor, or because a user
cleared the cache. Files then give the same rows again, but a frame of the caller's may not: its
values may be random, or of the moment, or its rows may come in another order after a shuffle. Such a
load is refused, before anything is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.errors import InputError
from omnigraph.runner.spark_errors import CarriedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DIGEST = "xxhash64(task, seq, kind, key, records, named, pending, narrow, wide)"
"""What a payload row is known by."""


def other_rows() -> InputError:
    """Return the error for a frame that gave other rows than before."""
    return InputError(
        "the frame gave other rows, or gave them in another order, when Spark computed it again after "
        "a part was lost; run the load again, or write the frame to files and load them"
    )


def only_known(payloads: DataFrame, of_frames: str, known: Sequence[int]) -> DataFrame:
    """Return the payload rows, whose use fails if one of a frame is not among the ``known`` ones.

    ``of_frames`` is the condition that a row is one of a frame of the caller's.
    """
    among = ", ".join(f"{digest}L" if digest > _LEAST else _LEAST_TEXT for digest in known)
    is_known = f"{DIGEST} IN ({among})" if known else "false"
    carried = str(CarriedError(other_rows())).splitlines()[-1]
    refuse = f"CAST(raise_error('{carried}') AS BOOLEAN)"
    # Always true, which Spark does not know. From a condition on columns alone it would conclude others, with
    # the values that later conditions ask for put in, and refuse rows which those leave out.
    accept = "spark_partition_id() >= 0"
    return payloads.where(
        f"CASE WHEN {of_frames} AND NOT {is_known} THEN {refuse} ELSE {accept} END"
    )


_LEAST = -(2**63)
# As a literal its digits alone are too large a number.
_LEAST_TEXT = "(-9223372036854775807L - 1L)"

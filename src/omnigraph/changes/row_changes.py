"""Rows of two states of one table, side by side: the form in which changes are found and used.

For example, when "ann" was renamed and "bob" was added, one ``RowChanges`` holds

    ids      before                     after
    ann      present, name "Ann"        present, name "Anna"
    bob      absent (every column null) present, name "Bob"
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

ROW_ID = "_rowid"
"""The column of a ``Rows`` table with Lance's stable row id, by which blobs are read."""


class Rows(NamedTuple):
    """Rows of one table, one for each id that was asked for, in that order.

    ``table`` has ``id``, ``src`` and ``dst`` of edges, every property under its current name (blobs
    as descriptors), and ``ROW_ID``. Where ``present`` is false, every column is null.
    """

    present: pa.BooleanArray
    table: pa.Table


class RowChanges(NamedTuple):
    """Entities whose images differ between two states of a table, in ascending order of their ids.

    ``before`` and ``after`` are as long as ``ids``. An entity that is absent before was inserted, one
    that is absent after was deleted, and one that is present on both sides was updated.
    """

    ids: pa.StringArray
    before: Rows
    after: Rows

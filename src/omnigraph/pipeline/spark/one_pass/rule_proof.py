"""Prove that no set rule is broken, where executors wrote the rows already.

Most loads break no rule, and that can be seen from the columns that rules compare: no id or unique
tuple comes twice, none is one of a committed row, every end is a node, and no node has too many edges.
Tasks look at the columns in the files that were written (`questions`). Where a table is too large
for a task to read all of it, Spark joins fingerprints of the values. Whatever looks broken is left to the
rules themselves (`validate/`), which know what to tell.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.lang.schema.catalog import Catalog, EdgeType
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.spark.one_pass import fingerprints
from omnigraph.pipeline.spark.one_pass.questions import (
    Asked,
    Piece,
    Question,
    Values,
    answer,
    bytes_of,
    read_fingerprints,
)
from omnigraph.runner.spark_runner import GROUP_ROWS
from omnigraph.runner.spark_tasks import run_tasks, task_frame
from omnigraph.storage.fragment_groups import fragment_sizes
from omnigraph.storage.tables.table import open_table
from omnigraph.validate.committed import Committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HASH_BYTES = 8
"""What a task that looks for repeated values holds of each."""


@dataclass(slots=True)
class RuleProof:
    """The set rules of one load on one state of the branch."""

    session: SparkSession
    catalog: Catalog
    incoming: Mapping[str, Asked]
    mode: LoadMode
    committed: Committed
    cores: int
    shared_bytes: int

    def holds(self) -> bool:
        """Say whether all rules hold for certain: one job for what tasks can see, one for the rest."""
        if any(self._needs_edges(rows) for rows in self.incoming.values()):
            return False
        small: list[Question] = []
        large: list[Question] = []
        for question in self._questions():
            if question.kind == "missing" and not question.others:
                return False
            fitting = self._fitting(question)
            if fitting is not None:
                small += fitting.divided(self.cores)
            elif question.by_hash:
                large.append(question)
            else:
                return False
        outcomes = run_tasks(
            self.session, answer, small, at_once=len(small), weight=lambda one: one.rows
        )
        return not any(outcome.get() for outcome in outcomes) and not self._any_by_hash(large)

    def _questions(self) -> Iterator[Question]:
        asked = [
            self._repeated(),
            self._taken(),
            self._missing(),
            self._stranded(),
            self._crowded(),
        ]
        return (question for some in asked for question in some if question.values)

    def _fitting(self, question: Question) -> Question | None:
        """Return the question so that every task can read what it must; None where it cannot."""
        if question.kind == "repeated":
            fits = question.rows * HASH_BYTES <= self.shared_bytes
            return question if fits else None
        if bytes_of(question.others) <= self.shared_bytes:
            return question
        if question.kind == "shared" and bytes_of(question.values) <= self.shared_bytes:
            return question.swapped()
        return None

    # -- where values are

    def _written(self, key: str, *columns: str) -> list[Values]:
        """The values of incoming rows."""
        return [Values(piece, columns) for piece in self.incoming[key].pieces]

    def _stored(self, key: str, *columns: str) -> list[Values]:
        """The values of committed rows that stay."""
        self.committed.relied_on.add(key)
        pin = self.committed.pins[key]
        if pin.row_count == 0 or (self.mode == "overwrite" and key in self.incoming):
            return []
        ref = self.committed.locate(pin)
        return [
            Values(Piece(ref, rows, fragment_id=number), columns)
            for number, rows in fragment_sizes(open_table(ref))
        ]

    def _nodes(self, name: str) -> list[Values]:
        """The ids of all nodes of a type after the load."""
        key = self.catalog.nodes[name].table_key
        new = self._written(key, "id") if key in self.incoming else []
        return [*new, *self._stored(key, "id")]

    # -- rules

    def _compared(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        """The columns of which no two rows may have the same values. Ids that were made are unlike others.

        The last item says whether fingerprints can stand for the values.
        """
        for key, rows in self.incoming.items():
            if rows.may_repeat:
                yield key, ("id",), True
            schema = rows.entity.arrow_schema()
            for group in rows.entity.unique:
                kinds = [schema.field(name).type for name in group]
                yield key, tuple(group), fingerprints.are_comparable(kinds)

    def _compared_with_stored(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        """The same against committed rows: an id made of a tuple may be that of an edge that had it once."""
        yield from self._compared()
        for key, rows in self.incoming.items():
            edge = rows.entity
            if isinstance(edge, EdgeType) and edge.identity is not None and not rows.may_repeat:
                yield key, ("id",), True

    def _repeated(self) -> Iterator[Question]:
        """Ask for ids and unique tuples that two incoming rows have."""
        for key, columns, by_hash in self._compared():
            yield Question("repeated", tuple(self._written(key, *columns)), by_hash=by_hash)

    def _taken(self) -> Iterator[Question]:
        """Ask for ids and unique tuples that a committed row has."""
        for key, columns, by_hash in self._compared_with_stored() if self.mode == "append" else ():
            mine, stored = self._written(key, *columns), self._stored(key, *columns)
            if stored:
                yield Question("shared", tuple(mine), tuple(stored), by_hash=by_hash)

    def _missing(self) -> Iterator[Question]:
        """Ask for ends of incoming edges that are no nodes."""
        ends: dict[str, list[Values]] = {}
        for key, rows in self.incoming.items():
            if isinstance(rows.entity, EdgeType):
                ends.setdefault(rows.entity.from_type, []).extend(self._written(key, "src"))
                ends.setdefault(rows.entity.to_type, []).extend(self._written(key, "dst"))
        for name, values in ends.items():
            yield Question("missing", tuple(values), tuple(self._nodes(name)))

    def _stranded(self) -> Iterator[Question]:
        """Ask for committed edges that lose a node because its table is overwritten."""
        for edge in self.catalog.edges.values() if self.mode == "overwrite" else ():
            for side, name in (("src", edge.from_type), ("dst", edge.to_type)):
                is_replaced = self.catalog.nodes[name].table_key in self.incoming
                if is_replaced and edge.table_key not in self.incoming:
                    stored = self._stored(edge.table_key, side)
                    yield Question("missing", tuple(stored), tuple(self._nodes(name)))

    def _crowded(self) -> Iterator[Question]:
        """Ask for nodes with more edges than they may have."""
        for key, rows in self.incoming.items():
            if isinstance(rows.entity, EdgeType) and rows.entity.cardinality.max is not None:
                values = [*self._written(key, "src"), *self._stored(key, "src")]
                yield Question("repeated", tuple(values), most=rows.entity.cardinality.max)

    def _needs_edges(self, rows: Asked) -> bool:
        """Say whether nodes may have too few edges.

        Only nodes that gain or lose edges are looked at, so it needs a bound above 1, or edges that go.
        """
        if not isinstance(rows.entity, EdgeType):
            return False
        low = rows.entity.cardinality.min
        replaces = self.mode == "overwrite" and self.committed.pins[rows.entity.table_key].row_count
        return low > 1 or (low == 1 and bool(replaces))

    # -- tables that are too large for a task

    def _any_by_hash(self, questions: Sequence[Question]) -> bool:
        """Say whether fingerprints look as if a rule is broken, in one job for all questions."""
        if not questions:
            return False
        salt = secrets.token_hex(16)
        found = [self._broken(question, salt) for question in questions]
        together = found[0]
        for one in found[1:]:
            together = together.unionAll(one)
        return bool(together.limit(1).toArrow().num_rows)

    def _broken(self, question: Question, salt: str) -> DataFrame:
        from pyspark.sql import functions as f

        mine = self._fingerprints(question.values, salt)
        if question.kind == "repeated":
            # Half of a fingerprint proves as much: values that differ by it differ.
            counted = mine.groupBy("h1").agg(f.count("*").alias("n"))
            return counted.where(f"n > {question.most}").select("h1")
        how = "left_semi" if question.kind == "shared" else "left_anti"
        one, two = mine.alias("l"), self._fingerprints(question.others, salt).alias("r")
        # Sorting can spill, a hash table cannot. Spark sorts one number better than two, so the other
        # half is compared afterwards.
        halves = f.col("l.h2").bitwiseXOR(f.col("r.h2")) == f.lit(0)
        same = (f.col("l.h1") == f.col("r.h1")) & halves
        return one.join(two.hint("merge"), same, how).select("h1")

    def _fingerprints(self, values: Sequence[Values], salt: str) -> DataFrame:
        shares: list[list[Values]] = [[]]
        for one in values:
            if sum(other.piece.rows for other in shares[-1]) >= GROUP_ROWS:
                shares.append([])
            shares[-1].append(one)
        read = partial(read_fingerprints, salt=salt)
        return task_frame(self.session, read, shares, fingerprints.COLUMNS)

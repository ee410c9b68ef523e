"""Prove by fingerprints that no set rule is broken, where executors wrote the rows already.

Most loads break no rule, and that can be seen without a single text: no fingerprint of an id or of a
unique tuple comes twice, none is one of a committed row, and every end has the fingerprint of a node.
All of it is one query over 16 bytes for each value. Anything else, true or by chance, is left to the
rules themselves (`validate/`), which compare texts and know what to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.spark.one_pass.fingerprints import SCHEMA, Compared, Fingerprinted
from omnigraph.pipeline.spark.one_pass.first_pass import FirstPass
from omnigraph.pipeline.spark.one_pass.one_pass_rows import OnePassRows
from omnigraph.runner.protocol import Through
from omnigraph.runner.spark_runner import SparkRunner
from omnigraph.storage.tables.table import open_table
from omnigraph.validate.committed import Committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BROADCAST_ROWS = 500_000
"""Up to this number of fingerprints are sent to all executors; more are sorted, which can spill."""


@dataclass(slots=True)
class RuleProof:
    """The set rules of one load on one state of the branch."""

    runner: SparkRunner
    first_pass: FirstPass
    told: DataFrame
    incoming: Mapping[str, OnePassRows]
    mode: LoadMode
    committed: Committed

    def holds(self) -> bool:
        """Say whether all rules hold for certain. One job, however many rules and tables there are."""
        if any(self._counts_edges(rows.entity) for rows in self.incoming.values()):
            return False
        broken = [*self._repeated(), *self._taken(), *self._missing_ends(), *self._stranded()]
        if not broken:
            return True
        together = broken[0]
        for one in broken[1:]:
            together = together.unionAll(one)
        return not together.limit(1).toArrow().num_rows

    def _counts_edges(self, entity: Entity) -> bool:
        if not isinstance(entity, EdgeType):
            return False
        bounds = entity.cardinality
        return bounds.min > 0 or bounds.max is not None

    def _of(self, *roles: str) -> list[Compared]:
        """Return what is compared of the incoming rows, in these roles."""
        return [
            one
            for one in self.first_pass.compared
            if one.role in roles
            and one.table_key in self.incoming
            and (one.role != "id" or self.incoming[one.table_key].may_repeat)
            and self.incoming[one.table_key].rows
        ]

    def _fingerprints(self, compared: Sequence[Compared]) -> DataFrame:
        numbers = ", ".join(str(one.what) for one in compared)
        return self.told.where(f"what IN ({numbers})").select("h1", "h2")

    def _stored(self, table_key: str, columns: Sequence[str]) -> DataFrame | None:
        """Return the fingerprints of committed rows that stay; None where there are none."""
        self.committed.relied_on.add(table_key)
        pin = self.committed.pins[table_key]
        replaced = self.mode == "overwrite" and table_key in self.incoming
        if replaced or pin.row_count == 0:
            return None
        table = open_table(self.committed.locate(pin))
        names = tuple(columns)
        through = Through(Fingerprinted(names, self.first_pass.salt), SCHEMA)
        scanned = self.runner.scan_fragments(table, names, through=through)
        return None if scanned.data is None else scanned.data

    def _repeated(self) -> Iterator[DataFrame]:
        """Find half fingerprints that come twice, of ids and unique tuples."""
        from pyspark.sql import functions as f

        compared = self._of("id", "unique")
        if compared:
            numbers = ", ".join(str(one.what) for one in compared)
            mine = self.told.where(f"what IN ({numbers})")
            counted = mine.groupBy("what", "h1").agg(f.count("*").alias("n"))
            yield counted.where("n > 1").select("h1")

    def _taken(self) -> Iterator[DataFrame]:
        """Find ids and unique tuples that a committed row has."""
        if self.mode == "overwrite":
            return
        for one in self._of("id", "unique"):
            stored = self._stored(one.table_key, one.columns)
            if stored is None:
                continue
            mine = self._fingerprints([one])
            rows = self.incoming[one.table_key].rows
            before = self.committed.pins[one.table_key].row_count
            if rows < before:
                yield _joined(stored, mine, rows, "left_semi").select("h1")
            else:
                yield _joined(mine, stored, before, "left_semi").select("h1")

    def _missing_ends(self) -> Iterator[DataFrame]:
        """Find ends of incoming edges that are no nodes."""
        ends: dict[str, list[Compared]] = {}
        for one in self._of("src", "dst"):
            edge = self.first_pass.rules.catalog.entity(one.table_key)
            assert isinstance(edge, EdgeType)
            node = edge.from_type if one.role == "src" else edge.to_type
            ends.setdefault(node, []).append(one)
        for node, compared in ends.items():
            nodes, rows = self._nodes(node)
            mine = self._fingerprints(compared)
            yield (mine if nodes is None else _joined(mine, nodes, rows, "left_anti")).select("h1")

    def _nodes(self, name: str) -> tuple[DataFrame | None, int]:
        """Return the fingerprints of all nodes of a type after the load, and their number."""
        key = self.first_pass.rules.catalog.nodes[name].table_key
        new = [one for one in self._of("id") if one.table_key == key]
        stored = self._stored(key, ["id"])
        rows = self.incoming[key].rows if new else 0
        rows += 0 if stored is None else self.committed.pins[key].row_count
        if not new:
            return stored, rows
        mine = self._fingerprints(new)
        return (mine if stored is None else mine.unionAll(stored)), rows

    def _stranded(self) -> Iterator[DataFrame]:
        """Find committed edges that lose a node because its table is overwritten."""
        if self.mode != "overwrite":
            return
        catalog = self.first_pass.rules.catalog
        for edge in catalog.edges.values():
            for side, name in (("src", edge.from_type), ("dst", edge.to_type)):
                if catalog.nodes[name].table_key not in self.incoming or (
                    edge.table_key in self.incoming
                ):
                    continue
                stored = self._stored(edge.table_key, [side])
                if stored is None:
                    continue
                nodes, rows = self._nodes(name)
                yield (
                    stored if nodes is None else _joined(stored, nodes, rows, "left_anti")
                ).select("h1")


def _joined(left: DataFrame, right: DataFrame, rows: int, how: str) -> DataFrame:
    """Join fingerprints; ``rows`` is the size of the right side, which is looked up.

    Spark knows better ways to look up one number than two, so the other half is compared afterwards.
    """
    from pyspark.sql import functions as f

    one, two = left.alias("l"), right.alias("r")
    right_side = f.broadcast(two) if rows <= BROADCAST_ROWS else two.hint("merge")
    same = (f.col("l.h1") == f.col("r.h1")) & (f.col("l.h2").bitwiseXOR(f.col("r.h2")) == f.lit(0))
    return one.join(right_side, same, how)

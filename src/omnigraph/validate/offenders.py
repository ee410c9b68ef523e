"""Which records to leave out where a set rule is broken: the later ones, so that earlier ones stay.

A load that skips bad records asks this after ``first_set_violations`` found a broken rule, leaves the
answer out, and checks again, until every rule holds. Each answer depends on the rows alone, not on
how an engine divides them:

* one id or tuple in several rows: all but the first of them, where a row that has the tuple already is
  the first; where a committed row that is not touched has it: all;
* an end that is not there: the edge;
* a source with too many edges: as many of the last records that bring it an edge as are too many;
* the same with a period, where only rows that hold at one moment are in each other's way;
* a source with too few: the last record that takes an edge from it, or else the last that brings one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from omnigraph.lang.schema.catalog import EdgeType, Period
from omnigraph.validate import moments, rules
from omnigraph.validate.change_set import ChangeSet, TableDelta, Violation
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import Evaluation
from omnigraph.validate.overlaps import HoldingRow, too_many_at_once
from omnigraph.validate.violations import cardinality_violation

if TYPE_CHECKING:
    import pyarrow as pa


def offending_records(
    changes: ChangeSet, committed: Committed, broken: Violation
) -> list[Violation]:
    """Return one violation for each record to leave out; none where that cannot mend the rule.

    ``broken`` is the first answer of ``first_set_violations``.
    """
    search = _Search(changes, committed, limit=None)
    found = {
        "key": search.taken_ids,
        "unique": search.unique,
        "endpoint": search.endpoints,
        "cardinality": search.cardinality,
    }[broken.kind]
    by_record: dict[tuple[str, int], Violation] = {}
    for violation in found():
        assert violation.record is not None
        by_record.setdefault((violation.table_key, violation.record), violation)
    return list(by_record.values())


class _Search(Evaluation):
    """The set rules once more; each method yields every record that has to go."""

    def unique(self) -> Iterator[Violation]:
        """Yield the records of the first broken group: rows that go may settle the others."""
        for delta in self.deltas():
            for group in delta.entity.unique if delta.pending is not None else ():
                assert delta.pending is not None
                judged = [self.unique_within, self.unique_against]
                if delta.entity.period is not None:
                    # A row that has to go for a committed one is in nobody's way.
                    judged.reverse()
                found = next(
                    filter(None, (list(one(delta, delta.pending, group)) for one in judged)), []
                )
                if found:
                    yield from found
                    return

    def cardinality(self) -> Iterator[Violation]:
        for edge, delta in self.edge_deltas():
            found = list(self._counted(edge, delta))
            if found:
                yield from found
                return

    def _counted(self, edge: EdgeType, delta: TableDelta) -> Iterator[Violation]:
        if delta.pending is None:
            return
        wrong = self.wrong_counts(edge, delta)
        if not wrong.num_rows:
            return
        if edge.period is not None and edge.cardinality.max is not None:
            yield from self._crowded(edge, delta, wrong, edge.period, edge.cardinality.max)
        frames = {
            "pend": delta.pending,
            "com": self.committed.rows(self.changes, edge, ["src"], "id", delta.pending, "id"),
            "wrong": self.runner.frame(wrong),
        }
        counts = {row["src"]: row["n"] for row in wrong.to_pylist()}
        high = edge.cardinality.max if edge.period is None else None
        texts = [rules.too_few_edges(edge.cardinality.min)]
        if high is not None:
            texts.append(rules.too_many_edges(high))
        for text in texts:
            for row in self.ask(text, frames).to_pylist():
                source = row["src"]
                yield cardinality_violation(edge, source, counts[source], row["id"], row["rec"])

    def _crowded(
        self, edge: EdgeType, delta: TableDelta, wrong: pa.Table, period: Period, most: int
    ) -> Iterator[Violation]:
        """Yield the records that bring an edge to a source which has the most at some moment already."""
        bounds, sources, pending = period.names, self.runner.frame(wrong), self.pending_rows(delta)
        columns = ["src", *bounds]
        frames = {
            "pend": pending,
            "gone": self.removed_ids(delta),
            "com": self.committed.rows(self.changes, edge, columns, "src", sources, "src"),
            "before": self.committed.rows(self.changes, edge, columns, "id", pending, "id"),
            "wrong": sources,
        }
        found = self.ask(moments.edges_of_wrong_sources(bounds, most), frames)
        rows = found.sort_by([("src", "ascending"), ("place", "ascending")]).to_pylist()
        for source, edges in groupby(rows, key=lambda row: row["src"]):
            places: dict[HoldingRow, int] = {}
            spans = []
            for row in edges:
                span = HoldingRow(row["id"], row["since"], row["until"])
                places[span] = row["place"]
                spans.append((span, row["place"] >= 0))
            for span in too_many_at_once(spans, most):
                yield cardinality_violation(edge, source, most + 1, span.id, places[span])

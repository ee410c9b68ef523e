"""Stage 3 of a load: which rows it leaves in its tables, and whether they keep the set rules.

What the records of one id mean depends on the mode: a merge takes the last one, a patch applies all of
them to the row that is there, append and overwrite refuse a second one. The rows that this gives are
checked against the committed rows. A load that skips bad records leaves out the records behind a
broken rule and starts again, until all rules hold: then it is as if they had not been in the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from omnigraph.lang.schema.catalog import NodeType
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.edge_ids import EdgeIds
from omnigraph.pipeline.engine import Incoming, LoadEngine, ReadRecords
from omnigraph.pipeline.formats.typed_batch import order_of, place_of
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.pipeline.rows.bad_records import Bad, describe_bad, format_entry, write_rejects
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.runner.runner import Frame, Runner
from omnigraph.validate import rules
from omnigraph.validate.change_set import ORDER, ChangeSet, TableDelta, Violation, needed_columns
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import first_set_violations
from omnigraph.validate.offenders import offending_records
from omnigraph.validate.violations import violation_error


@dataclass(frozen=True, slots=True)
class FinalRows:
    """What a load writes: the rows of each table, and how many they are.

    ``relied_on`` are the tables that were read to check them.
    """

    incoming: dict[str, Incoming]
    counts: dict[str, int]
    relied_on: set[str]


class FindFinalRows:
    """Finds the final rows of one load, as often as it is tried."""

    def __init__(
        self,
        workspace: Workspace,
        request: LoadPlan,
        row_rules: RowRules,
        engine: LoadEngine,
        found: ReadRecords,
        directory: Path,
    ) -> None:
        self.workspace = workspace
        self.request = request
        self.mode = request.options.mode
        self.row_rules = row_rules
        self.engine = engine
        self.incoming = found.incoming
        self.bad = found.bad
        self.directory = directory
        self._read = found.bad.mark()
        self._completed: dict[str, tuple[TableState, list[int], Incoming]] = {}

    def find(self, runner: Runner, state: BranchState) -> FinalRows:
        """Find the rows and check them on one state of the branch; ``bad`` has what was left out."""
        self.bad.back_to(self._read)
        attempt = _Attempt(self, runner, state)
        final = attempt.run()
        if self.request.options.skips and self.request.rejects is not None:
            self.bad.write(self.request.inputs.sources, self.request.rejects)
        return final

    def completed(
        self, key: str, pin: TableState, left_out: list[int], bad: list[Bad], *, anew: bool
    ) -> Incoming:
        """The whole rows of a patch without the records that are left out.

        Those that were made before are used again if all that they depend on is the same.
        """
        known = self._completed.pop(key, None)
        if known is not None and known[:2] == (pin, left_out) and not anew:
            made = known[2]
        else:
            ref = self.workspace.pinned(pin)
            made = self.engine.complete(
                self.row_rules, self.incoming[key], ref, self.directory, bad.extend
            )
        if not bad:
            self._completed[key] = (pin, list(left_out), made)
        return made


class _Attempt:
    """The search on one state of the branch."""

    def __init__(self, search: FindFinalRows, runner: Runner, state: BranchState) -> None:
        self.search = search
        self.mode = search.mode
        self.skips = search.request.options.skips
        self.runner = runner
        self.pins = state.head.tables
        self.committed = Committed(runner, self.pins, search.workspace.pinned)
        self.out: dict[str, list[int]] = {key: [] for key in search.incoming}
        self.changed: set[str] = set()

    def run(self) -> FinalRows:
        incoming = self.search.incoming
        if self.skips:
            # What an earlier attempt left out may be valid now.
            for key, rows in incoming.items():
                self._gone(key, rows)
        if self.mode in {"append", "overwrite"} and self.search.engine.proves_rules(
            self.runner, incoming, self.mode, self.committed
        ):
            counts = {key: rows.rows for key, rows in incoming.items()}
            return FinalRows(dict(incoming), counts, self.committed.relied_on)
        edge_ids = EdgeIds(self.runner, self.search.row_rules, self.committed, self.mode)
        self.changed = edge_ids.assign(incoming)
        while True:
            final, deltas, mended = self._rows()
            if mended:
                continue
            changes = ChangeSet(self.search.row_rules.catalog, deltas)
            broken = first_set_violations(changes, self.committed)
            if not broken:
                return final
            rejects = self.search.request.rejects
            wanted = self.skips or rejects is not None
            found = self._offenders(changes, broken[0]) if wanted else []
            if not found or not self.skips:
                self._refuse(broken, found)
            self._leave_out(found)

    def _offenders(self, changes: ChangeSet, broken: Violation) -> list[Violation]:
        if broken.kind == "endpoint" and broken.record is None:
            return []  # A committed edge loses its node: there is no record to leave out.
        return offending_records(changes, self.committed, broken)

    def _rows(self) -> tuple[FinalRows, dict[str, TableDelta], bool]:
        """The final rows as far as they are known, and whether records were left out meanwhile."""
        counts: dict[str, int] = {}
        final: dict[str, Incoming] = {}
        deltas: dict[str, TableDelta] = {}
        any_bad = False
        for key, incoming in self.search.incoming.items():
            entity = incoming.entity
            columns = ["id", *needed_columns(entity), ORDER]
            gone = self._gone(key, incoming)
            rows = incoming
            if self.mode == "patch":
                rows, is_bad = self._completed(key)
                if is_bad:
                    any_bad = True
                    continue
                frame = rows.frame(self.runner, columns)
                counts[key] = rows.rows
            else:
                frame, left_out, repeats = self._one_of_each(incoming, columns, gone)
                if repeats:
                    self._leave_out(repeats)
                    return FinalRows({}, {}, set()), {}, True
                counts[key] = incoming.rows - left_out
            final[key] = rows
            deltas[key] = TableDelta(
                entity, frame, replaced=self.mode == "overwrite", strict=self.mode == "append"
            )
        if any_bad and not self.skips:
            request = self.search.request
            self.search.bad.end(request.inputs.sources, request.rejects)
        return FinalRows(final, counts, self.committed.relied_on), deltas, any_bad

    def _gone(self, key: str, incoming: Incoming) -> Frame | None:
        """The records of a table that are left out so far; they are not written."""
        if not self.skips:
            return None
        orders = pa.table({ORDER: pa.array(self.out[key], pa.int64())})
        gone = self.runner.frame(orders)
        incoming.leave_out(self.runner, gone)
        return gone if self.out[key] else None

    def _one_of_each(
        self, incoming: Incoming, columns: Sequence[str], gone: Frame | None
    ) -> tuple[Frame, int, list[Violation]]:
        """The rows of a table with one row of each id, how many are left out, and repeats to skip."""
        runner = self.runner
        pending = incoming.frame(runner, columns)
        left_out = 0
        if gone is not None:
            pending = runner.sql(rules.winning_rows(), {"pend": pending, "losers": gone})
            left_out = runner.count(gone)
        if not incoming.may_repeat or not runner.may_repeat(pending, "id"):
            return pending, left_out, []
        if self.mode == "merge":
            lost = runner.sql(rules.losing_records(), {"pend": pending})
            together = lost
            if gone is not None:
                together = runner.sql(rules.all_orders(), {"a": lost, "b": gone})
            all_left_out = incoming.leave_out(runner, together)
            if all_left_out > left_out:
                pending = runner.sql(rules.winning_rows(), {"pend": pending, "losers": lost})
            return pending, all_left_out, []
        if self.skips:
            return pending, left_out, self._repeats(incoming, pending, rules.later_of_id())
        broken = self._repeats(incoming, pending, rules.repeated_ids())
        if broken:
            wanted = self.search.request.rejects is not None
            found = self._repeats(incoming, pending, rules.later_of_id()) if wanted else []
            self._refuse(broken, found)
        return pending, left_out, []

    def _repeats(self, incoming: Incoming, pending: Frame, text: str) -> list[Violation]:
        """The answers of a query about repeated ids as violations."""
        entity = incoming.entity
        key = entity.key if isinstance(entity, NodeType) else None
        place = entity.name if key is None else f"{entity.name}.{', '.join(key)}"
        return [
            Violation(
                "unique",
                entity.table_key,
                row["id"],
                f"@unique {place}: the id {row['id']!r} appears more than once in the input",
                row["rec"],
                {} if key is None else {"properties": list(key)},
            )
            for row in self.runner.ask(text, {"pend": pending}).to_pylist()
        ]

    def _completed(self, key: str) -> tuple[Incoming, bool]:
        """The whole rows of a patch, and whether some are bad: then their records are left out."""
        bad: list[Bad] = []
        anew = key in self.changed
        made = self.search.completed(key, self.pins[key], self.out[key], bad, anew=anew)
        self.changed.discard(key)
        orders = [order_of(one.source, one.offset) for one in bad]
        values = self._values(key, orders)
        told = zip(bad, orders, strict=True)
        self.search.bad.add(replace(one, record=values.get(order)) for one, order in told)
        self.out[key] += orders
        return made, bool(bad)

    def _leave_out(self, found: Sequence[Violation]) -> None:
        """Leave out the records of violations, and note why."""
        for key, mine in _by_table(found).items():
            self.out[key] += [one.record for one in mine if one.record is not None]
            self.search.bad.add(self._with_values(key, mine))

    def _with_values(self, key: str, found: Sequence[Violation]) -> list[Bad]:
        """The records of violations in one table, with their values."""
        values = self._values(key, [one.record for one in found if one.record is not None])
        return [replace(self._bad_of(one), record=values.get(one.record or 0)) for one in found]

    def _values(self, key: str, orders: Sequence[int]) -> dict[int, str]:
        """The values of rows for the file of rejects; the records of lines are read from there."""
        request = self.search.request
        sources = request.inputs.sources
        rows = [one for one in orders if sources[place_of(one)[0]].unit == "row"]
        if request.rejects is None or not rows:
            return {}
        return self.search.incoming[key].values_of(self.runner, rows)

    def _refuse(self, broken: Sequence[Violation], found: Sequence[Violation]) -> NoReturn:
        """End the load over a broken set rule, with the places of its records in front.

        ``broken`` is what the error shows; ``found`` are all records that break the rule, for the file of
        rejects.
        """
        request = self.search.request
        sources = request.inputs.sources
        messages = [
            one.message
            if one.record is None
            else format_entry(next(describe_bad(sources, [self._bad_of(one)])))
            for one in broken
        ]
        if request.rejects is not None:
            tables = _by_table(one for one in found or broken if one.record is not None)
            rejected = [bad for key, mine in tables.items() for bad in self._with_values(key, mine)]
            rejected.sort(key=Bad.place)
            write_rejects(request.rejects, describe_bad(sources, rejected, whole=True))
        raise violation_error(
            [replace(one, message=text) for one, text in zip(broken, messages, strict=True)]
        )

    def _bad_of(self, violation: Violation) -> Bad:
        message = violation.message
        if violation.kind == "key":
            to_merge = self.search.request.to_merge
            message += f"; give it another id, or {to_merge} to replace the row"
        named = violation.detail.get("properties") or violation.detail.get("endpoint")
        blamed = ", ".join(named) if isinstance(named, list) else named
        place = place_of(violation.record or 0)
        return Bad(*place, message, violation.kind, None if blamed is None else str(blamed))


def _by_table(found: Iterable[Violation]) -> dict[str, list[Violation]]:
    tables: dict[str, list[Violation]] = {}
    for violation in found:
        tables.setdefault(violation.table_key, []).append(violation)
    return tables

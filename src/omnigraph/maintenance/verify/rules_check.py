"""Whether the rows of a branch keep the rules of its schema: ids, keys, ends, unique groups, values.

The rules are those that loads and mutations are checked by, asked about whole tables as if they replaced
themselves. Tables stream, and set rules run in DuckDB, which spills to disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.storage.tables.blobs.blob_columns import blob_columns
from omnigraph.storage.tables.table import open_table
from omnigraph.types import derive_id_column
from omnigraph.validate.change_set import ORDER, ChangeSet, TableDelta, Violation, needed_columns
from omnigraph.validate.column_rules import row_violations
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import Evaluation

_BATCH_ROWS = 8_192
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule of a table that does not hold: what it says of the first rows."""

    table_key: str
    detail: str


def broken_rules(
    workspace: Workspace, catalog: Catalog, pins: Mapping[str, TableState]
) -> Iterator[Broken]:
    """Yield what is broken in the tables of one state; tables that are not among the pins are left out."""
    entities = [one for one in catalog.entities() if one.table_key in pins]
    for entity in entities:
        yield from _row_rules(workspace, entity, pins[entity.table_key])
    runner = LocalRunner()
    try:
        yield from _set_rules(runner, workspace, catalog, pins, entities)
    finally:
        runner.close()


def _row_rules(workspace: Workspace, entity: Entity, pin: TableState) -> Iterator[Broken]:
    import pyarrow as pa

    table = open_table(workspace.pinned(pin))
    blobs = set(blob_columns(table.schema))
    columns = [name for name in table.schema.names if name not in blobs]
    found: list[str] = []
    for batch in table.scan(columns, batch_size=_BATCH_ROWS):
        rows = pa.Table.from_batches([batch])
        found += [_text(one) for one in row_violations(entity, rows, limit=_SHOWN)]
        found += _wrong_ids(entity, batch)
        if len(found) > _SHOWN:
            break
    if found:
        yield Broken(entity.table_key, "; ".join(found[:_SHOWN]))


def _wrong_ids(entity: Entity, batch: object) -> list[str]:
    """Ids that do not follow from the key of their node."""
    import pyarrow.compute as pc

    if not isinstance(entity, NodeType) or entity.key is None:
        return []
    rows: dict[str, object] = {name: batch.column(name) for name in ("id", *entity.key)}  # type: ignore[attr-defined]
    derived = derive_id_column([(entity.properties[name].type, rows[name]) for name in entity.key])
    wrong = pc.indices_nonzero(pc.fill_null(pc.not_equal(rows["id"], derived), True)).to_pylist()
    ids = rows["id"]
    return [
        f"the id {ids[place]} of {entity.name} is not that of its key"  # type: ignore[index]
        for place in wrong[:_SHOWN]
    ]


def _set_rules(
    runner: LocalRunner,
    workspace: Workspace,
    catalog: Catalog,
    pins: Mapping[str, TableState],
    entities: list[Entity],
) -> Iterator[Broken]:
    deltas: dict[str, TableDelta] = {}
    for entity in entities:
        scanned = runner.scan(
            workspace.pinned(pins[entity.table_key]), ["id", *needed_columns(entity)]
        )
        frames = {"f": scanned}
        twice = runner.ask(
            "SELECT `id` AS id, count(*) AS n FROM f GROUP BY `id` HAVING count(*) > 1 LIMIT 5",
            frames,
        ).to_pylist()
        if twice:
            ids = ", ".join(f"{row['id']} ({row['n']} rows)" for row in twice)
            yield Broken(entity.table_key, f"ids that several rows have: {ids}")
        pending = runner.sql(
            f"SELECT *, CAST(0 AS BIGINT) AS `{ORDER}` FROM f",  # noqa: S608 - a constant
            frames,
        )
        deltas[entity.table_key] = TableDelta(entity, pending, replaced=True)
    evaluation = Evaluation(
        ChangeSet(catalog, deltas), Committed(runner, pins, workspace.pinned), limit=_SHOWN
    )
    rules = [evaluation.unique]
    if len(deltas) == len(catalog.entities()):
        # Ends and counts need all tables.
        rules += [evaluation.endpoints, evaluation.cardinality]
    for rule in rules:
        by_table: dict[str, list[str]] = {}
        for violation in rule():
            by_table.setdefault(violation.table_key, []).append(_text(violation))
        for key, texts in by_table.items():
            yield Broken(key, "; ".join(texts[:_SHOWN]))


def _text(violation: Violation) -> str:
    where = "" if violation.row_id is None else f" ({violation.row_id})"
    return f"{violation.message}{where}"

"""The rules that a merged graph as a whole must keep, and the conflicts that break them.

The rules are those of ``validate/``, which loads and mutations keep too; a merge reports every
violation of each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.validate.change_set import ChangeSet, Violation, ViolationKind
from omnigraph.validate.column_rules import row_violations
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import Evaluation, all_set_violations
from omnigraph.write.merge.decided import GraphConflictKind, MergeConflict

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS: dict[ViolationKind, GraphConflictKind] = {
    "unique": "unique_violation",
    "endpoint": "orphan_edge",
    "cardinality": "cardinality_violation",
    "enum": "value_constraint_violation",
    "range": "value_constraint_violation",
    "check": "value_constraint_violation",
    "null": "value_constraint_violation",
    "valid": "value_constraint_violation",
}


def value_conflicts(entity: Entity, rows: pa.Table) -> list[MergeConflict]:
    """Return the incoming rows of one chunk that break a rule about values.

    ``rows`` are those of ``Decided``. No rule is about blobs, except that a required one is there, and
    an image without it is refused as soon as it is read.
    """
    judged = [name for name in rows.column_names if name not in entity.blob_properties]
    return list(_conflicts(row_violations(entity, rows.select(judged), None)))


def misfit_conflicts(
    entity: Entity, misfits: Mapping[str, Collection[str]], rows: pa.Table
) -> Iterator[MergeConflict]:
    """Yield the rows of one chunk that had, by property, a value on the source which the merged type cannot hold."""
    if not misfits:
        return
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, ids in misfits.items():
        there = pc.is_in(rows.column("id"), pa.array(sorted(ids), pa.string()))
        lost = pc.and_(there, pc.is_null(rows.column(name)))
        for row_id in rows.column("id").filter(lost).to_pylist():
            yield MergeConflict(
                "value_constraint_violation",
                entity.table_key,
                row_id,
                f"{entity.name}.{name} has a value in the source that {entity.properties[name].type.display} "
                "cannot hold",
                {"property": name},
            )


def graph_conflicts(changes: ChangeSet, committed: Committed) -> list[MergeConflict]:
    """Return the conflicts of the target's committed rows with all that is incoming.

    The order of incoming rows (``ORDER``) is that of their ids, so that of several rows with one unique
    value the later ids are the incoming entities of a conflict.
    """
    return list(_conflicts(all_set_violations(changes, committed)))


def _conflicts(violations: Iterable[Violation]) -> Iterator[MergeConflict]:
    for violation in _one_of_each_value(violations):
        yield MergeConflict(
            _KINDS[violation.kind],
            violation.table_key,
            violation.row_id,
            violation.message,
            violation.detail,
        )


def _one_of_each_value(violations: Iterable[Violation]) -> list[Violation]:
    """Keep one violation of each row and unique group: the last, whose other row is committed if one is."""
    last_of_each: dict[object, Violation] = {}
    for number, violation in enumerate(violations):
        key: object = number
        if violation.kind == "unique":
            group = tuple(str(name) for name in _list(violation.detail["properties"]))
            key = violation.table_key, violation.row_id, group
        last_of_each[key] = violation
    return list(last_of_each.values())


def _list(value: object) -> Sequence[object]:
    assert isinstance(value, list)
    return value


UntouchedIds = Callable[[EdgeType, "pa.StringArray"], "pa.StringArray"]
"""Of the ids of some edges, those that are equal in base and target."""


def cascaded_edges(
    changes: ChangeSet,
    committed: Committed,
    cut_off: Mapping[str, Sequence[str]],
    untouched: UntouchedIds,
) -> dict[str, pa.StringArray]:
    """Return the ids of the edges that go with nodes which a resolution deletes, by table key.

    ``cut_off`` has the ids of these nodes by type (``Decided.cut_off``). An edge goes with its node if
    neither side added or changed it; one that the source changed is incoming and stays, to be
    reported as an orphan.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    evaluation = Evaluation(changes, committed)
    found: dict[str, pa.StringArray] = {}
    for edge in changes.catalog.edges.values():
        at_node: list[pa.Array] = []
        for side, type_name in (("src", edge.from_type), ("dst", edge.to_type)):
            if cut_off.get(type_name):
                ids = pa.array(cut_off[type_name], pa.string())
                nodes = committed.runner.frame(pa.table({"id": ids}))
                at_node += evaluation.edges_at(edge, side, nodes).column("id").chunks
        ids = pc.unique(pa.chunked_array(at_node, pa.string())).sort()
        gone = untouched(edge, ids) if len(ids) else ids
        if len(gone):
            found[edge.table_key] = gone
    return found

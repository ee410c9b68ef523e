"""`ensure_indices`: build the declared indexes that are missing, and extend those that are not complete.

It is the part of ``optimize`` that concerns indexes. On a branch it builds missing indexes of inherited
tables too, which forks them; to extend an index is the parent's business as long as the table is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from omnigraph.commit.attempts import Attempt, Attempts
from omnigraph.commit.changes import TableChange
from omnigraph.commit.heal import heal
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.lang.schema.indexes import WantedIndex, wanted_indexes
from omnigraph.maintenance.effort import Effort
from omnigraph.maintenance.table_work import table_work
from omnigraph.maintenance.work_steps import PreparedWork, WorkOutcome, commit_changed
from omnigraph.maintenance.workers import Workers
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.workspace import Workspace
from omnigraph.spelling import did_you_mean
from omnigraph.storage.tables.table import open_table
from omnigraph.write.index_builds import IndexReport

Rebuild = bool | str | Sequence[str]
"""True for all indexes, or names: a type (`Person`), or one of its properties (`Person.name`)."""


def check_rebuild(rebuild: object) -> bool | tuple[str, ...]:
    """Return what was asked for, in one form; ``BadRequest`` for anything that is no such thing."""
    if isinstance(rebuild, bool):
        return rebuild
    names = [rebuild] if isinstance(rebuild, str) else rebuild
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise BadRequest(
            f"rebuild is True, a type, a property (`Person.name`) or a list of them, not {rebuild!r}"
        )
    return tuple(names)


def indexes_to_rebuild(
    catalog: Catalog, rebuild: bool | tuple[str, ...]
) -> Mapping[str, list[WantedIndex]]:
    """Return the indexes to make anew by the key of their table, whether they are there or not."""
    entities = {one.name: one for one in catalog.entities()}
    if isinstance(rebuild, bool):
        chosen = entities.values() if rebuild else ()
        return {one.table_key: wanted_indexes(one) for one in chosen}
    found: dict[str, list[WantedIndex]] = {}
    for text in rebuild:
        entity, name = _parsed(entities, text)
        of_table = found.setdefault(entity.table_key, [])
        wanted = wanted_indexes(entity)
        if name is not None:
            # The key of a node is found by its id.
            is_key = isinstance(entity, NodeType) and entity.id_property == name
            wanted = [one for one in wanted if one[0] == ("id" if is_key else name)]
        if not wanted:
            raise BadRequest(_no_index(entity, str(name)))
        of_table += [one for one in wanted if one not in of_table]
    return found


def _parsed(entities: Mapping[str, Entity], text: str) -> tuple[Entity, str | None]:
    """Return the type that a text names (as `Person` or `node:Person`), and the property, if any."""
    table, _, name = text.strip().partition(".")
    table = table.removeprefix("node:").removeprefix("edge:")
    if table not in entities:
        hint = did_you_mean(table, entities) or f"types: {', '.join(entities)}"
        raise BadRequest(f"the schema has no type `{table}`; {hint}", type=table)
    return entities[table], name or None


def _no_index(entity: Entity, name: str) -> str:
    indexed = ", ".join(dict.fromkeys(column for column, _ in wanted_indexes(entity)))
    return f"no index is declared on `{entity.name}.{name}`; indexes are on: {indexed}"


def ensure_indices(
    workspace: Workspace,
    catalog_at: Callable[[BranchState], Catalog],
    branch: str,
    actor_id: str | None = None,
    workers: Workers | None = None,
    rebuild: Rebuild = False,
) -> IndexReport:
    """Give every table with rows its declared indexes, all rows covered, in one commit.

    ``catalog_at`` as for ``optimize``. An index that fails is reported and does not stop the others.
    If nothing was done, there is no commit. One that is damaged is built anew, and so are those of
    ``rebuild``, whatever they are like.
    """
    again = check_rebuild(rebuild)
    heal(workspace)
    chosen = workers or Workers()

    def work(attempt: Attempt) -> IndexReport:
        catalog = catalog_at(attempt.state)
        anew = indexes_to_rebuild(catalog, again)
        report = IndexReport()
        changes = []
        for pin in attempt.state.head.tables.values():
            if pin.row_count == 0:
                continue
            table = open_table(workspace.pinned(pin))
            due = table_work(table, catalog.entity(pin.table_key), Effort.INDEXES)
            due = due.building(anew.get(pin.table_key, ()))
            report.pending += [(pin.table_key, name) for name in due.pending]
            if not due.is_due or (needs_fork(pin, branch) and not due.missing):
                continue
            outcome = WorkOutcome(pin.table_key, indexes=report)
            steps = PreparedWork(due).steps(outcome, chosen.builds(pin))
            changes.append(TableChange(pin, steps))
        report.commit = commit_changed(attempt, "ensure_indices", changes, actor_id)
        report.engine, report.note = chosen.engine, chosen.note
        return report

    return Attempts(workspace, branch).run(work)

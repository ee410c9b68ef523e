"""`graph.purge`: take entities out of the graph for good, and out of the caches of this process and user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from omnigraph.graph.access import Access
from omnigraph.graph.state import GraphState
from omnigraph.manifest.actors import check_message, check_operation_id
from omnigraph.manifest.branch_names import MAIN
from omnigraph.policy.checker import Action

if TYPE_CHECKING:
    from omnigraph.maintenance.purge.purge_report import PurgeReport


def purge_entities(
    access: Access,
    entities: object,
    reason: object,
    operation_id: object,
    *,
    dry_run: bool,
) -> PurgeReport:
    """Check the request, ask the policy, and purge; a dry run only looks."""
    from omnigraph.maintenance.purge.asked_entities import check_entities
    from omnigraph.maintenance.purge.purge import PurgeTask, purge

    state = access.state
    if dry_run:
        state.ensure_open()
    else:
        state.ensure_writable()
    access.ask(Action.PURGE)
    request = PurgeTask(
        check_entities(entities),
        check_message(reason, "reason"),
        dry_run,
        access.actor,
        check_operation_id(operation_id),
    )
    return purge(state.workspace, request, lambda places: forget_tables(state, places))


def forget_tables(state: GraphState, locations: Iterable[str]) -> None:
    """Drop what reads keep in memory, and what is kept in the cache directory: of these tables, and all texts."""
    from omnigraph.read.kept.kept_files import KeptFiles
    from omnigraph.read.search.scratch_index import forget_indexes
    from omnigraph.read.view.pinned_table import Lineage
    from omnigraph.read.view.state_files import folder_of

    graph_id = state.workspace.manifest.state(MAIN).head.graph_id
    state.forget_reads()
    state.workspace.recent_ids.forget()
    kept = KeptFiles.of_settings()
    for place in locations:
        kept.remove_all(folder_of(Lineage(graph_id, place, None, None)))
    forget_indexes()

"""The counter of identities: one row of `main` from which all branches take the ids of new elements.

It is raised before the ids are used, by a publish without a commit. What an operation took and did not
use is lost, so that no id is given twice, on whatever branch. For example, with ``{"next": 20}`` an apply
that adds a type with two properties takes 20 to 23 and leaves ``{"next": 24}``.
"""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.errors import IdentityError, StorageError
from omnigraph.lang.schema.identities import Numbering
from omnigraph.lang.schema.ir import MAX_ID
from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.beside_commits import hold_main, publish_patiently
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.publisher import publish_without_commit
from omnigraph.manifest.row_reads import read_identities_text
from omnigraph.manifest.rows import Row
from omnigraph.manifest.workspace import Workspace

BEFORE_RAISE = failpoints.declare("identities.before_raise")
AFTER_RAISE = failpoints.declare("identities.after_raise")


def take_ids(workspace: Workspace, count: int) -> Numbering:
    """Take ids for new elements of a schema; return where they begin.

    Takes the graph lock and the head lock of `main`, and frees them.
    """
    taken: list[Numbering] = []

    def raised(state: BranchState) -> Row:
        current = _counter(workspace.manifest, state)
        taken[:] = [current]
        if current.next_id + count > MAX_ID:
            raise IdentityError("the graph has used up its identity numbers", entity="schema")
        return rows.identities_row(current.next_id + count, current.single_line_below)

    with hold_main(workspace, "schema_apply") as held:
        BEFORE_RAISE.hit()
        publish_patiently(held, lambda: publish_without_commit(workspace.manifest, raised))
        AFTER_RAISE.hit()
    return taken[0]


def single_line_below(manifest: Manifest) -> int:
    """The id below which all were given while the graph had one schema for all its branches.

    In a graph of an older format these are all ids there are. Otherwise it never changes, and is read once.
    """
    known = manifest.single_line_below
    if known is None:
        state = manifest.state(MAIN)
        found = read_identities_text(state.table)
        if found is None:
            return int(manifest.schema(state).ir["next_identity_id"])
        known = manifest.single_line_below = _decoded(found).single_line_below
    return known


def next_identity(manifest: Manifest) -> int:
    """The next id that nobody has taken yet."""
    state = manifest.state(MAIN)
    if read_identities_text(state.table) is None:
        return int(manifest.schema(state).ir["next_identity_id"])
    return _counter(manifest, state).next_id


def _counter(manifest: Manifest, state: BranchState) -> Numbering:
    found = read_identities_text(state.table)
    if found is None:
        raise StorageError(
            f"the manifest of {manifest.root.canonical} has no counter of identities; restore the "
            "graph from a copy"
        )
    return _decoded(found)


def _decoded(text: str) -> Numbering:
    return rows.decode(rows.IDENTITIES, text, _numbering)


def _numbering(document: dict[str, int]) -> Numbering:
    return Numbering(document["next"], document.get("single_line_below", 0))

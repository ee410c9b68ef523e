"""`omnigraph cluster`: bring what a directory declares into force."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.output import note, put
from omnigraph.cli.text_tables import put_table
from omnigraph.display.text import counted
from omnigraph.service.documents import Document

FAILED = 1
ConfigOption = Annotated[
    str, typer.Option("--config", metavar="DIR", help="The directory with cluster.yaml.")
]


def _reserved() -> frozenset[str]:
    from omnigraph.mcp.tools import BUILT_IN_NAMES

    return frozenset(BUILT_IN_NAMES)


def _answer(call: Invocation, document: Document, text: str) -> None:
    """Write a document; without --json a line, the changes and statuses, and what was found on stderr."""

    def show() -> None:
        put(text)
        _put_changes(document)
        _put_statuses(document)

    call.answer(document, show)
    for one in document["diagnostics"]:
        place = f"{one['path']}: " if one["path"] else ""
        line = f"line {one['line']}, " if "line" in one else ""
        note(f"{one['severity']}: {line}{place}{one['message']} ({one['code']})")
    if not document["ok"]:
        raise typer.Exit(FAILED)


def _put_changes(document: Document) -> None:
    if document.get("changes"):
        put_table(
            ("resource", "operation", "becomes", "reason"),
            [
                (one["resource"], one["operation"], one["disposition"], one.get("reason", ""))
                for one in document["changes"]
            ],
        )
        for one in document["changes"]:
            for step in one.get("migration", ()):
                rest = " ".join(f"{key}={value}" for key, value in step.items() if key != "kind")
                put(f"{one['resource']}: {step['kind']} {rest}")


def _put_statuses(document: Document) -> None:
    if document.get("resource_statuses") and "changes" not in document:
        put_table(
            ("resource", "status", "because"),
            [
                (address, one["status"], ", ".join(one.get("conditions", ())))
                for address, one in document["resource_statuses"].items()
            ],
        )


def _verdict(document: Document, good: str, bad: str) -> str:
    return good if document["ok"] else bad


def validate(call: Invocation, config: ConfigOption = ".") -> None:
    """Check cluster.yaml and everything it names, and say all that is wrong."""
    from omnigraph.cluster import commands

    document = commands.validate(config, _reserved())
    count = counted(len(document["resources"]), "resource")
    _answer(call, document, _verdict(document, f"valid: {count}", f"not valid: {count} read"))


def plan(call: Invocation, config: ConfigOption = ".") -> None:
    """Show what apply would change. Nothing is changed."""
    from omnigraph.cluster import planning

    document = planning.plan(config, _reserved())
    count = counted(len(document["changes"]), "change")
    _answer(call, document, _verdict(document, count, "there is no plan"))


def apply(call: Invocation, config: ConfigOption = ".") -> None:
    """Bring what is declared into force."""
    from omnigraph.cluster import apply as applying

    document = applying.apply(config, call.actor, _reserved())
    done = counted(document["applied_count"], "change")
    state = "converged" if document["converged"] else "not converged"
    _answer(call, document, f"{state}: {done} made")


def approve(
    call: Invocation,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Such as graph.shop.")],
    config: ConfigOption = ".",
) -> None:
    """Approve the delete of a graph, as it is now and as cluster.yaml is now."""
    from omnigraph.cluster import planning

    document = planning.approve(config, address, call.actor, _reserved())
    good = f"approved: delete of {address} by {document['approved_by']}"
    _answer(call, document, _verdict(document, good, "not approved"))


def status(call: Invocation, config: ConfigOption = ".") -> None:
    """Show what was applied, who holds the lock, and whether stored files are there."""
    from omnigraph.cluster import commands

    document = commands.status(config)
    seen = document["state_observations"]
    lock = f", locked by {seen.get('lock_id', 'a file')}" if seen["locked"] else ""
    text = f"revision {seen['state_revision']}" if seen["state_found"] else "no ledger"
    _answer(call, document, f"{text}{lock}")


def refresh(call: Invocation, config: ConfigOption = ".") -> None:
    """Look at all graphs and stored files again, and write down what is seen."""
    from omnigraph.cluster import commands

    document = commands.refresh(config, _reserved())
    _answer(call, document, _verdict(document, "refreshed", "refreshed as far as possible"))


def import_cluster(call: Invocation, config: ConfigOption = ".") -> None:
    """Begin a cluster: make its ledger, with the graphs that are there already."""
    from omnigraph.cluster import commands

    document = commands.import_cluster(config, _reserved())
    _answer(call, document, _verdict(document, "imported", "not imported"))


def force_unlock(
    call: Invocation,
    lock_id: Annotated[str, typer.Argument(metavar="LOCK_ID", help="As status shows it.")],
    config: ConfigOption = ".",
) -> None:
    """Remove the lock that a dead command left."""
    from omnigraph.cluster import commands

    document = commands.force_unlock(config, lock_id)
    _answer(call, document, _verdict(document, f"removed lock {lock_id}", "no lock was removed"))

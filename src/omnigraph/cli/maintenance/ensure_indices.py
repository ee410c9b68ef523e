"""`omnigraph ensure-indices`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import opens_storage
from omnigraph.cli.output import note
from omnigraph.cli.register import BranchOption, UriArgument, add

if TYPE_CHECKING:
    from omnigraph.write.index_builds import IndexReport

FAILED = 1
"""The exit code when an index could not be built."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, opens_storage("ensure-indices"), ensure_indices)


def ensure_indices(call: Call, uri: UriArgument = None, branch: BranchOption = None) -> None:
    """Build the declared indexes that are missing, and complete those that do not cover all rows."""
    address = call.address(uri)
    name = "main" if branch is None else branch
    with call.open(address) as graph:
        report = graph.ensure_indices(name, call.actor)
    if report.note is not None:
        note(f"warning: {report.note}")
    answer = report.to_json()
    shown = {key: answer[key] for key in ("built", "failed", "commit")}
    document = {"uri": address.uri, "branch": name, **shown}
    done = None if report.commit is None else "1 commit made"
    call.answer(document, "\n".join(_lines(report)), done)
    if report.failed:
        raise typer.Exit(FAILED)


def _lines(report: IndexReport) -> list[str]:
    lines = [f"built {key} {name}" for key, name in report.built]
    lines += [f"completed {key} {name}" for key, name in report.extended]
    lines += [f"nothing to build on yet: {key} {name}" for key, name in report.pending]
    lines += [f"failed {key} {name}: {why}" for key, name, why in report.failed]
    return lines or ["every index is there and covers all rows"]

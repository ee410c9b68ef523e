"""`omnigraph changes`, and `omnigraph commit changes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.commands.history.change_text import ChangeText
from omnigraph.cli.commands.history.filters import FilterOptions, NoImagesOption
from omnigraph.cli.output import one_line, put
from omnigraph.cli.progress import export_progress
from omnigraph.cli.register import BranchOption, UriArgument, UriOption, add, group
from omnigraph.cli.tables import moment
from omnigraph.display.text import counted
from omnigraph.service import changes as service
from omnigraph.service.documents import Document, Streamed

# Changes are written below the title of their commit.
_INDENT = "  "

LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", min=1, help="At most N changes on a page, 1000 by default."
    ),
]
PageTokenOption = Annotated[
    str | None,
    typer.Option("--page-token", metavar="T", help="Only the page that this token names."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    changes = group(app, "changes", "Follow what commits change.")
    add(changes, "changes poll", poll)
    add(changes, "changes baseline", baseline)


def poll(
    call: Call,
    shown: FilterOptions,
    uri: UriArgument = None,
    branch: BranchOption = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="C", help="Go on after the poll that gave it.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start", metavar="now|beginning|after:ID", help="Where to begin, now if left out."
        ),
    ] = None,
    no_images: NoImagesOption = False,
    limit: LimitOption = None,
) -> None:
    """Show the next commits of a branch with what each changed, and the cursor to go on with."""
    request = service.PollRequest(
        branch=branch,
        start=start,
        cursor=cursor,
        images=not no_images,
        limit=limit,
        **shown.read(),
    )
    with call.open(call.address(uri)) as graph:
        document = service.poll(graph, request)

    def text() -> None:
        for block in document["blocks"]:
            put_title(block)
            put_changes(block["changes"], _INDENT)
        more = "caught up" if document["caught_up"] else "there is more"
        put(f"cursor: {document['cursor']}\n{more}")

    call.answer(document, text)


def baseline(
    call: Call,
    shown: FilterOptions,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where to write the records.")],
    uri: UriArgument = None,
    branch: BranchOption = None,
) -> None:
    """Write the newest state of a branch as JSON lines, and show the cursor that goes on after it."""
    request = service.BaselineRequest(branch=branch, **shown.read())
    with export_progress(call.flags) as progress, call.open(call.address(uri)) as graph:
        document = service.baseline(graph, request, out, progress)
    records, commit = document["stats"]["records"], document["snapshot_commit_id"]
    text = f"wrote {counted(records, 'record')} of commit {commit}\ncursor: {document['resume_cursor']}"
    call.answer(document, text)


def commit_changes(
    call: Call,
    graph_commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit id.")],
    shown: FilterOptions,
    uri: UriOption = None,
    no_images: NoImagesOption = False,
    limit: LimitOption = None,
    page_token: PageTokenOption = None,
) -> None:
    """Show what a commit changed against its first parent."""
    request = service.CommitChangesRequest(
        graph_commit_id=graph_commit_id,
        images=not no_images,
        limit=limit,
        page_token=page_token,
        **shown.read(),
    )
    with call.open(call.address(uri)) as graph:
        if page_token is not None:
            page = service.commit_changes_page(graph, request)
            call.answer(page, lambda: _put_page(page))
        else:
            # Inside, because the changes are found while they are printed.
            found = service.commit_changes(graph, request)
            call.answer(found, lambda: _put_all(found))


def _put_page(page: Document) -> None:
    put_title(page)
    put_changes(page["changes"], _INDENT)
    put_page_token(page)


def _put_all(found: Streamed) -> None:
    put_title({**found.head, **found.end()})
    for changes in found.values():
        put_changes(changes, _INDENT)


def put_title(block: Document) -> None:
    """Write what stands above the changes of a commit: who made it, and the steps of a schema change."""
    cause = block["cause"]
    by = "" if cause["actor_id"] is None else f" by {cause['actor_id']}"
    title = f"commit {cause['graph_commit_id']} on {cause['authored_branch']}{by}"
    put(ChangeText.for_stdout().title(f"{title}, {moment(cause['authored_at'])}"))
    for line in cause.get("message", "").splitlines():
        put(f"  {one_line(line)}".rstrip())
    for step in block.get("schema", {}).get("steps", ()):
        put(f"  schema: {step['kind']}")


def put_changes(changes: Iterable[Document], indent: str = "") -> None:
    """Write changes, each with what its properties became."""
    text = ChangeText.for_stdout()
    for change in changes:
        put("\n".join(f"{indent}{line}" for line in text.lines(change)))


def put_page_token(page: Document) -> None:
    """Write the token of the next page, if there is one."""
    if "next_page_token" in page:
        put(f"page token: {page['next_page_token']}")

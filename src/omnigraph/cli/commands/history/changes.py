"""`omnigraph changes`, and `omnigraph commit changes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.commands.history.change_text import ChangeText
from omnigraph.cli.commands.history.filters import FilterOptions
from omnigraph.cli.output import put
from omnigraph.cli.progress import export_progress
from omnigraph.cli.register import BranchOption, UriArgument, UriOption, add, group
from omnigraph.cli.tables import moment

if TYPE_CHECKING:
    from omnigraph.changes.feed.commit_changes import ChangeBlock, CommitChanges
    from omnigraph.changes.feed.poll import ChangePage
    from omnigraph.graph import Graph

LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", min=1, help="At most N changes on a page, 1000 by default."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    changes = group(app, "changes", "Follow what commits change.")
    add(changes, reads_graph("changes poll"), poll)
    add(changes, reads_graph("changes baseline"), baseline)


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
    limit: LimitOption = None,
) -> None:
    """Show the next commits of a branch with what each changed, and the cursor to go on with."""
    with call.open(call.address(uri)) as graph:
        pages = list(
            _whole_blocks(graph, "main" if branch is None else branch, start, cursor, shown, limit)
        )
    last = pages[-1]
    document = {**last.to_json(), "blocks": _joined(pages)}

    def text() -> None:
        for page in pages:
            for block in page.blocks:
                _put_block(block)
        put(f"cursor: {last.cursor}\n" + ("caught up" if last.caught_up else "there is more"))

    call.answer(document, text)


def _whole_blocks(
    graph: Graph,
    branch: str,
    start: str | None,
    cursor: str | None,
    shown: FilterOptions,
    limit: int | None,
) -> Iterator[ChangePage]:
    """Yield a page, and the rest of its last block if the page ends inside it."""
    wanted = shown.read()
    page = graph.changes.poll(branch, start=start, cursor=cursor, limit=limit, **wanted)
    yield page
    while page.next_page_token is not None:
        token = page.next_page_token
        page = graph.changes.poll(branch, page_token=token, max_commits=1, limit=limit, **wanted)
        yield page


def _joined(pages: list[ChangePage]) -> list[dict[str, Any]]:
    """Return the blocks of all pages, each commit once."""
    blocks: dict[str, dict[str, Any]] = {}
    for page in pages:
        for block in page.blocks:
            document = block.to_json()
            known = blocks.setdefault(block.commit.graph_commit_id, document)
            if known is not document:
                known["changes"] += document["changes"]
    return list(blocks.values())


def baseline(
    call: Call,
    shown: FilterOptions,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where to write the records.")],
    uri: UriArgument = None,
    branch: BranchOption = None,
) -> None:
    """Write the newest state of a branch as JSON lines, and show the cursor that goes on after it."""
    from omnigraph.graph.history import changes
    from omnigraph.graph.session import access_of
    from omnigraph.manifest.branch_names import trim_branch_name

    wanted = shown.read()
    with export_progress(call.flags) as progress, call.open(call.address(uri)) as graph:
        done = changes.baseline(
            access_of(graph),
            out,
            trim_branch_name("main" if branch is None else branch),
            (wanted["kinds"], wanted["types"], wanted["ops"]),
            progress=progress,
            # The handle is read-only because nothing is changed; others must know about the read.
            lease=True,
        )
    text = (
        f"wrote {done.stats.records} records of commit {done.snapshot_commit_id}\n"
        f"cursor: {done.resume_cursor}"
    )
    call.answer(done.to_json(), text)


def commit_changes(
    call: Call,
    graph_commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit id.")],
    shown: FilterOptions,
    uri: UriOption = None,
    limit: LimitOption = None,
    page_token: Annotated[
        str | None,
        typer.Option("--page-token", metavar="T", help="Only the page that this token names."),
    ] = None,
) -> None:
    """Show what a commit changed against its first parent."""
    with call.open(call.address(uri)) as graph:
        name = graph_commit_id.strip()
        wanted = shown.read()
        page = graph.commits.changes(name, limit=limit, page_token=page_token, **wanted)
        pages: list[CommitChanges] = [page]
        while page_token is None and page.next_page_token is not None:
            token = page.next_page_token
            page = graph.commits.changes(name, limit=limit, page_token=token, **wanted)
            pages.append(page)
    document = page.to_json()
    document["changes"] = [change for each in pages for change in each.to_json()["changes"]]

    def text() -> None:
        for each in pages:
            _put_block(each.block)
        if page.next_page_token is not None:
            put(f"page token: {page.next_page_token}")

    call.answer(document, text)


def _put_block(block: ChangeBlock) -> None:
    """Write one block: who made the commit, the steps of a schema change, and the changes."""
    cause = block.cause
    by = "" if cause["actor_id"] is None else f" by {cause['actor_id']}"
    title = f"commit {cause['graph_commit_id']} on {cause['authored_branch']}{by}"
    text = ChangeText.for_stdout()
    lines = [text.title(f"{title}, {moment(cause['authored_at'])}")]
    if block.schema is not None:
        lines += [f"  schema: {step['kind']}" for step in block.schema["steps"]]
    for change in block.changes:
        lines += [f"  {line}" for line in text.lines(change.to_json())]
    put("\n".join(lines))

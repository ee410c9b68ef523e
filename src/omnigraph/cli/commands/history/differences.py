"""`omnigraph changes`, `omnigraph commit changes` and `omnigraph diff`: what was changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.commands.history.change_text import ChangeText
from omnigraph.cli.output import put
from omnigraph.cli.progress_line import export_progress
from omnigraph.cli.shared_options import BranchOption, UriArgument, UriOption, checked_state
from omnigraph.cli.sides.side import all_commit_changes
from omnigraph.cli.sides.side import poll as poll_all
from omnigraph.cli.text_tables import moment
from omnigraph.display.text import counted, printable
from omnigraph.lang.schema.migrate.read_steps import step_texts
from omnigraph.manifest.snapshot import TEXT_FORMS
from omnigraph.service import wire
from omnigraph.service.documents import Document, Streamed

NoImagesOption = Annotated[
    bool, typer.Option("--no-images", help="Leave out the values of properties.")
]
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
COUNTED = {"inserts": "inserted", "updates": "updated", "deletes": "deleted"}


class KindWord(StrEnum):
    """A value of `--kind`."""

    node = "node"
    edge = "edge"


class OpWord(StrEnum):
    """A value of `--op`."""

    insert = "insert"
    update = "update"
    delete = "delete"


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Flags of a command that shows changes; each may be repeated, and without it all are shown."""

    kind: Annotated[
        list[KindWord] | None, typer.Option("--kind", help="Only nodes, or only edges.")
    ] = None
    type_: Annotated[
        list[str] | None, typer.Option("--type", metavar="T", help="Only this type.")
    ] = None
    op: Annotated[
        list[OpWord] | None, typer.Option("--op", help="Only what was inserted, say.")
    ] = None

    def read(self) -> dict[str, Any]:
        """Return the filter as a request takes it."""
        return {
            "kinds": list(map(str, self.kind or ())),
            "types": self.type_ or [],
            "ops": list(map(str, self.op or ())),
        }


def poll(
    call: Invocation,
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
    request = wire.FeedParameters(
        branch=branch,
        start=start,
        cursor=cursor,
        images=not no_images,
        limit=limit,
        **shown.read(),
    )
    with call.reach(call.address(uri)) as side:
        document = poll_all(side, request)

    def text() -> None:
        for block in document["blocks"]:
            put_title(block)
            put_changes(block["changes"], _INDENT)
        more = "caught up" if document["caught_up"] else "there is more"
        put(f"cursor: {document['cursor']}\n{more}")

    call.answer(document, text)


def baseline(
    call: Invocation,
    shown: FilterOptions,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where to write the records.")],
    uri: UriArgument = None,
    branch: BranchOption = None,
) -> None:
    """Write the newest state of a branch as JSON lines, and show the cursor that goes on after it."""
    request = wire.BaselineBody(branch=branch, **shown.read())
    with export_progress(call.flags) as progress, call.reach(call.address(uri)) as side:
        document = side.baseline(request, out, progress)
    records, commit = document["stats"]["records"], document["snapshot_commit_id"]
    text = f"wrote {counted(records, 'record')} of commit {commit}\ncursor: {document['resume_cursor']}"
    call.answer(document, text)


def commit_changes(
    call: Invocation,
    graph_commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit id.")],
    shown: FilterOptions,
    uri: UriOption = None,
    no_images: NoImagesOption = False,
    limit: LimitOption = None,
    page_token: PageTokenOption = None,
) -> None:
    """Show what a commit changed against its first parent."""
    request = wire.CommitChangesParameters(
        images=not no_images,
        limit=limit,
        page_token=page_token,
        **shown.read(),
    )
    with call.reach(call.address(uri)) as side:
        if page_token is not None:
            page = side.ask("commit_changes", request, graph_commit_id)
            call.answer(page, lambda: _put_page(page))
        else:
            # Inside, because the changes are found while they are printed.
            changed = all_commit_changes(side, request, graph_commit_id)
            call.answer(changed, lambda: _put_all(changed))


def _put_page(page: Document) -> None:
    put_title(page)
    put_changes(page["changes"], _INDENT)
    put_page_token(page)


def _put_all(changed: Streamed) -> None:
    put_title({**changed.head, **changed.end()})
    for changes in changed.values():
        put_changes(changes, _INDENT)


def put_title(block: Document) -> None:
    """Write what stands above the changes of a commit: who made it, and the steps of a schema change."""
    cause = block["cause"]
    by = "" if cause["actor_id"] is None else f" by {cause['actor_id']}"
    title = f"commit {cause['graph_commit_id']} on {cause['authored_branch']}{by}"
    put(ChangeText.for_stdout().title(f"{title}, {moment(cause['authored_at'])}"))
    for line in cause.get("message", "").splitlines():
        put(f"  {printable(line)}".rstrip())
    for member in cause.get("members", ()):
        put(f"{_INDENT}{_member_text(member)}")
    put_steps(block, _INDENT)


def _member_text(member: Document) -> str:
    """Return who made one of the mutations that share a commit, the first ids it changed, and its message."""
    ids = (f"{key} {', '.join(some)}" for key, some in member["ids"].items())
    said = f' "{member["message"].splitlines()[0]}"' if "message" in member else ""
    return printable(f"by {member['actor_id'] or 'nobody'}: {'; '.join(ids)}{said}")


def put_steps(document: Document, indent: str = "") -> None:
    """Write the steps of a schema change, if there is one."""
    if "schema" in document:
        steps = step_texts(document["schema"])
        put(f"{indent}schema: {counted(len(steps), 'step')}")
        for step in steps:
            put(f"{indent}  {printable(step)}")


def put_changes(changes: Iterable[Document], indent: str = "") -> None:
    """Write changes, each with what its properties became."""
    text = ChangeText.for_stdout()
    for change in changes:
        put("\n".join(f"{indent}{line}" for line in text.lines(change)))


def put_page_token(page: Document) -> None:
    """Write the token of the next page, if there is one."""
    if "next_page_token" in page:
        put(f"page token: {page['next_page_token']}")


def diff(
    call: Invocation,
    from_: Annotated[str, typer.Argument(metavar="FROM", help=f"One state: {TEXT_FORMS}.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="The other state, named alike.")],
    shown: FilterOptions,
    uri: UriOption = None,
    no_images: NoImagesOption = False,
    limit: LimitOption = None,
    page_token: PageTokenOption = None,
) -> None:
    """Show what changed, net, from one state of the graph to another."""
    request = wire.DiffBody(
        from_=checked_state(from_),
        to=checked_state(to),
        images=not no_images,
        limit=limit,
        page_token=page_token,
        **shown.read(),
    )
    with call.reach(call.address(uri)) as side:
        if page_token is not None:
            page = side.ask("diff", request)
            call.answer(page, lambda: _put_diff_page(page))
        else:
            # Inside, because the changes are found while they are printed.
            differing = side.diff(request)
            call.answer(differing, lambda: _put_diff(differing))


def _put_diff_page(page: Document) -> None:
    put_steps(page)
    put_changes(page["changes"])
    put_page_token(page)


def _put_diff(differing: Streamed) -> None:
    put_steps(differing.head)
    for changes in differing.values():
        put_changes(changes)
    stats = differing.end()["stats"]
    is_empty = not any(stats[name] for name in COUNTED)
    counts = (f"{stats[name]:,} {what}" for name, what in COUNTED.items())
    if is_empty:
        put("no differences" if "schema" not in differing.head else "no differences in rows")
        return
    put(", ".join(counts))

"""`omnigraph diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.commands.history.change_text import ChangeText
from omnigraph.cli.commands.history.changes import LimitOption
from omnigraph.cli.commands.history.filters import FilterOptions
from omnigraph.cli.output import put
from omnigraph.cli.register import UriOption, add
from omnigraph.cli.targets import WORD, parse_word

if TYPE_CHECKING:
    from omnigraph.changes.diff_result import DiffPage, DiffResult, DiffStats


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("diff"), diff)


def diff(
    call: Call,
    from_: Annotated[str, typer.Argument(metavar="FROM", help=f"One state: {WORD}.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="The other state, named alike.")],
    shown: FilterOptions,
    uri: UriOption = None,
    no_images: Annotated[
        bool, typer.Option("--no-images", help="Leave out the values of properties.")
    ] = False,
    limit: LimitOption = None,
    page_token: Annotated[
        str | None,
        typer.Option("--page-token", metavar="T", help="Only the page that this token names."),
    ] = None,
) -> None:
    """Show what changed, net, from one state of the graph to another."""
    from omnigraph.changes.paging.pages import check_changes

    before, after = parse_word(from_), parse_word(to)
    check_changes(limit)
    with call.open(call.address(uri)) as graph:
        result = graph.diff(before, after, images=not no_images, **shown.read())
        if page_token is not None:
            page = result.page(limit, page_token)
            call.answer(page.to_json(), lambda: _put_page(page))
            return
        # Not built for people: they see each change as it is found.
        call.answer(result.to_json() if call.flags.json else None, lambda: _put_all(result))


def _put_page(page: DiffPage) -> None:
    text = ChangeText.for_stdout()
    for change in page.changes:
        put("\n".join(text.lines(change.to_json())))
    if page.next_page_token is not None:
        put(f"page token: {page.next_page_token}")


def _put_all(result: DiffResult) -> None:
    text = ChangeText.for_stdout()
    for change in result:
        put("\n".join(text.lines(change.to_json())))
    put(_summary(result.stats))


def _summary(stats: DiffStats) -> str:
    counts = [(stats.inserts, "inserted"), (stats.updates, "updated"), (stats.deletes, "deleted")]
    if not any(count for count, _ in counts):
        return "no differences"
    return ", ".join(f"{count:,} {what}" for count, what in counts)

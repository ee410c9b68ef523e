"""Run one statement through the service layer and write its answer."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

from omnigraph.cli.call import Call
from omnigraph.cli.commands.load import load_text
from omnigraph.cli.commands.mutate import mutation_text
from omnigraph.cli.formats import Format, render
from omnigraph.cli.output import (
    is_utf8_output,
    note,
    on_terminal,
    one_line,
    printable,
    put,
    put_piece,
)
from omnigraph.cli.progress import load_progress
from omnigraph.errors import BadRequest
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.service.query import QueryRequest, query
from omnigraph.service.writes.loads import LoadRequest, load
from omnigraph.service.writes.mutate import MutateRequest, mutate

if TYPE_CHECKING:
    from omnigraph.cli.address import Store
    from omnigraph.service.requests import Session, TargetValues

SHOWN_ROWS = 100
"""So many rows of a table are drawn on a screen."""

DEFAULT_MODE: LoadMode = "merge"

Params = Mapping[str, Any]


def put_rows(
    session: Session, text: str, params: Params, state: TargetValues, format: Format
) -> None:
    """Run a read and write its rows; on a screen the first rows of a table, and the time it took."""
    is_screen = on_terminal()
    most = SHOWN_ROWS if is_screen and format is Format.TABLE else None
    began = time.perf_counter()
    answer = query(session, QueryRequest(query=text, params=params, max_rows=most, **state))
    took = time.perf_counter() - began
    width = shutil.get_terminal_size().columns if is_screen else None
    for piece in render(answer, format, ascii_only=not is_utf8_output(), width=width):
        put_piece(piece)
    end = answer.end()
    if end.get("truncated"):
        note(
            f"the first {SHOWN_ROWS} of {end['total_rows']:,} rows; .format csv, say, prints them all"
        )
    if is_screen:
        note(f"{took * 1000:,.0f} ms")


def put_mutation(session: Session, text: str, params: Params, branch: str) -> None:
    """Run a mutation and say what it changed."""
    put(mutation_text(mutate(session, MutateRequest(query=text, params=params, branch=branch))))


def put_explanation(session: Session, text: str, state: TargetValues) -> None:
    """Write what a read would do."""
    put(printable(session.explain(text, **state).text))


def put_profile(session: Session, text: str, params: Params, state: TargetValues) -> None:
    """Run a read and write where its time goes."""
    put(printable(session.profile(text, None, params, **state).text))


def put_load(call: Call, address: Store, session: Session, words: list[str], branch: str) -> None:
    """Load a file of JSON lines, in the mode named behind it, and say what was loaded."""
    file, mode = _file_and_mode(words)
    if mode == "overwrite":
        call.consent(address, "overwriting tables")
    request = LoadRequest(mode=mode, data=(file,), branch=branch)
    with load_progress(call.flags) as progress:
        document = load(session, request, address.uri, progress=progress)
    put(load_text(document))


def _file_and_mode(words: list[str]) -> tuple[str, LoadMode]:
    if not words or len(words) > 2:
        raise BadRequest(f".load takes a file and a mode: .load people.jsonl {DEFAULT_MODE}")
    file, mode = words[0], words[1] if len(words) == 2 else DEFAULT_MODE
    if mode not in get_args(LoadMode):
        raise BadRequest(
            f"there is no mode `{one_line(mode)}`; write {', '.join(get_args(LoadMode))}"
        )
    return file, cast("LoadMode", mode)

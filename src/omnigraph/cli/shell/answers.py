"""Run one statement through the service layer and write its answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

from omnigraph.cli.call import Invocation
from omnigraph.cli.commands.load import load_text
from omnigraph.cli.commands.query import put_answer, put_explanation
from omnigraph.cli.commands.query import put_mutation as put_changes
from omnigraph.cli.formats import TABLE_ROWS, Format
from omnigraph.cli.output import note, on_terminal, put
from omnigraph.cli.progress_line import load_progress
from omnigraph.display.text import counted, printable
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.schema.syntax.parser import parse
from omnigraph.lang.schema.syntax.printer import render
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.service import wire
from omnigraph.service.loads import LoadRequest
from omnigraph.spelling import did_you_mean

if TYPE_CHECKING:
    from omnigraph.cli.address import Reachable
    from omnigraph.cli.sides.side import GraphSide
    from omnigraph.service.documents import TargetValues


SHOWN_ROWS = 100
"""This many rows of a table are drawn on a screen."""

DEFAULT_MODE: LoadMode = "merge"

Params = Mapping[str, Any]


def put_rows(
    call: Invocation,
    side: GraphSide,
    text: str,
    params: Params,
    state: TargetValues,
    format: Format,
) -> None:
    """Run a read and write its rows; on a screen the first rows of a table, and the time it took."""
    is_screen = on_terminal()
    rows = SHOWN_ROWS if is_screen else TABLE_ROWS
    most = rows if format is Format.TABLE else None
    began = time.perf_counter()
    answer = side.query(wire.QueryBody(query=text, params=dict(params), max_rows=most, **state))
    took = time.perf_counter() - began
    put_answer(call, answer, format)
    end = answer.end()
    if end.get("truncated"):
        note(
            f"the first {rows:,} of {counted(end['total_rows'], 'row')}; .format csv, say, prints them all"
        )
    if is_screen:
        note(f"{took * 1000:,.0f} ms")


def put_mutation(side: GraphSide, text: str, params: Params, branch: str) -> None:
    """Run a mutation and say what it changed."""
    request = wire.MutateBody(query=text, params=dict(params), branch=branch)
    put_changes(side.ask("mutate", request))


def put_explained(
    side: GraphSide, text: str, params: Params | None, state: TargetValues, *, profile: bool
) -> None:
    """Write what a read would do; with ``profile`` run it and write where its time goes, too."""
    given = None if params is None else dict(params)
    request = wire.ExplainBody(query=text, params=given, profile=profile, **state)
    put_explanation(side.ask("explain", request))


def put_load(
    call: Invocation, address: Reachable, side: GraphSide, words: list[str], branch: str
) -> None:
    """Load a file of JSON lines, in the mode named behind it, and say what was loaded."""
    file, mode = _file_and_mode(words)
    if mode == "overwrite":
        call.consent(address, "overwriting tables")
    request = LoadRequest(mode=mode, data=(file,), branch=branch)
    with load_progress(call.flags) as progress:
        document = side.load(request, None, progress)
    put(load_text(document))


def _file_and_mode(words: list[str]) -> tuple[str, LoadMode]:
    if not words or len(words) > 2:
        raise BadRequest(f".load takes a file and a mode: .load people.jsonl {DEFAULT_MODE}")
    file, mode = words[0], words[1] if len(words) == 2 else DEFAULT_MODE
    if mode not in get_args(LoadMode):
        raise BadRequest(
            f"there is no mode `{printable(mode)}`; write {', '.join(get_args(LoadMode))}"
        )
    return file, cast("LoadMode", mode)


def declaration(source: str, name: str) -> str:
    """Return the declaration of a type or interface, after those of the interfaces it implements."""
    declared = parse(source).declarations
    wanted = [each for each in declared if each.name.text == name]
    if not wanted:
        known = [each.name.text for each in declared]
        hint = did_you_mean(name, known) or ".schema shows them all"
        raise BadRequest(f"there is no type `{name}`; {hint}")
    implemented = {
        word.text for each in wanted if isinstance(each, ast.Node) for word in each.implements
    }
    shown = [each for each in declared if each.name.text in implemented] + wanted
    return render(ast.Schema(tuple(shown)))

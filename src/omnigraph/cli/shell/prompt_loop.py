"""`omnigraph shell`: statements that are typed at a prompt, or piped in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph import settings
from omnigraph.cli.call import Invocation
from omnigraph.cli.output import note, report
from omnigraph.cli.shared_options import BranchOption, UriArgument, open_stdin
from omnigraph.cli.shell.statements import Splitter, Statement
from omnigraph.errors import BadRequest, OmniGraphError, SourceError

# The help of all commands loads this module, and must not load the engine.
if TYPE_CHECKING:
    from omnigraph.cli.shell.shell import Shell

HISTORY = "shell_history"
"""The name of the file with the statements that were typed, in the directory of the operator's files."""


def shell(call: Invocation, uri: UriArgument = None, branch: BranchOption = None) -> None:
    """Run queries and mutations at a prompt, or those that are piped in."""
    from omnigraph.cli.shell.shell import Shell

    if call.flags.json:
        raise BadRequest("--json cannot be used with shell; .format json prints rows as JSON")
    address = call.address(uri)
    with call.reach(address, writes=True) as side:
        run(Shell(call, address, side, branch))


def run(shell: Shell) -> None:
    """Run what is typed or piped in, until it ends or the user leaves."""
    from omnigraph.cli.shell.shell import ShellLeft

    try:
        if sys.stdin is not None and sys.stdin.isatty():
            _prompt(shell)
        else:
            _run_piped(shell)
    except ShellLeft:
        return


def _prompt(shell: Shell) -> None:
    """Ask for statements and run them until the user leaves."""
    from omnigraph.cli.shell.prompt import Prompt

    home = settings.HOME.get()
    prompt = Prompt(shell.names, None if home is None else home / HISTORY)
    note(f"{shell.uri}: .help lists the commands, Ctrl-D leaves")
    while True:
        try:
            _run_typed(shell, prompt.ask(shell.label))
        except KeyboardInterrupt:  # also between two prompts
            continue
        except EOFError:
            return


def _run_typed(shell: Shell, text: str) -> None:
    """Run what was typed at once; the first failure ends it, not the shell."""
    splitter = Splitter()
    try:
        for statement in splitter.feed(f"{text}\n\n"):
            shell.run(statement)
    except OmniGraphError as error:
        report(error)
    except KeyboardInterrupt:
        note("\ninterrupted")  # the terminal has written ^C


def _run_piped(shell: Shell) -> None:
    """Run the statements of standard input, each as soon as it has come; a failure ends it."""
    splitter = Splitter()
    for line in _lines():
        for statement in splitter.feed(line):
            _run_at_its_line(shell, statement)
    rest = splitter.finish()
    if rest is not None:
        _run_at_its_line(shell, rest)


def _run_at_its_line(shell: Shell, statement: Statement) -> None:
    """Run a statement; an error shows the line of the input."""
    try:
        shell.run(statement)
    except OmniGraphError as error:
        if isinstance(error, SourceError) and error.span is not None:
            line = error.span.line + statement.line - 1
            error.span, error.filename = error.span._replace(line=line), "<stdin>"
        else:
            error.args = (f"line {statement.line} of stdin: {error}",)
        raise


def _lines() -> Iterator[str]:
    """Yield the lines of standard input."""
    for number, line in enumerate(open_stdin("shell"), 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise BadRequest(f"line {number} of stdin is not UTF-8 text; pipe UTF-8 in") from None

"""What a word being typed can become: commands, options, their values, branches and types.

Completion never prints an error: if anything goes wrong, it offers nothing. `omnigraph completion` prints the
scripts by which shells ask.

The argument parser could complete, too, but takes three times as long (6.4 instead of 2.4 ms for an option
of `snapshot`, 200 ms instead of none for the first word, since it loads every command), does not know that the
first word is the graph only where nothing else names one, and is private to its library.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn

import typer

from omnigraph.cli.app import VALUED, build, command_word
from omnigraph.cli.call import Invocation
from omnigraph.cli.command import LEGACY, WORDS, Flags
from omnigraph.cli.operator.config import read_operator
from omnigraph.storage import layout

PATIENCE: Final = 0.3
"""How many seconds a look into a graph may take."""
BRANCHES: Final = frozenset({"--branch", "--from", "--into"})
TYPES: Final = frozenset({"--type", "--node", "--edge"})
#: Arguments that name a branch, or a state by the name of a branch.
NAMED_BRANCHES: Final = {
    "branch delete": {"name"},
    "branch merge": {"source"},
    "diff": {"from_", "to"},
    "schema diff": {"from_", "to"},
    "tag create": {"target"},
}
Shell = Literal["bash", "zsh", "fish"]
#: Each asks `omnigraph __complete WORD…`, whose last word is the one being typed. Where that finds
#: nothing, the shell completes names of files.
SCRIPTS: Final[dict[Shell, str]] = {
    "bash": """\
# Completion of omnigraph for bash: eval "$(omnigraph completion bash)"
_omnigraph() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(omnigraph __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _omnigraph omnigraph
""",
    "zsh": """\
#compdef omnigraph
# Completion of omnigraph for zsh: eval "$(omnigraph completion zsh)"
_omnigraph() {
    local -a found
    found=(${(f)"$(omnigraph __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then
        compadd -a found
    else
        _files
    fi
}
compdef _omnigraph omnigraph
""",
    "fish": """\
# Completion of omnigraph for fish 3.4 or newer: omnigraph completion fish | source
complete -c omnigraph -a '(omnigraph __complete (commandline -opc)[2..-1] "$(commandline -ct)" 2>/dev/null)'
""",
}


class _TooLate(Exception):
    """The graph did not answer in time."""


def complete(words: Sequence[str]) -> list[str]:
    """Return what the last of the words can become; empty if that is unknown."""
    try:
        return _found(words)
    except Exception:  # noqa: BLE001 - a completion never disturbs the person who types
        return []


def _found(words: Sequence[str]) -> list[str]:
    *before, current = words or [""]
    first = command_word(before)
    if first is None and before and before[-1] in VALUED:
        return _matching(current, _profiles() if before[-1] == "--profile" else ())
    if first is None and not current.startswith("-"):
        return _matching(current, WORDS)
    if first is not None and LEGACY.get(first, first) not in WORDS:
        return []
    from typer.main import get_command

    command: Any = get_command(build(before))
    name: list[str] = []
    given: list[str] = []
    for word in before:
        inner = getattr(command, "commands", {}).get(word)
        if inner is None:
            given.append(word)
        else:
            command, given = inner, []
            name.append(word)
    options = [each for each in command.params if each.param_type_name == "option"]
    last = next((each for each in options if given and given[-1] in each.opts), None)
    if last is not None and not last.is_flag:
        return _values(last, before, current)
    if current.startswith("-"):
        shown = (max(each.opts, key=len) for each in options if not each.hidden)
        return _matching(current, [*shown, "--help"])
    count = _count_arguments(given, options)
    if hasattr(command, "commands"):
        known = (word for word, inner in command.commands.items() if not inner.hidden)
        return [] if count else _matching(current, known)
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if arguments and arguments[0].metavar == "URI" and _is_named(before):
        # The words are names, because an option or a profile has the graph.
        arguments = arguments[1:] or arguments
    if count >= len(arguments) and not (arguments and arguments[-1].nargs == -1):
        return []
    argument = arguments[min(count, len(arguments) - 1)]
    if argument.name in NAMED_BRANCHES.get(" ".join(name), ()):
        return _matching(current, _look(before, _branches))
    return _values(argument, before, current)


def _count_arguments(given: Sequence[str], options: Sequence[Any]) -> int:
    """Return how many of the words are neither options nor their values."""
    takes = {
        spelling: 0 if each.is_flag else each.nargs for each in options for spelling in each.opts
    }
    count = skip = 0
    for word in given:
        if skip:
            skip -= 1
        elif word.startswith("-"):
            skip = takes.get(word, 0)
        else:
            count += 1
    return count


def _values(parameter: Any, before: Sequence[str], current: str) -> list[str]:
    """Return what may follow an option, or stand as an argument."""
    spelled = set(parameter.opts)
    if spelled & BRANCHES:
        return _matching(current, _look(before, _branches))
    if spelled & TYPES:
        return _matching(current, _look(before, _types))
    if "--profile" in spelled:
        return _matching(current, _profiles())
    # Without a context: the choices of a type do not depend on the other words.
    choices = parameter.shell_complete(None, current)
    return [choice.value for choice in choices if choice.type == "plain"]


def _profiles() -> list[str]:
    return sorted(read_operator().profiles)


def _look(before: Sequence[str], reader: Callable[[Path], list[str]]) -> list[str]:
    """Return the names that a local graph holds, if it answers in time."""
    with contextlib.suppress(_TooLate):
        with _alarm():
            graph = _graph_among(before)
        if graph is None:  # reading the operator's file is no look into a graph
            graph = _configured_graph(before)
        with _alarm():
            return [] if graph is None else reader(graph)
    return []


def _is_named(before: Sequence[str]) -> bool:
    """Return whether an option among the words, a profile or a default names the graph."""
    from omnigraph.cli.address import named_by

    options = {"--uri", "--store", "--server", "--cluster", "--profile"}
    return bool(options & set(before)) or named_by(Flags(), None, read_operator) is not None


def _graph_among(words: Sequence[str]) -> Path | None:
    """Return the local graph that a word names."""
    from omnigraph.cli.words import is_graph
    from omnigraph.storage.uris import Root

    named = next((word for word in words if is_graph(word)), None)
    return None if named is None else Path(Root.parse(named).path)


def _configured_graph(before: Sequence[str]) -> Path | None:
    """Return the local graph of a profile or a default."""
    from omnigraph.cli.address import Store, resolve
    from omnigraph.cli.command import COMMANDS
    from omnigraph.storage.uris import Root

    profile = next((name for flag, name in pairwise(before) if flag == "--profile"), None)
    address = resolve(COMMANDS["snapshot"], Flags(profile=profile), None, read_operator())
    if isinstance(address, Store) and address.is_local:
        return Path(Root.parse(address.uri).path)
    return None


def _branches(graph: Path) -> list[str]:
    from omnigraph.manifest.branch_names import MAIN
    from omnigraph.storage.objects.local_objects import LocalObjectStore
    from omnigraph.storage.tables.branch_refs import read_branch_names

    names = read_branch_names(LocalObjectStore(str(graph)), layout.MANIFEST)
    return [MAIN, *(name for name in names if not name.startswith("__"))]


def _types(graph: Path) -> list[str]:
    document = json.loads((graph / layout.SCHEMA_IR).read_text("utf-8"))
    return [each["name"] for kind in ("nodes", "edges") for each in document[kind]]


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Raise ``_TooLate`` in the block when the time is over, where the system can."""
    if not hasattr(signal, "setitimer") or (
        threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def ring(_number: int, _frame: object) -> NoReturn:
        raise _TooLate

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _matching(current: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(current)]


def completion(
    call: Invocation, shell: Annotated[Shell, typer.Argument(help="The shell to complete in.")]
) -> None:
    """Print the script that makes a shell complete omnigraph command lines."""
    call.answer({"shell": shell, "script": SCRIPTS[shell]}, SCRIPTS[shell])

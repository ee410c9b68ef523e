"""Find what a word being typed can become: commands, options, their values, branches and types.

Silent by contract: whatever goes wrong, there is nothing to complete.
"""

from __future__ import annotations

import contextlib
import enum
import json
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, get_args, get_origin

from omnigraph.cli.app import MODULES, VALUED, build, command_word
from omnigraph.cli.command import Flags
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
    "tag create": {"target"},
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
    awaits_value = bool(before) and before[-1] in VALUED
    if command_word(before) is None and not awaits_value and not current.startswith("-"):
        return _matching(current, MODULES)
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
        return _matching(current, _values(last, before))
    if current.startswith("-"):
        shown = (max(each.opts, key=len) for each in options if not each.hidden)
        return _matching(current, [*shown, "--help"])
    count = _count_arguments(given, options)
    if hasattr(command, "commands"):
        known = (word for word, inner in command.commands.items() if not inner.hidden)
        return [] if count else _matching(current, known)
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if arguments and arguments[0].metavar == "URI" and _is_named(before):
        arguments = (
            arguments[1:] or arguments
        )  # the words are names, as an option or profile has the graph
    if count >= len(arguments) and not (arguments and arguments[-1].nargs == -1):
        return []
    argument = arguments[min(count, len(arguments) - 1)]
    if argument.name in NAMED_BRANCHES.get(" ".join(name), ()):
        return _matching(current, _look(before, _branches))
    return _matching(current, _values(argument, before))


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


def _values(parameter: Any, before: Sequence[str]) -> Iterable[str]:
    """Return what may follow an option, or stand as an argument."""
    spelled = set(parameter.opts)
    if spelled & BRANCHES:
        return _look(before, _branches)
    if spelled & TYPES:
        return _look(before, _types)
    if "--profile" in spelled:
        return sorted(read_operator().profiles)
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if get_origin(kind) is Literal:
        return get_args(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [str(member.value) for member in kind]
    return []


def _look(before: Sequence[str], reader: Any) -> list[str]:
    """Return the names that a local graph holds, if it answers in time."""
    with contextlib.suppress(_TooLate), _alarm():
        path = _graph(before)
        return [] if path is None else list(reader(path))
    return []


def _is_named(before: Sequence[str]) -> bool:
    """Return whether an option among the words, a profile or a default names the graph."""
    from omnigraph.cli.address import named_by

    options = {"--uri", "--store", "--server", "--cluster", "--profile"}
    return bool(options & set(before)) or named_by(Flags(), None, read_operator) is not None


def _graph(before: Sequence[str]) -> Path | None:
    """Return the local graph that the words name, else the one of the operator's file."""
    from omnigraph.cli.address import Store, resolve
    from omnigraph.cli.command import COMMANDS
    from omnigraph.storage.uris import Root

    for word in before:
        with contextlib.suppress(Exception):
            root = Root.parse(word)
            if root.is_local and (Path(root.path) / layout.MANIFEST).is_dir():
                return Path(root.path)
    profile = next((name for flag, name in pairwise(before) if flag == "--profile"), None)
    found = resolve(COMMANDS["snapshot"], Flags(profile=profile), None, read_operator())
    if isinstance(found, Store) and found.is_local:
        return Path(Root.parse(found.uri).path)
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

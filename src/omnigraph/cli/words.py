"""The words of a command line that are no options: which of them is the graph, and which are names.

    omnigraph diff g.omni main side             the graph comes first
    omnigraph diff main side --store g.omni     unless an option, a profile or a default names it

The parser takes every word as it comes, and here they find their places. An error that may come of a word
in the wrong place says what it was taken for. What the parser itself refuses is told by ``misuse_text``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

import typer
from typer.models import ArgumentInfo

from omnigraph.cli.address import Named, named_by, refuse_unusable
from omnigraph.cli.call import Invocation
from omnigraph.cli.command import COMMANDS, SCOPE_FLAGS, Flags
from omnigraph.cli.operator.config import read_operator
from omnigraph.display.text import printable
from omnigraph.errors import BadRequest, OmniGraphError, SourceError
from omnigraph.storage import layout

GRAPH_HELP: Final = "The graph: a path, a file:// or an s3:// URI."
URI: Final = "uri"
"""The parameter of a command that holds the address of its graph."""
_FIRST: Final = inspect.Parameter(
    "first_word",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[str | None, typer.Argument(metavar="URI", help=GRAPH_HELP)],
)


class NameMissing(typer.BadParameter):
    """The command needs a name that was not given."""

    def format_message(self) -> str:
        """Return the message as it is."""
        return self.message


class NameWord(NamedTuple):
    """A word that a command takes besides its graph; ``many`` of them if they are files."""

    parameter: inspect.Parameter
    metavar: str
    many: bool

    @property
    def is_required(self) -> bool:
        """Whether the command needs it."""
        return self.parameter.default is inspect.Parameter.empty

    def optional(self) -> inspect.Parameter:
        """Return the argument for the parser, which cannot know yet whether it is missing."""
        kind, argument = get_args(self.parameter.annotation)
        return self.parameter.replace(annotation=Annotated[kind | None, argument], default=None)


@dataclass(frozen=True, slots=True)
class Positionals:
    """The words that a command takes: its graph, then ``names``."""

    command: str
    names: tuple[NameWord, ...]

    @classmethod
    def of(cls, command: str, parameters: Sequence[inspect.Parameter]) -> Positionals | None:
        """Return how the words of a command are read; None if it has no graph, or no other words."""
        arguments = {each.name: each for each in parameters if _argument(each) is not None}
        names = tuple(_name(each) for key, each in arguments.items() if key != URI)
        has_graph = any(each.name == URI for each in parameters)
        return cls(command, names) if has_graph and (names or URI not in arguments) else None

    def parsed(self, parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
        """Return what the parser shall look for: the graph, the names, and the options."""
        options = (each for each in parameters if _argument(each) is None)
        return [_FIRST, *(name.optional() for name in self.names), *options]

    def place(self, call: Invocation, values: dict[str, Any]) -> TakenWords:
        """Give the words their places among ``values``, the arguments of the command."""
        words = list(self._words(values))
        named = named_by(call.flags, values.get(URI), lambda: call.operator)
        graph = words.pop(0) if words and self._begins_with_graph(words[0], named) else None
        taken = TakenWords(self, graph, tuple(words), named)
        taken.check()
        values.setdefault(URI, None)
        if graph is not None:
            if values[URI] is not None:
                raise BadRequest(
                    f'{self.command} works on one graph and was given a URI "{graph}" and --uri '
                    f'"{values[URI]}"; keep one'
                )
            values[URI] = graph
        for name in self.names:
            if name.many:
                values[name.parameter.name], words = words or None, []
            elif words:
                values[name.parameter.name] = words.pop(0)
            elif name.is_required:
                raise taken.missing(name)
            else:
                values[name.parameter.name] = name.parameter.default
        return taken

    def _words(self, values: dict[str, Any]) -> Iterator[str]:
        """Take the words out of what the parser found, in their order."""
        for name in (_FIRST.name, *(name.parameter.name for name in self.names)):
            value = values.pop(name)
            if isinstance(value, str):
                yield value
            elif value is not None:
                yield from value

    def _begins_with_graph(self, word: str, named: Named | None) -> bool:
        """Return whether the first word is the graph.

        A word that can be nothing else is, whatever else names one: of two addresses one is refused, and
        an explicit one counts more than a profile. So does a graph where files are expected.
        """
        takes_files = any(name.many for name in self.names)
        is_other = named is not None and not named.by_option and takes_files and is_graph(word)
        return named is None or not self.names or is_other

    def usage(self) -> str:
        """Return the command as it is written, graph first."""
        return " ".join(("omnigraph", self.command, "URI", *(name.metavar for name in self.names)))


@dataclass(frozen=True, slots=True)
class TakenWords:
    """What the words of one command line were taken for: one for the graph, and the others for names."""

    positionals: Positionals
    graph: str | None
    words: tuple[str, ...]
    named: Named | None

    def check(self) -> None:
        """Refuse more words than the command has names, and a name that is surely meant as the graph."""
        names = self.positionals.names
        if self.graph is not None or self.named is None or not self.words or names[-1].many:
            return
        if len(self.words) > len(names) or (not self.named.by_option and is_graph(self.words[0])):
            raise BadRequest(self._said())

    def missing(self, name: NameWord) -> Exception:
        """Return the error for a name that is not there."""
        if self.graph is None or is_graph(self.graph):
            return NameMissing(f"Missing argument '{name.metavar}'")
        return BadRequest(self._said(and_missing=name.metavar))

    def explained(self, error: OmniGraphError) -> OmniGraphError:
        """Return the error, with what the words were taken for if one of them may be in the wrong place."""
        if isinstance(error, SourceError) or not self._may_be_misplaced():
            return error
        said = f" ({self._said()})"
        error.message += said
        # In place, because an error that came from a server may lack details that its class asks for.
        error.args = (f"{error}{said}",)
        return error

    def _may_be_misplaced(self) -> bool:
        names = self.positionals.names
        if not names:
            return False
        if self.graph is not None:
            return not _is_remote(self.graph) and not is_graph(self.graph)
        # Whether a remote file is a graph cannot be seen from here.
        return any(
            is_graph(word) or (names[0].many and _is_remote(word)) for word in self.words[:1]
        )

    def _said(self, and_missing: str | None = None) -> str:
        usage, names = self.positionals.usage(), self.positionals.names
        if self.graph is None:
            assert self.named is not None
            first = self.words[0]
            what = f"`{first}`, which is a graph," if is_graph(first) else f"`{first}`"
            return (
                f"{what} was taken for {names[0].metavar}, because {self.named.text} names the graph; "
                "name the graph once"
            )
        said = f"`{self.graph}` was taken for the graph, because no option or profile names one"
        for at, word in enumerate(self.words):
            said += f", and `{word}` for {names[min(at, len(names) - 1)].metavar}"
        if and_missing is not None:
            said += f", and {and_missing} is missing"
        return f"{said}; the graph comes first: {usage}, or name it with --store"


def is_graph(word: str) -> bool:
    """Return whether a word is the path of a graph on this machine."""
    from omnigraph.storage.uris import Root

    with suppress(OmniGraphError, OSError, ValueError):
        root = Root.parse(word)
        return root.is_local and (Path(root.path) / layout.MANIFEST).is_dir()
    return False


def _is_remote(word: str) -> bool:
    return "://" in word and not word.lower().startswith("file:")


def _argument(parameter: inspect.Parameter) -> ArgumentInfo | None:
    """Return how a parameter is declared as an argument; None if it is an option."""
    declared = get_args(parameter.annotation)[1:]
    return next((each for each in declared if isinstance(each, ArgumentInfo)), None)


def _name(parameter: inspect.Parameter) -> NameWord:
    declared = _argument(parameter)
    assert declared is not None
    kind = get_args(parameter.annotation)[0]
    many = any(get_origin(each) is list for each in (kind, *get_args(kind)))
    return NameWord(parameter, str(declared.metavar), many)


def misuse_text(error: Any) -> str:
    """Return the message of an error of the argument parser.

    Raise ``BadRequest`` instead if an argument is missing where a flag was given that the command
    refuses: the flag is what the user has to change.
    """
    context = getattr(error, "ctx", None)
    message: str = error.format_message()
    if context is None:
        return message
    if message.startswith("Missing argument"):
        _refuse_flags(context)
    if message.startswith("Got unexpected extra argument"):
        taken = [
            each.metavar for each in context.command.params if each.param_type_name == "argument"
        ]
        return (
            f"{message}; {context.command_path} takes {' '.join(taken) or 'no words but options'}"
        )
    wanted = _wanted(error.__cause__)
    # The library that checks values puts these words before those of the check itself.
    said = error.message if wanted is None else wanted
    return message.replace(error.message, said.removeprefix("Value error, "))


def _wanted(cause: Any) -> str | None:
    """Return what a value should have been, as far as the library that checks values knows."""
    errors = getattr(cause, "errors", None)
    if errors is None:
        return None
    fault = errors()[0]
    given = printable(str(fault["input"]))
    if fault["type"].startswith("int_"):
        return f"expected a whole number, got {given}"
    if fault["type"] == "greater_than_equal":
        return f"expected a whole number, {fault['ctx']['ge']} or more, got {given}"
    return None


def _refuse_flags(context: Any) -> None:
    """Raise if a flag was given, here or further left, that the command can never use."""
    command = COMMANDS.get(context.command_path.partition(" ")[2])
    if command is None:
        return
    before = context.obj if isinstance(context.obj, Flags) else Flags()
    here = Flags(**{name: context.params.get(name) for name in SCOPE_FLAGS})
    refuse_unusable(command, before.then(here), read_operator)

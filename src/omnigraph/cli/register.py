"""Register command functions with the argument parser, and add the shared flags to each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, NamedTuple, TypeGuard, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from omnigraph.cli.call import Invocation
from omnigraph.cli.command import LEGACY, LEGEND, SCOPE_FLAGS, Command, Flags
from omnigraph.cli.output import WANTS_JSON, note, put, show_log
from omnigraph.cli.words import Positionals
from omnigraph.errors import OmniGraphError

Function = Callable[..., None]


def _shared(
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URI", help="The graph, where no URI argument names it."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server", metavar="NAME|URL", help="The server that has the graph: its name or URL."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME|DIR|URI", help="The cluster that has the graph."),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option("--graph", metavar="ID", help="The graph, where the server has several."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", help="The profile that names the graph."),
    ] = None,
    as_actor: Annotated[
        str | None, typer.Option("--as", metavar="ACTOR", help="Who asks for the change.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree to what cannot be undone on a remote graph.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Do not say where a command writes.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Say on stderr what is done (--log-level info).")
    ] = False,
    log_level: Annotated[
        str | None,
        typer.Option(
            "--log-level", metavar="LEVEL", help="Log to stderr: debug, info, warning or error."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Only its signature is used."""


SHARED = tuple(inspect.signature(_shared, eval_str=True).parameters.values())
FLAG_NAMES = tuple(field.name for field in fields(Flags))
CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


class Pair(NamedTuple):
    """The two words of an option such as `--node TYPE FILE`."""

    first: str
    second: str


def read_pair(words: Any) -> Pair:
    """Return the words of an option whose placeholder has two (``parser=`` of the option)."""
    return Pair(*words)


class HelpingCommand(TyperCommand):
    """A command whose help is written like any other result.

    An option whose placeholder has two words takes two words, which typer alone does not offer for
    an option that may be repeated.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            if (
                parameter.param_type_name == "option"
                and len((parameter.metavar or "").split(" ")) == 2
            ):
                parameter.nargs = 2

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option, with the help printed through ``put``.

        ``put`` reports a full disk or a closed pipe as such, not as a bug of the product.
        """
        return _print_help_as_result(super().get_help_option(ctx))


class HelpingGroup(TyperGroup):
    """A group whose help is written like any other result."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option, with the help printed through ``put``, as for commands."""
        return _print_help_as_result(super().get_help_option(ctx))


def _print_help_as_result(option: Any) -> Any:
    """Return the option with a callback that prints the help like any other result."""

    def show(context: typer.Context, _: object, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            put(context.get_help())
            context.exit()

    option.callback = show
    return option


def add(app: typer.Typer, command: Command) -> None:
    """Register a command; the first parameter of its function is the ``Invocation``.

    A parameter whose type is a dataclass stands for the options that its fields declare. A command
    may give a shared flag another meaning after its name (`explain --profile`). A command with a
    parameter ``uri`` takes its graph as the first argument, too.
    """
    function = command.function()

    def run(context: typer.Context, **values: Any) -> None:
        flags = Flags(**{parameter.name: values.pop(parameter.name) for parameter in shared})
        call = Invocation(command, _inherited_flags(context).then(flags))
        WANTS_JSON.set(call.flags.json)
        show_log(call.flags)
        if context.info_name in LEGACY:
            note(f"omnigraph {context.info_name} is deprecated; use omnigraph {command.name}")
        call.check_flags()
        if words is None:
            function(call, **_group_options(own, values))
            return
        taken = words.place(call, values)
        try:
            function(call, **_group_options(own, values))
        except OmniGraphError as error:
            raise taken.explained(error) from error

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    options = [option for parameter in own for option in _options(parameter)]
    words = Positionals.of(command.name, options)
    if words is not None:
        options = words.parsed(options)
    names = {option.name for option in options}
    shared = [parameter for parameter in SHARED if parameter.name not in names]
    _set_signature(
        run, [CONTEXT, *options, *(_hide_if_refused(parameter, command) for parameter in shared)]
    )
    run.__doc__ = function.__doc__
    epilog = f"{command.capability} command: {LEGEND[command.capability]}"
    app.command(command.word, cls=HelpingCommand, epilog=epilog)(run)
    older = [old for old, new in LEGACY.items() if new == command.name]
    for other in (*older, *([] if command.alias is None else [command.alias])):
        app.command(other, cls=HelpingCommand, hidden=True)(run)


def _is_group(kind: object) -> TypeGuard[type]:
    """Return whether a parameter of this type stands for a dataclass of options."""
    return isinstance(kind, type) and is_dataclass(kind)


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """Return the flags of a parameter: its own, or those that the fields of a dataclass declare."""
    kind = parameter.annotation
    if not _is_group(kind):
        return [parameter]
    return list(inspect.signature(kind, eval_str=True).parameters.values())


def _group_options(parameters: list[inspect.Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command function, with options gathered in their dataclasses."""
    arguments = {}
    for parameter in parameters:
        kind = parameter.annotation
        if _is_group(kind):
            names = [option.name for option in _options(parameter)]
            arguments[parameter.name] = kind(**{name: values[name] for name in names})
        else:
            arguments[parameter.name] = values[parameter.name]
    return arguments


def _hide_if_refused(parameter: inspect.Parameter, command: Command) -> inspect.Parameter:
    """Return a shared flag, hidden from the help of a command that would refuse it."""
    if parameter.name not in SCOPE_FLAGS or parameter.name in command.takes:
        return parameter
    kind, option = get_args(parameter.annotation)
    hidden = copy(option)
    hidden.hidden = True
    return parameter.replace(annotation=Annotated[kind, hidden])


def group(app: typer.Typer, name: str, about: str) -> typer.Typer:
    """Return a new group of commands under one word."""
    inner = typer.Typer(name=name, help=about, cls=HelpingGroup)
    take_flags(inner)
    app.add_typer(inner)
    return inner


def take_flags(app: typer.Typer, *options: inspect.Parameter) -> None:
    """Accept the shared flags before the name of a command of this group, too."""

    def callback(context: typer.Context, **values: Any) -> None:
        flags = Flags(**{name: values[name] for name in FLAG_NAMES})
        context.obj = _inherited_flags(context).then(flags)

    _set_signature(callback, [CONTEXT, *options, *SHARED])
    app.callback()(callback)


def _inherited_flags(context: typer.Context) -> Flags:
    """Return the flags given further left on the command line."""
    return context.obj if isinstance(context.obj, Flags) else Flags()


def _set_signature(function: Function, parameters: list[inspect.Parameter]) -> None:
    """Give a function the signature from which typer reads its arguments."""
    ordered = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    function.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in ordered}

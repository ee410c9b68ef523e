"""Every command: its words, its function, its capability, and which of the shared flags it can use.

A command of its own is one line of ``COMMANDS``, a function that the line names, and an operation of
`service/`. A flag that a command cannot use is refused with advice; none is silently ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Final, Literal, cast

from omnigraph.errors import BadRequest

Capability = Literal["any", "served", "direct", "control", "local"]

SCOPE_FLAGS: Final = ("store", "server", "cluster", "graph", "profile", "as_actor")
LEGEND: Final[Mapping[Capability, str]] = {
    "any": "works on a graph, wherever it is",
    "served": "asks a server",
    "direct": "opens the storage of a graph itself",
    "control": "looks at what is declared for graphs",
    "local": "touches no graph",
}
"""What each capability means, as help says it."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that every command understands, with their values in one call."""

    store: str | None = None
    server: str | None = None
    cluster: str | None = None
    graph: str | None = None
    profile: str | None = None
    as_actor: str | None = None
    yes: bool = False
    quiet: bool = False
    verbose: bool = False
    log_level: str | None = None
    json: bool = False

    def then(self, later: Flags) -> Flags:
        """Return these flags, overridden by those given further right on the command line."""
        # An empty text counts as given. It often comes from an unset variable in a script, and must
        # lead to an error, not to another graph.
        given = {
            field.name: value
            for field in fields(later)
            if (value := getattr(later, field.name)) not in {None, False}
        }
        return replace(self, **given)


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the home of its function: ``commands.query`` means `query` in `cli/commands/query.py`.

    A function with another name than the command stands behind a colon. ``takes`` are the scope flags
    it can use, ``writes`` whether it changes a graph; ``alias`` is another word for it in its group.
    """

    name: str
    home: str
    capability: Capability
    takes: frozenset[str]
    writes: bool = False
    alias: str | None = None

    @property
    def group(self) -> str:
        """The first word of the name, under which the commands of a group stand."""
        return self.name.partition(" ")[0]

    @property
    def word(self) -> str:
        """The last word of the name, under which the command is registered in its group."""
        return self.name.rpartition(" ")[2]

    def function(self) -> Callable[..., None]:
        """Load the module of the command and return its function."""
        module, _, name = self.home.partition(":")
        loaded = import_module(f"omnigraph.cli.{module}")
        return cast("Callable[..., None]", getattr(loaded, name or self.name.replace("-", "_")))

    def refusal(self, flag: str, why: str, instead: str) -> BadRequest:
        """Return the error about a flag that this command cannot use."""
        return BadRequest(
            f"{flag} cannot be used with {self.name} ({self.capability} command): {why}; {instead}",
            flag=flag,
        )


_ANYWHERE: Final = frozenset({"store", "server", "graph", "profile"})
_WRITERS: Final = _ANYWHERE | {"as_actor"}
_SERVERS: Final = frozenset({"server", "profile"})
_CLUSTERS: Final = frozenset({"cluster", "graph", "profile"})
_STORAGE: Final = frozenset({"store", "cluster", "graph", "profile"})


def _reads(name: str, home: str, alias: str | None = None) -> Command:
    return Command(name, home, "any", _ANYWHERE, alias=alias)


def _writes(name: str, home: str) -> Command:
    return Command(name, home, "any", _WRITERS, writes=True)


def _keeps(name: str, *, writes: bool = True) -> Command:
    return Command(name, "commands.maintenance", "direct", _STORAGE, writes)


def _controls(name: str, function: str, *takes: str) -> Command:
    return Command(name, f"commands.cluster:{function}", "control", frozenset(takes))


def _local(name: str, home: str) -> Command:
    return Command(name, home, "local", frozenset())


COMMANDS: Final[Mapping[str, Command]] = {
    command.name: command
    for command in (
        Command("init", "commands.schema", "direct", frozenset(), writes=True),
        _writes("load", "commands.load"),
        _writes("ingest", "commands.load"),
        _writes("mutate", "commands.query"),
        _reads("blob get", "commands.blob:get"),
        _reads("blob stat", "commands.blob:stat"),
        _writes("blob put", "commands.blob:put_blob"),
        _writes("embed", "commands.load"),
        _reads("query", "commands.query"),
        _reads("explain", "commands.query"),
        # Each of its statements may write; it opens the graph for that itself.
        Command("shell", "shell.prompt_loop", "any", _WRITERS),
        Command("mcp", "commands.agents", "any", _WRITERS),
        Command("ui", "commands.explorer", "any", _WRITERS),
        _reads("export", "commands.export"),
        _reads("status", "commands.status"),
        _reads("snapshot", "commands.status"),
        _reads("schema show", "commands.schema:show_schema", alias="get"),
        _reads("schema diff", "commands.schema:diff_schemas"),
        _reads("schema plan", "commands.schema:plan_schema"),
        _writes("schema apply", "commands.schema:apply_schema"),
        _writes("branch create", "commands.branch:create_branch"),
        _reads("branch list", "commands.branch:list_branches"),
        _writes("branch merge", "commands.history.merge_commands:merge"),
        _writes("branch delete", "commands.branch:delete_branch"),
        _writes("tag create", "commands.branch:create_tag"),
        _reads("tag list", "commands.branch:list_tags"),
        _writes("tag delete", "commands.branch:delete_tag"),
        _reads("commit list", "commands.history.log:list_commits"),
        _reads("commit show", "commands.history.log:show_commit"),
        _reads("commit changes", "commands.history.differences:commit_changes"),
        _writes("commit revert", "commands.history.merge_commands:revert"),
        _reads("log", "commands.history.log"),
        _reads("changes poll", "commands.history.differences:poll"),
        _reads("changes baseline", "commands.history.differences:baseline"),
        _reads("diff", "commands.history.differences"),
        _reads("history", "commands.history.entity"),
        _reads("blame", "commands.history.entity"),
        _writes("purge", "commands.purge"),
        _keeps("optimize"),
        _keeps("ensure-indices"),
        _keeps("repair"),
        _keeps("cleanup"),
        _keeps("verify", writes=False),
        Command("lint", "commands.query", "any", _ANYWHERE | {"cluster"}),
        Command("policy validate", "commands.policy:validate_policy", "control", _CLUSTERS),
        Command("policy test", "commands.policy:run_policy_tests", "control", _CLUSTERS),
        Command("policy explain", "commands.policy:explain_policy", "control", _CLUSTERS),
        Command("queries list", "commands.policy:list_stored", "control", _CLUSTERS),
        Command(
            "queries validate",
            "commands.policy:validate_stored",
            "control",
            _CLUSTERS | {"store"},
        ),
        _controls("cluster validate", "validate"),
        _controls("cluster plan", "plan"),
        _controls("cluster apply", "apply", "as_actor"),
        _controls("cluster approve", "approve", "as_actor"),
        _controls("cluster status", "status"),
        _controls("cluster refresh", "refresh"),
        _controls("cluster import", "import_cluster"),
        _controls("cluster force-unlock", "force_unlock"),
        Command("graphs list", "commands.status:list_graphs", "served", _SERVERS),
        _local("alias", "operator.file_commands"),
        _local("profile list", "operator.file_commands:list_profiles"),
        _local("profile show", "operator.file_commands:show_profile"),
        _local("login", "operator.file_commands"),
        _local("logout", "operator.file_commands"),
        _local("examples", "commands.product"),
        _local("skill", "commands.product"),
        _local("completion", "completion"),
        _local("version", "commands.product"),
    )
}
"""Every command by its words, in the order of the help."""
GROUPS: Final[Mapping[str, str]] = {
    "blob": "Read, describe and write single blobs.",
    "schema": "Look at the schema, and change it.",
    "branch": "Make, list, merge and delete branches.",
    "tag": "Name single commits, and keep them readable.",
    "commit": "Look at the history, and undo a commit.",
    "changes": "Follow what commits change.",
    "policy": "Look at bundles of who may do what.",
    "queries": "Look at stored queries.",
    "cluster": "Bring what a directory declares into force.",
    "graphs": "Look at the graphs of a server.",
    "profile": "Look at the profiles of config.yaml.",
}
"""What the commands under one word are for."""
WORDS: Final = tuple(dict.fromkeys(command.group for command in COMMANDS.values()))
"""The words that can stand first, in the order of the help."""
LEGACY: Final[Mapping[str, str]] = {"read": "query", "change": "mutate", "check": "lint"}
"""Older spellings of commands."""


def flag_text(name: str) -> str:
    """Return a flag as it is written on the command line."""
    return "--as" if name == "as_actor" else f"--{name}"

"""`config.yaml`: names for servers, clusters, graphs and stored queries, and defaults of commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, cast

from omnigraph import settings
from omnigraph.cli.operator.entries import Entries
from omnigraph.errors import BadRequest

ScopeKind = Literal["server", "cluster", "store"]
CellLayout = Literal["truncate", "wrap"]

SCOPE_KINDS: Final[tuple[ScopeKind, ...]] = ("server", "cluster", "store")
FORMATS: Final = ("json", "jsonl", "csv", "kv", "table")
LAYOUTS: Final = ("truncate", "wrap")
COLUMN_WIDTH: Final = 80


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a command does not say otherwise."""

    output: str | None = None
    server: str | None = None
    store: str | None = None
    default_graph: str | None = None
    table_max_column_width: int = COLUMN_WIDTH
    table_cell_layout: CellLayout = "truncate"


@dataclass(frozen=True, slots=True)
class Profile:
    """A name for one graph, or one place with graphs. ``bindings`` is as written: one is right."""

    name: str
    bindings: Mapping[ScopeKind, str]
    default_graph: str | None


@dataclass(frozen=True, slots=True)
class Alias:
    """A name for a stored query of a server, with some of its parameters."""

    name: str
    server: str
    graph: str | None
    query: str
    args: tuple[str, ...]
    params: Mapping[str, Any]
    format: str | None


@dataclass(frozen=True, slots=True)
class Operator:
    """The whole file. One that is not there is empty.

    ``faults`` has what is wrong with entries that cannot be used, by their places such as
    `profiles.work`; see ``refuse_faulty``.
    """

    path: Path | None = None
    actor: str | None = None
    servers: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    unknown: tuple[str, ...] = ()
    faults: Mapping[str, BadRequest] = field(default_factory=dict)

    def refuse_faulty(self, section: str, name: str) -> None:
        """Raise if the file has an entry of this name that cannot be used."""
        fault = self.faults.get(f"{section}.{name}")
        if fault is not None:
            raise fault


def config_path() -> Path | None:
    """Return where the file is or would be; None on a machine without a home directory."""
    home = settings.HOME.get()
    return None if home is None else home / "config.yaml"


def read_operator() -> Operator:
    """Return what the file says; raise ``BadRequest`` if it cannot be used."""
    path = config_path()
    try:
        is_there = path is not None and path.exists()
    except OSError as error:  # a directory that may not be looked into
        raise BadRequest(f"cannot read {path}: {error.strerror}; make it readable") from None
    if path is None or not is_there:
        return Operator(path)
    from omnigraph.yaml_files import read_yaml

    return _parse(path, read_yaml(path))


def _parse(path: Path, document: Any) -> Operator:
    unknown: list[str] = []
    faults: dict[str, BadRequest] = {}
    top = Entries(path, "", document, unknown)
    who = top.inner("operator")
    actor = who.text("actor")
    who.finish()
    parsed = Operator(
        path,
        actor,
        servers=top.named("servers", partial(_address, path, "servers", "url"), faults),
        clusters=top.named("clusters", partial(_address, path, "clusters", "root"), faults),
        profiles=top.named("profiles", _profile, faults),
        aliases=top.named("aliases", partial(_alias, path), faults),
        defaults=_defaults(path, top.inner("defaults")),
        faults=faults,
    )
    top.finish()
    return replace(parsed, unknown=tuple(unknown))


def _address(path: Path, key: str, inner: str, name: str, entries: Entries) -> str:
    address = entries.text(inner)
    if address is None:
        raise BadRequest(f"{path}: `{key}.{name}` needs `{inner}`; add it", path=str(path))
    entries.finish()
    return address


def _profile(name: str, entries: Entries) -> Profile:
    bindings = {kind: target for kind in SCOPE_KINDS if (target := entries.text(kind)) is not None}
    profile = Profile(name, bindings, entries.text("default_graph"))
    entries.finish()
    return profile


def _alias(path: Path, name: str, entries: Entries) -> Alias:
    needed = {key: entries.text(key) for key in ("server", "query")}
    for key, value in needed.items():
        if value is None:
            raise BadRequest(f"{path}: `aliases.{name}` needs `{key}`; add it", path=str(path))
    alias = Alias(
        name,
        cast("str", needed["server"]),
        entries.text("graph"),
        cast("str", needed["query"]),
        entries.texts("args"),
        entries.mapping("params"),
        entries.choice("format", FORMATS),
    )
    entries.finish()
    return alias


def _defaults(path: Path, entries: Entries) -> Defaults:
    layout = entries.choice("table_cell_layout", LAYOUTS)
    found = Defaults(
        entries.choice("output", FORMATS),
        entries.text("server"),
        entries.text("store"),
        entries.text("default_graph"),
        entries.number("table_max_column_width", 1) or COLUMN_WIDTH,
        cast("CellLayout", layout or "truncate"),
    )
    entries.finish()
    if found.store is not None:
        for key, other in (("server", found.server), ("default_graph", found.default_graph)):
            if other is not None:
                raise BadRequest(
                    f"{path}: `defaults.store` is the storage of one graph and excludes "
                    f"`defaults.{key}`; drop one",
                    path=str(path),
                )
    return found

"""`config.yaml`: names for servers, clusters, graphs and stored queries, and defaults of commands.

A section is read by the dataclass of its entries, whose fields are the keys that it may have:

    profiles: { work: { store: s3://bucket/g, colour: red } }

is ``Profile("work", store="s3://bucket/g")``, and `profiles.work.colour` an unknown key. Those only
warn, so that a file written for a newer release still works.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from omnigraph import settings
from omnigraph.errors import BadRequest

ScopeKind = Literal["server", "cluster", "store"]
CellLayout = Literal["truncate", "wrap"]
FormatName = Literal["json", "jsonl", "csv", "kv", "table"]
# Beside each type, in words for messages: what an entry must be.
Text = Annotated[str, "a text"]
Width = Annotated[int, "a whole number, 1 or more"]
Texts = Annotated[tuple[str, ...], "a list of texts"]
Values = Annotated[dict[str, Any], "a mapping"]

SCOPE_KINDS: Final[tuple[ScopeKind, ...]] = ("server", "cluster", "store")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""What profiles, servers, clusters and aliases may be called."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a command does not say otherwise."""

    output: FormatName | None = None
    server: Text | None = None
    store: Text | None = None
    default_graph: Text | None = None
    table_max_column_width: Width = 80
    table_cell_layout: CellLayout = "truncate"


@dataclass(frozen=True, slots=True)
class NamedGraph:
    """A name for one graph, or one place with graphs: of its three places one is right."""

    name: str
    server: Text | None = None
    cluster: Text | None = None
    store: Text | None = None
    default_graph: Text | None = None

    @property
    def bindings(self) -> dict[ScopeKind, str]:
        """The places that are written, which should be one."""
        places = {kind: getattr(self, kind) for kind in SCOPE_KINDS}
        return {kind: place for kind, place in places.items() if place is not None}


@dataclass(frozen=True, slots=True)
class Alias:
    """A name for a stored query of a server, with some of its parameters."""

    name: str
    server: Text
    query: Text
    graph: Text | None = None
    args: Texts = ()
    params: Values = field(default_factory=dict)
    format: FormatName | None = None


@dataclass(frozen=True, slots=True)
class _Person:
    actor: Text | None = None


@dataclass(frozen=True, slots=True)
class _Server:
    name: str
    url: Text


@dataclass(frozen=True, slots=True)
class _Cluster:
    name: str
    root: Text


_SECTIONS: Final[Mapping[str, Any]] = {
    "servers": _Server,
    "clusters": _Cluster,
    "profiles": NamedGraph,
    "aliases": Alias,
}
"""The sections with entries of the operator's naming."""


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
    profiles: Mapping[str, NamedGraph] = field(default_factory=dict)
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    unknown: tuple[str, ...] = ()
    faults: Mapping[str, BadRequest] = field(default_factory=dict)

    def refuse_faulty(self, section: str, name: str) -> None:
        """Raise if the file has an entry of this name that cannot be used."""
        fault = self.faults.get(f"{section}.{name}")
        if fault is not None:
            raise fault


def read_operator() -> Operator:
    """Return the settings of `config.yaml`, empty ones without the file; ``BadRequest`` if it cannot be used."""
    home = settings.HOME.get()
    path = None if home is None else home / "config.yaml"
    try:
        is_there = path is not None and path.exists()
    except OSError as error:  # a directory that may not be looked into
        raise BadRequest(f"cannot read {path}: {error.strerror}; make it readable") from None
    if path is None or not is_there:
        return Operator(path)
    from omnigraph.yaml_files import read_yaml

    return _File(path).parse(read_yaml(path))


class _File:
    """The file while it is read: the keys that nobody knows, and what is wrong with entries."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unknown: list[str] = []
        self._faults: dict[str, BadRequest] = {}

    def parse(self, document: Any) -> Operator:
        top = self._mapping("", document)
        defaults = self._entry("defaults", top.get("defaults"), Defaults)
        for key in ("server", "default_graph"):
            if defaults.store is not None and getattr(defaults, key) is not None:
                raise self._refusal(
                    f"`defaults.store` is the storage of one graph and excludes `defaults.{key}`; "
                    "drop one"
                )
        sections = [self._named(top, key, form) for key, form in _SECTIONS.items()]
        servers, clusters, profiles, aliases = sections
        actor = self._entry("operator", top.get("operator"), _Person).actor
        known = {"operator", "defaults", *_SECTIONS}
        return Operator(
            path=self._path,
            actor=actor,
            servers={name: entry.url for name, entry in servers.items()},
            clusters={name: entry.root for name, entry in clusters.items()},
            profiles=profiles,
            aliases=aliases,
            defaults=defaults,
            unknown=(*self._unknown, *(str(key) for key in top if key not in known)),
            faults=self._faults,
        )

    def _named(self, top: Mapping[Any, Any], section: str, form: Any) -> dict[str, Any]:
        """Return the entries of a section by their names.

        One that cannot be used is left out, and what is wrong with it noted under its place: it must
        not stop commands that use another one.
        """
        made = {}
        for name, value in self._mapping(section, top.get(section)).items():
            place = f"{section}.{name}"
            try:
                if not isinstance(name, str) or not NAME.fullmatch(name):
                    raise self._refusal(
                        f"`{place}` is no name; use letters, digits, _ and -, and begin with a "
                        "letter or _"
                    )
                made[name] = self._entry(place, value, form, name=name)
            except BadRequest as fault:
                self._faults[place] = fault
        return made

    def _entry(self, place: str, value: Any, form: type[T], **given: str) -> T:
        """Return the entry at a place of the file as a dataclass; refuse one that does not fit."""
        entry, kinds = self._mapping(place, value), get_type_hints(form, include_extras=True)
        read: dict[str, Any] = dict(given)
        for each in fields(form):  # type: ignore[arg-type]
            key = each.name
            if key in given:
                continue
            if entry.get(key) is not None:
                read[key] = self._value(f"{place}.{key}", entry[key], kinds[key])
            elif each.default is MISSING and each.default_factory is MISSING:
                raise self._refusal(f"`{place}` needs `{key}`; add it")
        self._unknown += [
            f"{place}.{key}" for key in entry if key not in kinds.keys() - given.keys()
        ]
        return form(**read)

    def _value(self, place: str, value: Any, kind: Any) -> Any:
        import msgspec

        try:
            made = msgspec.convert(value.strip() if isinstance(value, str) else value, kind)
        except msgspec.ValidationError:
            made = ""
        if made == "" or (isinstance(made, int) and made < 1):  # a blank text is no setting
            raise self._refusal(f"`{place}` must be {_wanted(kind)}; mend it")
        return made

    def _mapping(self, place: str, value: Any) -> Mapping[Any, Any]:
        if not isinstance(value, Mapping | None):
            what = f"`{place}`" if place else "the file"
            raise self._refusal(f"{what} must be a mapping; mend it")
        return value or {}

    def _refusal(self, text: str) -> BadRequest:
        return BadRequest(f"{self._path}: {text}", path=str(self._path))


def _wanted(kind: Any) -> str:
    """Return in words what a value of a type is: the words beside the type, or its choices."""
    for part in (kind, *get_args(kind)):
        if get_origin(part) is Literal:
            return f"one of {', '.join(get_args(part))}"
        if words := getattr(part, "__metadata__", None):
            return str(words[0])
    raise AssertionError(kind)

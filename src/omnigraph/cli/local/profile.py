"""`omnigraph profile`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from omnigraph import settings
from omnigraph.cli.address import Cluster, Server, binding_of, find_profile, scope
from omnigraph.cli.call import Call
from omnigraph.cli.operator.config import Operator, Profile, ScopeKind
from omnigraph.cli.output import note
from omnigraph.cli.register import add, group
from omnigraph.cli.tables import put_facts, put_table
from omnigraph.errors import BadRequest

DEFAULTS = "(defaults)"
"""The name that stands for the defaults, where no profile is active."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    profiles = group(app, "profile", "Look at the profiles of config.yaml.")
    add(profiles, "profile list", list_)
    add(profiles, "profile show", show)


def list_(call: Call) -> None:
    """List the profiles, and what is wrong with those that cannot be used."""
    active = settings.PROFILE.get()
    operator = call.operator
    items = [
        *(_item(one, operator, one.name == active) for one in operator.profiles.values()),
        *_faulty(operator, active),
    ]
    items.sort(key=lambda item: item["name"])
    columns = ("name", "binding", "default graph", "active", "error")
    rows = [
        [
            item["name"],
            item["binding"],
            item["default_graph"],
            "yes" if item["active"] else None,
            item["error"],
        ]
        for item in items
    ]
    if not items:
        note(f"there are no profiles in {operator.path or 'config.yaml'}")
    call.answer({"profiles": items}, lambda: put_table(columns, rows) if rows else None)


def show(
    call: Call,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The profile; the active one, if there is none."),
    ] = None,
) -> None:
    """Show which graph a profile means, or the defaults if none is active."""
    operator = call.operator
    name = settings.PROFILE.get() if name is None else name
    kind: ScopeKind | None = None
    target: str | None = None
    if name is not None:
        profile = find_profile(operator, name)
        kind, target = binding_of(profile)
        graph = profile.default_graph
    else:
        defaults = operator.defaults
        graph = defaults.default_graph
        if defaults.server is not None:
            kind, target = "server", defaults.server
        elif defaults.store is not None:
            kind, target = "store", defaults.store
    document = {
        "name": DEFAULTS if name is None else name,
        "scope_kind": kind,
        "target": target,
        "endpoint": None
        if kind is None or target is None
        else _endpoint(kind, target, graph, operator),
        "default_graph": graph,
        "output_format": operator.defaults.output or "table",
    }
    call.answer(
        document,
        lambda: put_facts([(key.replace("_", " "), value) for key, value in document.items()]),
    )


def _item(profile: Profile, operator: Operator, active: bool) -> dict[str, Any]:
    """Return a profile as the list shows it: what it names, or why it cannot be used."""
    kind: ScopeKind | None = None
    target = error = None
    try:
        kind, target = binding_of(profile)
        _endpoint(kind, target, profile.default_graph, operator)
    except BadRequest as refused:
        error = refused.message
    return {
        "name": profile.name,
        "binding": ", ".join(f"{key}: {value}" for key, value in profile.bindings.items()) or None,
        "scope_kind": kind,
        "target": target,
        "valid": error is None,
        "error": error,
        "default_graph": profile.default_graph,
        "active": active,
    }


def _faulty(operator: Operator, active: str | None) -> Iterator[dict[str, Any]]:
    """Yield the profiles whose entries cannot be read, as the list shows them."""
    for place, fault in operator.faults.items():
        section, _, name = place.partition(".")
        if section == "profiles":
            found = _item(Profile(name, {}, None), operator, name == active)
            yield {**found, "error": fault.message}


def _endpoint(kind: ScopeKind, target: str, graph: str | None, operator: Operator) -> str:
    """Return the address behind what a profile names; refuse one that cannot be used."""
    address = scope(kind, target, graph, operator)
    if isinstance(address, Server):
        return address.url
    return address.root if isinstance(address, Cluster) else address.uri

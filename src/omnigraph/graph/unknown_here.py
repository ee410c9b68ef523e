"""What to do where a branch lacks what `main` has: merge `main`.

A branch knows its own types and properties alone. Somebody who works on an older branch and names a property that
`main` got meanwhile is told so, beside the error that the name is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from omnigraph.errors import BadRequest, InputError, OmniGraphError, TypeCheckError
from omnigraph.graph.access import Access
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.snapshot import Target
from omnigraph.policy.checker import Action

Knows = Callable[[OmniGraphError, Catalog, Catalog], bool]
"""Whether `main` knows what an error calls unknown, given the types of the branch and those of `main`."""


@contextmanager
def advised_to_merge(access: Access, branch: str, knows: Knows) -> Iterator[None]:
    """Add the advice to an error of the block, if `main` has what the branch lacks.

    Whoever may not read `main` is not told what it has.
    """
    try:
        yield
    except (TypeCheckError, InputError, BadRequest) as error:
        with suppress(OmniGraphError):
            if branch != MAIN and _main_knows(access, branch, error, knows):
                error.advise(f"`{MAIN}` has it: merge `{MAIN}` into `{branch}`")
        raise


def _main_knows(access: Access, branch: str, error: OmniGraphError, knows: Knows) -> bool:
    here, main = (access.state.schemas.of(name) for name in (branch, MAIN))
    if here.ir_hash == main.ir_hash or not knows(error, here.catalog, main.catalog):
        return False
    access.ask(Action.READ, MAIN)
    return True


def names_what_main_has(error: OmniGraphError, here: Catalog, main: Catalog) -> bool:
    """Return whether an error is about a type or a property that only `main` has.

    Its details have them as the elements of ``unknown``, or a type, of nodes or of edges, as ``type``.
    """
    name = error.details.get("type")
    unknown = (f"node:{name}", f"edge:{name}", *error.details.get("unknown", ()))
    return any(_has(main, element) and not _has(here, element) for element in unknown)


def reading_of(access: Access, target: Target) -> AbstractContextManager[None]:
    """Add the advice to errors of a read of a target that name what only `main` has."""
    return advised_to_merge(access, target.branch or MAIN, names_what_main_has)


def _has(catalog: Catalog, element: str) -> bool:
    """Whether a schema has a type (`node:Ship`) or a property (`node:Ship.built`)."""
    kind, _, name = element.partition(":")
    type_name, _, prop = name.partition(".")
    found = catalog.nodes.get(type_name) if kind == "node" else catalog.edge(type_name)
    return found is not None and (not prop or prop in found.properties)

"""What to do where a branch lacks what `main` has: merge `main`.

A branch knows its own types and properties alone. Somebody who works on an older branch and names a property that
`main` got meanwhile is told so, beside the error that the name is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from omnigraph.errors import BadRequest, InputError, OmniGraphError, TypeCheckError
from omnigraph.graph.access import Access
from omnigraph.lang.schema.catalog import Catalog, EdgeType
from omnigraph.manifest.branch_names import MAIN
from omnigraph.policy.checker import Action
from omnigraph.types import shown

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
    """Return whether an error of a load is about a type or a property that only `main` has."""
    told = str(error)
    return any(text in told for text in _unknown_texts(error, here, main))


def _unknown_texts(error: OmniGraphError, here: Catalog, main: Catalog) -> Iterator[str]:
    """Yield what errors of loads say of names that only `main` has."""
    known = {entity.table_key: entity for entity in here.entities()}
    for entity in main.entities():
        kind = "edge" if isinstance(entity, EdgeType) else "node"
        ours = known.get(entity.table_key)
        if ours is None:
            yield f"there is no {kind} type {shown(entity.name)}"
            yield f"there is no {kind} type {entity.name}"
            continue
        for name in entity.properties.keys() - ours.properties.keys():
            yield f"{entity.name} has no property {shown(name)}"
            if error.details.get("type_name") == entity.name:
                yield f"there is no property {shown(name)}"

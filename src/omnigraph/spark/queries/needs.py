"""Which fields a block reads, and which of them are of variables around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.lang.query import ir
from omnigraph.read.match.lookups.outline import conditions_of
from omnigraph.read.match.pattern import (
    ELEMENTS,
    Negation,
    OptionalBlock,
    Pattern,
    block_of,
    inner_blocks,
)
from omnigraph.read.match.trees import blocks_in
from omnigraph.spark.queries.values.fields import ID, Field, needed_by, searches_in


def own_names(pattern: Pattern) -> set[str]:
    """The variables that a pattern introduces, those of its optional blocks and its paths included."""
    own = (pattern.nodes.keys() | pattern.edges.keys()) - pattern.given
    own |= {path for path, hop in pattern.paths.items() if hop in pattern.traversals}
    for block in pattern.optionals:
        own |= own_names(block.pattern)
    return own


def outer_fields(pattern: Pattern) -> set[Field]:
    """The fields of variables from outside that a block reads, and what these are identified by."""
    own = own_names(pattern)
    found = set(ids(pattern, pattern.given))
    for condition in conditions_of(pattern):
        found |= set(needed_by(condition))
    for one in pattern.lists.values():
        found |= set(needed_by(one))
    for search in _searches(pattern):
        found.add(Field(search.field.var, ID))
    for block in inner_blocks(pattern):
        found |= outer_fields(block.pattern)
    return {field for field in found if field.var not in own}


def _searches(pattern: Pattern) -> Iterator[ir.TextMatch]:
    for condition in conditions_of(pattern):
        yield from searches_in(condition)


def read_by(condition: ir.Output | ir.Condition, pattern: Pattern) -> set[Field]:
    """The fields that rows need so that a condition can be judged on them, blocks and searches included."""
    found = set(needed_by(condition))
    for search in searches_in(condition):
        found.add(Field(search.field.var, ID))
    for exists in blocks_in(condition):
        found |= block_fields(block_of(exists, pattern))
    return found


def block_fields(block: Negation | OptionalBlock) -> set[Field]:
    """The fields that rows need so that a block can be joined to them."""
    return outer_fields(block.pattern) | set(ids(block.pattern, block.outer))


def ids(pattern: Pattern, names: Iterable[str]) -> Iterator[Field]:
    """What variables are identified by; elements of lists by what they are, too."""
    for name in sorted(names):
        yield Field(name, ID)
        if pattern.nodes.get(name, "").startswith(ELEMENTS):
            yield Field(name, ir.ELEMENT)

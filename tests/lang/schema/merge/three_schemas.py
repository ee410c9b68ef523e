"""Two schemas that started from one, made as branches make them, and their merge in both directions."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.lang.schema import compile_schema, create
from omnigraph.lang.schema.identities import Numbering, evolve
from omnigraph.lang.schema.ir import Ir, TypeIr
from omnigraph.lang.schema.merge.merge import SchemaMerge, merge_schemas
from omnigraph.lang.schema.merge.sides import DataChange, SchemaSide, Side
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.lang.schema.shape import Shape

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

Edits = Iterable[tuple[str, str]]


@functools.cache
def shape_of(text: str) -> Shape:
    """The shape of a schema. Hundreds of cases begin with the same text, and each comes in two directions."""
    return compile_schema(text).shape


def edited(text: str, edits: Edits) -> str:
    """A text with pieces replaced; each must be there once."""
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class Counter:
    """The counter of a graph, which all its branches share."""

    def __init__(self, next_id: int) -> None:
        self.next_id = next_id


@dataclass
class Branch:
    """One line of a graph: the schema it has, and what changed in its data since the base."""

    name: str
    ir: Ir
    text: str
    counter: Counter
    data: dict[str, DataChange] = field(default_factory=dict)

    def apply(self, text: str) -> Branch:
        """Accept a new source, as an apply does, whatever the steps are."""
        shape = shape_of(text)
        self.ir, _ = evolve(self.ir, shape, Numbering(self.counter.next_id))
        self.counter.next_id = max(self.counter.next_id, self.ir.next_identity_id)
        assert read_ir(self.ir.to_json()) == self.ir
        self.text = text
        return self

    def branch(self, name: str) -> Branch:
        """A branch that starts here."""
        return Branch(name, self.ir, self.text, self.counter)

    def wrote(self, element: str, *row_ids: str) -> Branch:
        """Say that rows of a type, or values of a property, were written since the base."""
        self.data[element] = DataChange(len(row_ids), tuple(sorted(row_ids))[:20])
        return self

    def accept(self, merged: SchemaMerge) -> Branch:
        """Take a merged schema over."""
        assert merged.schema is not None, merged.conflicts
        self.ir, self.text = merged.schema.ir, merged.schema.text
        self.counter.next_id = max(self.counter.next_id, self.ir.next_identity_id)
        assert read_ir(self.ir.to_json()) == self.ir
        return self

    @property
    def side(self) -> SchemaSide:
        """The branch as a merge takes it."""
        return SchemaSide(self.ir, self.text, self.name)


def graph(text: str) -> Branch:
    """The main branch of a new graph."""
    ir = create(shape_of(text), DOMAIN)
    return Branch("main", ir, text, Counter(ir.next_identity_id))


def merge(
    base: Branch, source: Branch, target: Branch, resolve: object = None, **options
) -> SchemaMerge:
    """Merge one branch into another."""
    sides = {"source": source, "target": target}

    def data(side: Side, type_: TypeIr, prop: str | None) -> DataChange:
        element = type_.shape.entity if prop is None else f"{type_.shape.entity}.{prop}"
        assert type_ in sides[side].ir
        return sides[side].data.get(element, DataChange())

    merged = merge_schemas(
        base.side,
        source.side,
        target.side,
        data=data,
        resolve=resolve,
        numbering=Numbering(base.counter.next_id),
        **options,
    )
    if merged.schema is not None:
        ir = merged.schema.ir
        assert read_ir(ir.to_json()) == ir
        written = shape_of(merged.schema.text)
        assert written.shape_hash == ir.shape.shape_hash
    return merged


def mirrored(detail: Mapping[str, object]) -> dict[str, object]:
    """The details of a conflict as the merge in the other direction tells them."""
    swapped = dict(detail)
    if "source" in detail:
        swapped["source"], swapped["target"] = detail["target"], detail["source"]
    if "dropped_by" in detail:
        swapped["dropped_by"] = "target" if detail["dropped_by"] == "source" else "source"
    return swapped

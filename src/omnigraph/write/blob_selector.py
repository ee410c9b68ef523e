"""Which blob is meant: the property of one node or edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.errors import BadRequest, EntityNotFound
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.spelling import did_you_mean

Kind = Literal["node", "edge"]


@dataclass(frozen=True, slots=True)
class BlobSelector:
    """A Blob property of the node or edge with that id."""

    kind: Kind
    type: str
    id: str
    property: str

    def __post_init__(self) -> None:
        if self.kind not in ("node", "edge"):
            raise BadRequest(f'the kind is {self.kind!r}; give "node" or "edge"')
        for name in ("type", "id", "property"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise BadRequest(f"the {name} of a blob is a text, not {value!r}")

    def __str__(self) -> str:
        return f"{self.property} of {self.kind} {self.type} {self.id}"

    def entity(self, catalog: Catalog) -> Entity:
        """The type; ``BadRequest`` when the schema has no such type or no such Blob property."""
        known = catalog.nodes if self.kind == "node" else catalog.edges
        found: Entity | None
        found = catalog.nodes.get(self.type) if self.kind == "node" else catalog.edge(self.type)
        if found is None:
            hint = did_you_mean(self.type, known)
            raise BadRequest(
                f"there is no {self.kind} type {self.type}" + (f"; {hint}" if hint else ""),
                type=self.type,
            )
        prop = found.properties.get(self.property)
        if prop is None:
            hint = did_you_mean(self.property, found.properties)
            raise BadRequest(
                f"{found.name} has no property {self.property}" + (f"; {hint}" if hint else "")
            )
        if not prop.type.is_blob:
            raise BadRequest(
                f"{found.name}.{self.property} is {prop.type}, no Blob; read it with a query"
            )
        return found

    def not_found(self, *, value: bool = False) -> EntityNotFound:
        """The error that there is no such node or edge, or that its blob is null (``value``)."""
        what = f"{self.kind} {self.type} {self.id!r}"
        text = f"{self.property} of {what} is null" if value else f"there is no {what}"
        return EntityNotFound(f"{text}; check the id and the branch", entity=self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {"kind": self.kind, "type": self.type, "id": self.id, "property": self.property}

"""Gives identities to a new schema, and carries them over to a changed one by name or by hint."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from omnigraph.clock import new_ulid
from omnigraph.errors import IdentityError
from omnigraph.lang.schema.ir import MAX_ID, Ir, TypeIr
from omnigraph.lang.schema.joins import dropped_since
from omnigraph.lang.schema.lint import Diagnostic
from omnigraph.lang.schema.shape import KINDS, Hint, Kind, PropertyShape, Shape, TypeShape
from omnigraph.spans import Span

_Key = tuple[Kind, str]


def create(shape: Shape, domain: str | None = None) -> Ir:
    """Build the IR of a new graph; rename hints do nothing. Without a domain, a new one is made."""
    return _number(shape, new_ulid() if domain is None else domain, 1, _Matches())


def inert_hints(shape: Shape) -> tuple[Diagnostic, ...]:
    """One remark for each rename hint in the schema of a new graph."""
    reason = "a new graph has nothing to rename"
    found: list[Diagnostic] = []
    for type_ in shape:
        if type_.hint is not None:
            found.append(_ignored(type_.entity, type_.hint, reason))
        found += [
            _ignored(f"{type_.entity}.{prop.name}", prop.hint, reason)
            for prop in type_.properties
            if prop.hint is not None and prop.declared_directly
        ]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Numbering:
    """Where new ids come from: the graph's counter, which all its branches share.

    ``next_id`` is the first free id. Ids below ``single_line_below`` were given while all branches had
    one schema, which did not record what it dropped.
    """

    next_id: int
    single_line_below: int = 0


def evolve(
    accepted: Ir,
    shape: Shape,
    numbering: Numbering | None = None,
    used: Collection[tuple[str, str]] = (),
) -> tuple[Ir, tuple[Diagnostic, ...]]:
    """Build the IR of a changed source: identities follow names and hints, the rest get new ones.

    Without a numbering the new ids go on where those of the accepted schema end. They are then
    provisional: another branch may have given the same ones. ``used`` are the hints of the accepted
    source (``hints_in``), which did their work before: where they stand in the new source too, there is no
    remark about them.
    """
    numbering = numbering or Numbering(accepted.next_identity_id)
    matcher = _Matcher(accepted, shape, used)
    matcher.match()
    ir = _number(shape, accepted.schema_identity_domain, numbering.next_id, matcher.matches)
    if ir.next_identity_id == numbering.next_id:
        # It took no new id: what others took meanwhile is no change of this schema.
        ir = replace(ir, next_identity_id=accepted.next_identity_id)
    dropped = dropped_since(accepted, ir.ids, numbering.single_line_below)
    return replace(ir, joined=accepted.joined, dropped=dropped), tuple(matcher.diagnostics)


@dataclass(slots=True)
class _Matches:
    """The accepted declarations that continue to exist, and the ids of their properties."""

    types: dict[_Key, TypeIr] = field(default_factory=dict)
    properties: dict[_Key, dict[str, int]] = field(default_factory=dict)


class _Counter:
    def __init__(self, next_id: int) -> None:
        self.next_id = next_id

    def take(self) -> int:
        if self.next_id >= MAX_ID:
            raise IdentityError("the graph has used up its identity numbers", entity="schema")
        self.next_id += 1
        return self.next_id - 1


def _number(shape: Shape, domain: str, next_id: int, matches: _Matches) -> Ir:
    """Number everything new: types by kind and name, then properties, then table incarnations."""
    counter = _Counter(next_id)
    type_ids: dict[_Key, int] = {}
    for type_ in shape:
        key = (type_.kind, type_.name)
        known = matches.types.get(key)
        type_ids[key] = known.type_id if known is not None else counter.take()
    by_id = sorted(shape, key=lambda type_: type_ids[type_.kind, type_.name])
    property_ids: dict[_Key, dict[str, int]] = {}
    for type_ in by_id:
        key = (type_.kind, type_.name)
        ids = property_ids[key] = dict(matches.properties.get(key, {}))
        for prop in sorted(type_.properties, key=lambda prop: prop.name):
            if prop.name not in ids:
                ids[prop.name] = counter.take()
    incarnations: dict[_Key, int | None] = {}
    for type_ in by_id:
        key = (type_.kind, type_.name)
        known = matches.types.get(key)
        if known is not None:
            incarnations[key] = known.table_incarnation_id
        else:
            incarnations[key] = None if type_.kind == "interface" else counter.take()

    def numbered(type_: TypeShape) -> TypeIr:
        key = (type_.kind, type_.name)
        return TypeIr(type_, type_ids[key], incarnations[key], property_ids[key])

    return Ir(
        domain,
        counter.next_id,
        tuple(numbered(type_) for type_ in shape.interfaces),
        tuple(numbered(type_) for type_ in shape.nodes),
        tuple(numbered(type_) for type_ in shape.edges),
    )


class _Matcher:
    """Finds for each declaration of a new source the accepted one it continues."""

    def __init__(self, accepted: Ir, shape: Shape, used: Collection[tuple[str, str]]) -> None:
        self.accepted = accepted
        self.shape = shape
        self.used = used
        self.matches = _Matches()
        self.diagnostics: list[Diagnostic] = []

    def match(self) -> None:
        claimed: dict[int, str] = {}
        for type_ in self.shape:
            same = self.accepted.type(type_.kind, type_.name)
            if same is not None:
                claimed[same.type_id] = type_.name
                self.matches.types[type_.kind, type_.name] = same
                self._note_unused(type_.entity, type_.entity, type_.hint)
        for type_ in self.shape:
            if type_.hint is not None and (type_.kind, type_.name) not in self.matches.types:
                old = self._renamed_type(type_, type_.hint, claimed)
                claimed[old.type_id] = type_.name
                self.matches.types[type_.kind, type_.name] = old
        for type_ in self.shape:
            self._match_properties(type_)

    def _renamed_type(self, type_: TypeShape, hint: Hint, claimed: dict[int, str]) -> TypeIr:
        name, old_name = type_.name, hint.old_name
        old = self.accepted.type(type_.kind, old_name)
        if old is None:
            others = [kind for kind in KINDS if self.accepted.type(kind, old_name) is not None]
            where = f", though `{others[0]}:{old_name}` exists" if others else ""
            raise self._error(
                f"{type_.kind} `{name}` cannot be renamed from `{old_name}`: "
                f"no accepted {type_.kind} has that name{where}",
                hint.span,
                type_.entity,
            )
        if old.type_id in claimed:
            raise self._error(
                f"{type_.kind} `{name}` cannot be renamed from `{old_name}`, which "
                f"`{claimed[old.type_id]}` continues",
                hint.span,
                type_.entity,
            )
        return old

    def _match_properties(self, type_: TypeShape) -> None:
        key = (type_.kind, type_.name)
        old = self.matches.types.get(key)
        if old is None:
            self._refuse_hints(type_)
            return
        ids = self.matches.properties[key] = {}
        claimed: dict[int, str] = {}
        for prop in type_.properties:
            if prop.name in old.property_ids:
                ids[prop.name] = old.property_ids[prop.name]
                claimed[ids[prop.name]] = prop.name
                if prop.declared_directly:
                    before = f"{old.shape.entity}.{prop.name}"
                    self._note_unused(f"{type_.entity}.{prop.name}", before, prop.hint)
        for prop in type_.properties:
            if prop.hint is not None and prop.name not in ids:
                property_id = self._renamed_property(type_, prop, prop.hint, old, claimed)
                if property_id is not None:
                    ids[prop.name] = property_id
                    claimed[property_id] = prop.name

    def _renamed_property(
        self,
        type_: TypeShape,
        prop: PropertyShape,
        hint: Hint,
        old: TypeIr,
        claimed: dict[int, str],
    ) -> int | None:
        label, old_name = f"{type_.name}.{prop.name}", hint.old_name
        property_id = old.property_ids.get(old_name)
        claimant = None if property_id is None else claimed.get(property_id)
        if not prop.declared_directly:
            # The hint was written for the interface; a node may lack the old property.
            return property_id if claimant is None else None
        entity = f"{type_.entity}.{prop.name}"
        if property_id is None:
            owners = sorted(
                f"`{other.name}`" for other in self.accepted if old_name in other.property_ids
            )
            where = f", though {' and '.join(owners)} has" if owners else ""
            raise self._error(
                f"`{label}` cannot be renamed from `{old_name}`: "
                f"the accepted {old.kind} `{old.name}` has no such property{where}",
                hint.span,
                entity,
            )
        if claimant is not None:
            raise self._error(
                f"`{label}` cannot be renamed from `{old_name}`, which "
                f"`{type_.name}.{claimant}` continues",
                hint.span,
                entity,
            )
        return property_id

    def _refuse_hints(self, type_: TypeShape) -> None:
        for prop in type_.properties:
            if prop.hint is not None and prop.declared_directly:
                raise self._error(
                    f"`{type_.name}.{prop.name}` cannot be renamed from `{prop.hint.old_name}`: "
                    f"the {type_.kind} `{type_.name}` is new",
                    prop.hint.span,
                    f"{type_.entity}.{prop.name}",
                )

    def _note_unused(self, entity: str, before: str, hint: Hint | None) -> None:
        """Remark on a hint that does nothing; ``before`` is the name of the entity until now."""
        if hint is not None and (before, hint.old_name) not in self.used:
            self.diagnostics.append(_ignored(entity, hint, "that name is already accepted"))

    def _error(self, message: str, span: Span, entity: str) -> IdentityError:
        return self.shape.source.error(IdentityError, message, span, entity=entity)


def _ignored(entity: str, hint: Hint, reason: str) -> Diagnostic:
    message = f'`@rename_from("{hint.old_name}")` on `{entity}` is ignored: {reason}'
    return Diagnostic(message, entity, span=hint.span)

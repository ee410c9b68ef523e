"""Decides the properties of one type of the merged schema."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.lang.schema.annotations import with_metric
from omnigraph.lang.schema.defaults import DEFAULT
from omnigraph.lang.schema.merge.attributes import merge_set, merge_type, merge_value
from omnigraph.lang.schema.merge.by_identity import NumberedEmbed, PropertyView, TypeView
from omnigraph.lang.schema.merge.deciding import (
    Decided,
    DecidedProperty,
    DecidedType,
    Deciding,
    Versions,
)
from omnigraph.lang.schema.merge.side_changes import (
    definition_notes,
    note,
    property_changes,
)
from omnigraph.lang.schema.merge.sides import OTHER, DataChange, Side
from omnigraph.lang.schema.shape import (
    METRIC,
    Annotation,
    Embed,
    annotation_order,
    embed_text,
    metric_of,
)
from omnigraph.types import PropType


class TypeProperties:
    """Decides the properties of a type after its interfaces were decided."""

    def __init__(
        self, deciding: Deciding, versions: Versions, type_: DecidedType, interfaces: Decided
    ) -> None:
        self.deciding = deciding
        self.versions = versions
        self.type = type_
        self.provided = {
            number: prop
            for interface in type_.implements
            if interface in interfaces
            for number, prop in interfaces[interface].properties.items()
        }

    def decide(self) -> dict[int, DecidedProperty]:
        """The properties by number, in the order of the target, then of the source."""
        order = list(_numbers(self.versions.target, self.versions.source))
        # A property that another embeds stays in conflict with its drop: vectors first.
        found: dict[int, DecidedProperty] = {}
        for number in sorted(order, key=lambda number: not self._is_bound(number)):
            prop = self._property(number, found)
            if prop is not None:
                found[number] = prop
        return {number: found[number] for number in order if number in found}

    def _is_bound(self, number: int) -> bool:
        return any(each is not None and each.embed for each in self.versions.of_property(number))

    def _property(self, number: int, found: dict[int, DecidedProperty]) -> DecidedProperty | None:
        _, source, target = views = self.versions.of_property(number)
        there = target or source
        assert there is not None
        if all(each is None or each.is_injected for each in views):
            given = self._given(views)
            if given is not None:
                return given
        elif source is not None and target is not None:
            return self._merged(number, views)
        if source is None or target is None:
            dropped_by: Side = "source" if source is None else "target"
            if not self._stays(number, there, dropped_by, found):
                return None
        return _copied(there)

    def _given(self, views: tuple[PropertyView | None, ...]) -> DecidedProperty | None:
        """The property as a merged interface gives it, whatever became of its name and type there."""
        follows = {number for each in views if each is not None for number in each.follows}
        given = next((self.provided[number] for number in follows if number in self.provided), None)
        there = views[2] or views[1]
        if given is None or there is None:
            return None
        return DecidedProperty(
            there.number, given.name, given.type, given.annotations, there.embed, is_injected=True
        )

    def _stays(
        self,
        number: int,
        there: PropertyView,
        dropped_by: Side,
        found: dict[int, DecidedProperty],
    ) -> bool:
        """Whether a property stays that one side lacks: it was added, or is in conflict and kept."""
        base = self.versions.of_property(number)[0]
        known = base is not None or self.deciding.schemas.has_dropped(dropped_by, number)
        type_is_new = self.versions.side(dropped_by) is None
        if not there.is_injected and (type_is_new or not known):
            return True
        changed = set() if there.is_injected else property_changes(base, there)
        changed |= set(self._users(number, found))
        data = DataChange()
        owner = self.versions.side(OTHER[dropped_by])
        if self.type.kind != "interface" and owner is not None:
            data = self.deciding.data_of(dropped_by, owner, there)
        element = self.deciding.property_element(self.versions, number)
        return self.deciding.keep(number, element, dropped_by, changed, data)

    def _users(self, number: int, found: dict[int, DecidedProperty]) -> Iterator[str]:
        """The properties that stay and embed this one."""
        for other, prop in found.items():
            is_user = prop.embed is not None and prop.embed.source == number
            if is_user and other not in self.deciding.unresolved:
                yield f"{self.versions.there.element}.{prop.name}"

    # Attributes

    def _merged(self, number: int, views: tuple[PropertyView | None, ...]) -> DecidedProperty:
        base, source, target = views
        assert source is not None
        assert target is not None
        element = self.deciding.property_element(self.versions, number)
        choose = self.deciding.choose
        names = (None if base is None else base.name, source.name, target.name)
        name, decided = choose(element, "name", names, merge_value(*names), lambda text: text)
        if not decided:
            self.deciding.unresolved.add(number)
        old, theirs, ours = (None if each is None else each.shape.type for each in views)
        assert theirs is not None
        assert ours is not None
        types = (old, theirs, ours)
        type_, _ = choose(element, "type", types, merge_type(old, theirs, ours), _type_text)
        bindings = (None if base is None else base.embed, source.embed, target.embed)
        embed, _ = choose(element, "embed", bindings, merge_value(*bindings), self._embed_text)
        assert name is not None
        assert type_ is not None
        annotations = merged_notes(
            self.deciding,
            element,
            ("description", DEFAULT),
            *(() if each is None else each.shape.annotations for each in views),
        )
        before = None if base is None else metric_of(base.shape.annotations)
        metrics = (
            before,
            metric_of(source.shape.annotations),
            metric_of(target.shape.annotations),
        )
        metric, _ = choose(element, "metric", metrics, merge_value(*metrics), lambda word: word)
        others = tuple(each for each in annotations if each.name != METRIC)
        bound = target.shape.embed or source.shape.embed
        return DecidedProperty(
            number,
            name,
            type_,
            with_metric(others, metric),
            embed,
            "" if bound is None else bound.source,
            self._is_injected(views),
        )

    def _is_injected(self, views: tuple[PropertyView | None, ...]) -> bool:
        base, source, target = (each is not None and each.is_injected for each in views)
        if views[0] is None:
            return source and target
        return bool(merge_value(base, source, target))

    def _embed_text(self, binding: NumberedEmbed | None) -> str | None:
        if binding is None:
            return None
        source = binding.source
        if isinstance(source, int):
            source = self.deciding.property_element(self.versions, source).partition(".")[2]
        return embed_text(Embed(source, binding.model))


def _copied(there: PropertyView) -> DecidedProperty:
    shape = there.shape
    name = "" if shape.embed is None else shape.embed.source
    return DecidedProperty(
        there.number, shape.name, shape.type, shape.annotations, there.embed, name
    )


def _numbers(*types: TypeView | None) -> Iterator[int]:
    seen: set[int] = set()
    for type_ in types:
        for number in () if type_ is None else type_.properties:
            if number not in seen:
                seen.add(number)
                yield number


def _type_text(type_: PropType | None) -> str | None:
    return None if type_ is None else type_.display


def merged_notes(
    deciding: Deciding,
    element: str,
    texts: tuple[str, ...],
    base: tuple[Annotation, ...],
    source: tuple[Annotation, ...],
    target: tuple[Annotation, ...],
) -> tuple[Annotation, ...]:
    """The stored annotations of an element; ``texts`` are those with one text that either may change."""
    found = set(merge_set(*(definition_notes(each) for each in (base, source, target))))
    for name in texts:
        values = (note(base, name), note(source, name), note(target, name))
        text, _ = deciding.choose(element, name, values, merge_value(*values), lambda text: text)
        if text is not None:
            found.add(Annotation(name, text))
    return tuple(sorted(found, key=annotation_order))

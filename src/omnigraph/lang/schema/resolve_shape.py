"""Resolves a syntax tree to a shape: checks names and rules, injects interfaces, normalises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.errors import CatalogError
from omnigraph.lang.schema.annotations import (
    AnnotationTarget,
    Notes,
    read_property,
    read_type,
    with_metric,
)
from omnigraph.lang.schema.constraints import ConstrainedType
from omnigraph.lang.schema.defaults import Default, check_defaults
from omnigraph.lang.schema.shape import (
    DEFAULT_METRIC,
    IMPLICIT_COLUMNS,
    ROW_COLUMNS,
    Cardinality,
    Group,
    Kind,
    Metric,
    PropertyShape,
    Shape,
    TypeShape,
)
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.source import Source
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean


def check_names(source: Source, tree: ast.Schema) -> None:
    """Refuse repeated declarations and properties, and reserved property names."""
    namespaces: tuple[tuple[Kind, tuple[ast.Declaration, ...]], ...] = (
        ("interface", tree.interfaces),
        ("node", tree.nodes),
        ("edge", tree.edges),
    )
    for kind, declarations in namespaces:
        _check_distinct(source, kind, [declaration.name for declaration in declarations])
        for declaration in declarations:
            _check_properties(source, kind, declaration)
    _check_folding(source, [edge.name for edge in tree.edges])


def check_reserved(source: Source, kind: Kind, type_name: str, prop: str, span: Span) -> None:
    """Refuse a property whose name is a column of the product or of the table format."""
    if prop in ROW_COLUMNS:
        source.fail(
            f"`{type_name}.{prop}`: the property name `{prop}` is reserved for row metadata", span
        )
    if prop in IMPLICIT_COLUMNS[kind]:
        columns = ", ".join(f"`{column}`" for column in IMPLICIT_COLUMNS[kind])
        source.fail(
            f"`{type_name}.{prop}`: the property name `{prop}` is reserved",
            span,
            f"every {kind} has its own: {columns}",
        )


def _check_distinct(source: Source, kind: Kind, names: Iterable[ast.Name]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            raise source.error(
                CatalogError,
                f"duplicate {kind} `{name.text}`",
                name.span,
                "declare it once, or give one of them another name",
                entity=f"{kind}:{name.text}",
            )
        seen.add(name.text)


def _check_folding(source: Source, names: Iterable[ast.Name]) -> None:
    folded: dict[str, str] = {}
    for name in names:
        other = folded.setdefault(name.text.lower(), name.text)
        if other != name.text:
            raise source.error(
                CatalogError,
                f"edges `{other}` and `{name.text}` are one name after case folding",
                name.span,
                "edges are also looked up without regard to case: rename one",
                entity=f"edge:{name.text}",
            )


def _check_properties(source: Source, kind: Kind, declaration: ast.Declaration) -> None:
    type_name = declaration.name.text
    seen: set[str] = set()
    for prop in declaration.properties:
        name = prop.name.text
        check_reserved(source, kind, type_name, name, prop.name.span)
        if name in seen:
            raise source.error(
                CatalogError,
                f"duplicate property `{name}` in {kind} `{type_name}`",
                prop.name.span,
                entity=f"{kind}:{type_name}.{name}",
            )
        seen.add(name)


def resolve(source: Source, tree: ast.Schema) -> Shape:
    """Resolve a tree; any broken rule is a ParseError or CatalogError with its place."""
    check_names(source, tree)
    interfaces = {interface.name.text: interface for interface in tree.interfaces}
    nodes = [_node(source, node, interfaces) for node in tree.nodes]
    node_names = {node.name for node in nodes}
    edges = [_edge(source, edge, node_names, interfaces) for edge in tree.edges]
    # Last, so that a fault in an interface is reported for the node that implements it.
    bundles = [_interface(source, interface) for interface in tree.interfaces]
    return Shape(_by_name(bundles), _by_name(nodes), _by_name(edges), source)


def _by_name(types: Sequence[TypeShape]) -> tuple[TypeShape, ...]:
    return tuple(sorted(types, key=lambda type_: type_.name))


@dataclass(frozen=True, slots=True)
class _Effective:
    """A property of a type: where it was written, and what its annotations mean."""

    written: ast.Property
    notes: Notes
    satisfies: tuple[str, ...] = ()
    direct: bool = True

    def shape(self) -> PropertyShape:
        return PropertyShape(
            self.written.name.text,
            self.written.type,
            self.notes.stored,
            self.notes.embed,
            declared_directly=self.direct,
            satisfies=self.satisfies,
            hint=self.notes.hint,
            span=self.written.name.span,
        )

    def agrees_with(self, other: _Effective) -> bool:
        """Whether two interfaces inject the same property. Of two hints, one may be missing."""
        mine, theirs = self.notes, other.notes
        hints = {mine.hint, theirs.hint} - {None}
        return (
            self.written.type == other.written.type
            and mine.stored == theirs.stored
            and mine.embed == theirs.embed
            and {group.kind for group in mine.groups} == {group.kind for group in theirs.groups}
            and len(hints) < 2
        )


def _node(source: Source, node: ast.Node, known: Mapping[str, ast.Interface]) -> TypeShape:
    name = node.name.text
    notes = read_type(source, AnnotationTarget("node", name), node.annotations)
    interfaces = _implemented(source, node, known)
    properties = _node_properties(source, node, interfaces)
    own: list[ast.Constraint] = []
    inherited: list[ast.Group] = []
    for prop in properties.values():
        (own if prop.direct else inherited).extend(prop.notes.groups)
        check_reserved(source, "node", name, prop.written.name.text, prop.written.name.span)
    metrics: dict[str, tuple[str, Metric]] = {}
    for interface in interfaces:
        for bundled in interface.properties:
            declared = properties[bundled.name.text]
            if declared.direct:
                # The node's annotations replace the interface's, except for constraints and metric.
                target = AnnotationTarget("node", name, bundled.name.text, interface.name.text)
                notes_there = read_property(source, target, bundled)
                inherited.extend(notes_there.groups)
                wanted = notes_there.metric or DEFAULT_METRIC
                _check_metric(source, name, declared, interface, wanted, metrics)
                notes_here = replace(
                    declared.notes, stored=with_metric(declared.notes.stored, wanted), metric=wanted
                )
                properties[bundled.name.text] = replace(declared, notes=notes_here)
    owner = ConstrainedType(
        source, "node", name, {key: p.written.type for key, p in properties.items()}
    )
    constraints = owner.constraints([*own, *node.constraints], inherited)
    check_defaults(source, name, _defaults(properties.values()), constraints)
    for prop in properties.values():
        _check_embed_source(source, name, prop, properties)
    return TypeShape(
        "node",
        name,
        tuple(prop.shape() for prop in properties.values()),
        notes.stored,
        implements=tuple(interface.name.text for interface in interfaces),
        constraints=constraints,
        hint=notes.hint,
        span=node.name.span,
    )


def _check_metric(
    source: Source,
    name: str,
    own: _Effective,
    interface: ast.Interface,
    wanted: Metric,
    metrics: dict[str, tuple[str, Metric]],
) -> None:
    """Refuse a redeclared property whose metric, or that of another interface, is not this interface's.

    ``metrics`` holds the interfaces so far, by the name of the property.
    """
    place = f"{name}.{own.written.name.text}"
    other, given = metrics.setdefault(own.written.name.text, (interface.name.text, wanted))
    if given != wanted:
        other_place = f"interface `{other}` declares `{place}` with the metric {given}"
        way = "give both interfaces the same `@metric`"
    elif own.notes.metric not in (None, wanted):
        other_place = f"`{place}` has the metric {own.notes.metric}"
        way = "give both the same `@metric`, or leave it to the interface"
    else:
        return
    raise source.error(
        CatalogError,
        f"{other_place}, and interface `{interface.name.text}` declares it with {wanted}",
        own.written.name.span,
        way,
        entity=f"node:{place}",
    )


def _defaults(properties: Iterable[_Effective]) -> dict[str, Default]:
    return {
        prop.written.name.text: prop.notes.default
        for prop in properties
        if prop.notes.default is not None
    }


def _implemented(
    source: Source, node: ast.Node, known: Mapping[str, ast.Interface]
) -> list[ast.Interface]:
    """The interfaces of a node by name, without repeats."""
    for name in node.implements:
        if name.text not in known:
            source.fail(
                f"node `{node.name.text}` implements the unknown interface `{name.text}`",
                name.span,
                did_you_mean(name.text, known),
            )
    return [known[text] for text in sorted({name.text for name in node.implements})]


def _node_properties(
    source: Source, node: ast.Node, interfaces: Sequence[ast.Interface]
) -> dict[str, _Effective]:
    """Declared properties in source order, then injected ones by interface."""
    declared = {prop.name.text: prop for prop in node.properties}
    providers: dict[str, list[str]] = {}
    for interface in interfaces:
        for bundled in interface.properties:
            providers.setdefault(bundled.name.text, []).append(interface.name.text)
            if bundled.name.text in declared:
                _check_same_type(source, node, declared[bundled.name.text], interface, bundled)
    effective = {
        name: _Effective(
            prop,
            read_property(source, AnnotationTarget("node", node.name.text, name), prop),
            tuple(providers.get(name, ())),
        )
        for name, prop in declared.items()
    }
    for interface in interfaces:
        for bundled in interface.properties:
            if bundled.name.text not in declared:
                _inject(source, node, interface, bundled, effective, providers)
    return effective


def _check_same_type(
    source: Source,
    node: ast.Node,
    own: ast.Property,
    interface: ast.Interface,
    bundled: ast.Property,
) -> None:
    if own.type != bundled.type:
        source.fail(
            f"`{node.name.text}.{own.name.text}` is {own.type.display}, but interface "
            f"`{interface.name.text}` declares it as {bundled.type.display}",
            own.type_span,
            "give both the same type, or leave the property to the interface",
        )


def _inject(
    source: Source,
    node: ast.Node,
    interface: ast.Interface,
    bundled: ast.Property,
    effective: dict[str, _Effective],
    providers: Mapping[str, list[str]],
) -> None:
    name, type_name = bundled.name.text, node.name.text
    target = AnnotationTarget("node", type_name, name, interface.name.text)
    notes = read_property(source, target, bundled)
    injected = _Effective(bundled, notes, tuple(providers[name]), direct=False)
    earlier = effective.get(name)
    if earlier is None or (earlier.notes.hint is None and earlier.agrees_with(injected)):
        effective[name] = injected
    elif not earlier.agrees_with(injected):
        first = providers[name][0]
        raise source.error(
            CatalogError,
            f"interfaces `{first}` and `{interface.name.text}` disagree on the type, annotations "
            f"or constraints of `{type_name}.{name}`",
            bundled.name.span,
            f"declare `{name}` in node `{type_name}`, or make the interfaces agree",
            entity=f"node:{type_name}.{name}",
        )


def _check_embed_source(
    source: Source, type_name: str, prop: _Effective, properties: Mapping[str, _Effective]
) -> None:
    embed = prop.notes.embed
    if embed is None:
        return
    target = f"`{type_name}.{prop.written.name.text}`"
    text = properties.get(embed.source)
    if text is None:
        source.fail(
            f"`@embed` on {target} names `{embed.source}`, which is no property of node "
            f"`{type_name}`",
            prop.notes.embed_span,
            did_you_mean(embed.source, properties),
        )
    type_ = text.written.type
    if not type_.is_text or type_.is_enum:
        source.fail(
            f"`@embed` on {target} needs a String as its source, and "
            f"`{type_name}.{embed.source}` is {type_.display}",
            prop.notes.embed_span,
        )


def _edge(
    source: Source, edge: ast.Edge, nodes: set[str], interfaces: Mapping[str, ast.Interface]
) -> TypeShape:
    name = edge.name.text
    notes = read_type(source, AnnotationTarget("edge", name), edge.annotations)
    for endpoint in (edge.from_type, edge.to_type):
        if endpoint.text not in nodes:
            hint = did_you_mean(endpoint.text, nodes)
            if endpoint.text in interfaces:
                hint = "an interface has no nodes of its own: name one of its node types"
            raise source.error(
                CatalogError,
                f"edge `{name}` has the endpoint `{endpoint.text}`, which is not a node type",
                endpoint.span,
                hint,
                entity=f"edge:{name}",
            )
    properties = [
        _Effective(
            prop, read_property(source, AnnotationTarget("edge", name, prop.name.text), prop)
        )
        for prop in edge.properties
    ]
    owner = ConstrainedType(
        source, "edge", name, {p.written.name.text: p.written.type for p in properties}
    )
    groups = [group for prop in properties for group in prop.notes.groups]
    card = edge.cardinality
    return TypeShape(
        "edge",
        name,
        tuple(prop.shape() for prop in properties),
        notes.stored,
        endpoints=(edge.from_type.text, edge.to_type.text),
        cardinality=Cardinality() if card is None else Cardinality(card.min, card.max),
        constraints=owner.constraints([*groups, *edge.constraints]),
        hint=notes.hint,
        span=edge.name.span,
    )


def _interface(source: Source, interface: ast.Interface) -> TypeShape:
    name = interface.name.text
    owner = ConstrainedType(
        source, "interface", name, {prop.name.text: prop.type for prop in interface.properties}
    )
    properties = []
    for prop in interface.properties:
        notes = read_property(source, AnnotationTarget("interface", name, prop.name.text), prop)
        implied: list[Group] = [owner.check_group(group) for group in notes.groups]
        if notes.default is not None:
            check_defaults(source, name, {prop.name.text: notes.default}, implied)
        properties.append(
            PropertyShape(
                prop.name.text,
                prop.type,
                notes.stored,
                notes.embed,
                tuple(sorted(group.kind for group in notes.groups)),
                hint=notes.hint,
                span=prop.name.span,
            )
        )
    return TypeShape("interface", name, tuple(properties), span=interface.name.span)

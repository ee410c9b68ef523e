"""What annotations mean, and where each is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.lang.schema.defaults import DEFAULT, Default, read_default
from omnigraph.lang.schema.shape import (
    DEFAULT_METRIC,
    METRIC,
    METRICS,
    Annotation,
    Embed,
    Hint,
    Kind,
    Metric,
    annotation_order,
)
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.source import Source
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType

METADATA = ("description", "instruction")
_EXAMPLES = {"range": "0..100", "check": '"^[a-z]+$"', "valid": "until"}
_ONCE = {*ast.CONSTRAINT_WORDS, *METADATA, DEFAULT, METRIC, "embed", "rename_from"}


@dataclass(frozen=True, slots=True)
class AnnotationTarget:
    """The type or property that has an annotation, as messages name it."""

    kind: Kind
    type_name: str
    property: str | None = None
    via: str | None = None  # the interface an injected property comes from

    def __str__(self) -> str:
        if self.property is None:
            return f"{self.kind} type `{self.type_name}`"
        name = f"`{self.type_name}.{self.property}`"
        return name if self.via is None else f"{name} (from interface `{self.via}`)"


@dataclass(frozen=True, slots=True)
class Notes:
    """The annotations of one target, by what they mean."""

    stored: tuple[Annotation, ...] = ()
    hint: Hint | None = None
    groups: tuple[ast.Group, ...] = ()
    embed: Embed | None = None
    embed_span: Span | None = None
    default: Default | None = None
    metric: Metric | None = None


def read_type(
    source: Source, target: AnnotationTarget, annotations: Sequence[ast.Annotation]
) -> Notes:
    """The annotations of a node or edge type."""
    _check_repeats(source, target, annotations)
    for annotation in annotations:
        if annotation.name in ast.CONSTRAINT_WORDS or annotation.name in {"embed", METRIC, DEFAULT}:
            place = (
                "properties" if annotation.name not in {"embed", METRIC} else "a vector property"
            )
            source.fail(
                f"`@{annotation.name}` cannot stand on {target}",
                annotation.span,
                f"it belongs on {place} in the body",
            )
    return Notes(_stored(source, target, annotations), _hint(source, target, annotations))


def read_property(source: Source, target: AnnotationTarget, prop: ast.Property) -> Notes:
    """The annotations of a property, wherever it is declared."""
    annotations = prop.annotations
    _check_repeats(source, target, annotations)
    groups: list[ast.Group] = []
    embed: Embed | None = None
    embed_span: Span | None = None
    default: Default | None = None
    metric: Metric | None = None
    for annotation in annotations:
        if annotation.name in ast.GROUP_KINDS:
            groups.append(ast.Group(annotation.name, (prop.name,), annotation.span))
        elif annotation.name in ast.CONSTRAINT_WORDS:
            _refuse_bare_constraint(source, target, prop, annotation)
        elif annotation.name == "instruction":
            source.fail(
                f"`@instruction` cannot stand on {target}: it is for node and edge types only",
                annotation.span,
                "use `@description` for a property",
            )
        elif annotation.name == "embed":
            embed = _embed(source, target, prop.type, annotation)
            embed_span = annotation.value.span if annotation.value else annotation.span
        elif annotation.name == DEFAULT:
            default = read_default(source, str(target), prop.type, annotation)
        elif annotation.name == METRIC:
            metric = _metric(source, target, prop.type, annotation)
    stored = _stored(source, target, annotations, default)
    return Notes(
        with_metric(stored, metric),
        _hint(source, target, annotations),
        tuple(groups),
        embed,
        embed_span,
        default,
        metric,
    )


def with_metric(stored: tuple[Annotation, ...], metric: Metric | None) -> tuple[Annotation, ...]:
    """Annotations with a metric; the default one is not stored."""
    if metric is None or metric == DEFAULT_METRIC:
        return stored
    return tuple(sorted({*stored, Annotation(METRIC, metric)}, key=annotation_order))


def _check_repeats(
    source: Source, target: AnnotationTarget, annotations: Sequence[ast.Annotation]
) -> None:
    seen: set[str] = set()
    for annotation in annotations:
        if annotation.name in _ONCE and annotation.name in seen:
            word = annotation.name
            if word == METRIC and annotation.value is not None:
                word = f"{METRIC}({annotation.value.text})"
            source.fail(
                f"`@{word}` stands multiple times on {target}",
                annotation.span,
                "keep one",
            )
        seen.add(annotation.name)


def _refuse_bare_constraint(
    source: Source, target: AnnotationTarget, prop: ast.Property, annotation: ast.Annotation
) -> None:
    example = _EXAMPLES[annotation.name]
    source.fail(
        f"`@{annotation.name}` on {target} says nothing without arguments",
        annotation.span,
        f"write `@{annotation.name}({prop.name.text}, {example})`",
    )


def _embed(
    source: Source, target: AnnotationTarget, type_: PropType, annotation: ast.Annotation
) -> Embed:
    if target.kind == "edge":
        source.fail(
            f"`@embed` cannot stand on {target}: edge properties are not embedded",
            annotation.span,
        )
    if not type_.is_vector:
        source.fail(
            f"`@embed` on {target} needs a vector property, not {type_.display}",
            annotation.span,
            "declare it as `Vector(n)`",
        )
    if annotation.value is None or not annotation.value.text.strip():
        source.fail(
            f"`@embed` on {target} needs a source property",
            annotation.span,
            "write `@embed(source)` with the name of a String property",
        )
    model: str | None = None
    for name, value in annotation.keywords:
        if name.text != "model":
            source.fail(
                f"`@embed` on {target} does not know the keyword `{name.text}`, only `model`",
                name.span,
            )
        if model is not None or not value.text.strip():
            source.fail(f"`@embed` on {target} takes one `model` that is not blank", name.span)
        model = value.text
    return Embed(annotation.value.text, model)


def _metric(
    source: Source, target: AnnotationTarget, type_: PropType, annotation: ast.Annotation
) -> Metric:
    word = "" if annotation.value is None else annotation.value.text
    if target.kind == "edge":
        source.fail(
            f"`@metric({word})` cannot stand on {target}: edges are not ranked by vectors",
            annotation.span,
        )
    if not type_.is_vector:
        source.fail(
            f"`@metric({word})` on {target} needs a vector property, not {type_.display}",
            annotation.span,
            "declare it as `Vector(n)`",
        )
    found = next((metric for metric in METRICS if metric == word), None)
    if found is None or annotation.keywords:
        source.fail(
            f"`@metric({word})` on {target}: a metric is one word, l2, cosine or dot",
            annotation.span,
            did_you_mean(word, METRICS),
        )
    return found


def _hint(
    source: Source, target: AnnotationTarget, annotations: Sequence[ast.Annotation]
) -> Hint | None:
    for annotation in annotations:
        if annotation.name == "rename_from":
            value = annotation.value
            if value is None or not value.text.strip() or annotation.keywords:
                source.fail(
                    f"`@rename_from` on {target} takes one name that is not blank, nothing else",
                    annotation.span,
                    'write `@rename_from("OldName")`',
                )
            return Hint(value.text, annotation.span)
    return None


def _stored(
    source: Source,
    target: AnnotationTarget,
    annotations: Sequence[ast.Annotation],
    default: Default | None = None,
) -> tuple[Annotation, ...]:
    read = [] if default is None else [default.annotation]
    for annotation in annotations:
        if annotation.name in METADATA:
            if annotation.value is None or not annotation.value.text.strip():
                source.fail(
                    f"`@{annotation.name}` on {target} needs a text that is not blank",
                    annotation.span,
                )
        elif annotation.name in _ONCE:
            continue
        keywords = tuple(sorted((name.text, value.text) for name, value in annotation.keywords))
        value = None if annotation.value is None else annotation.value.text
        read.append(Annotation(annotation.name, value, keywords))
    return tuple(sorted(set(read), key=annotation_order))

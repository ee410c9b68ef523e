"""How the caller of a merge decides entities in conflict: with a word for all, or one by one.

For example

    {
        ("node:Ship", "S1"): {"properties": {"imo": "S1", "name": "Aurora"}},
        ("node:Ship", "S4"): None,
        ("node:Ship", "S9"): "ours",
        ("node:Ship", "S12"): ("ours", {"name": "Borea", "flag": {"$take": "theirs"}}),
    }

gives S1 a new image, deletes S4, keeps S9 as the target has it, and S12 too, but with another name and the
source's flag.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from omnigraph.errors import BadRequest, InputError
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, NodeType
from omnigraph.spelling import did_you_mean
from omnigraph.storage.blob_policy import BlobPolicy
from omnigraph.types import (
    TEXT,
    BlobAddress,
    FileBlob,
    PropType,
    Unfit,
    derive_id,
    from_json,
    json_form,
    shown,
)

Word = Literal["ours", "theirs"]
WORDS: Final = ("ours", "theirs")
Key = tuple[str, str]
"""A table key and an id: what names an entity."""
Resolve = str | Mapping[Key, Any] | None
"""What a caller gives: a word, or for each entity an image, a word, a word with changes, or None to delete it."""

_ENDS: Final = {"from": "src", "to": "dst"}
_TAKE: Final = "$take"


@dataclass(frozen=True, slots=True)
class Image:
    """The new content of an entity: stored values by column, of blobs as ``blobs/blob_columns.py`` has them."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Changed:
    """A side's state with changes: ``values`` are stored values by column, ``taken`` the side of others."""

    word: Word
    values: Mapping[str, Any]
    taken: Mapping[str, Word]


Decision = Word | Image | Changed | None
"""What becomes of one entity: a side's state, with or without changes, a new image, or (None) nothing."""


@dataclass(frozen=True, slots=True)
class Resolutions:
    """The decisions of one merge: ``word`` holds for every entity in conflict, ``named`` for single ones."""

    word: Word | None = None
    named: Mapping[Key, Decision] = field(default_factory=dict)

    def of_table(self, entity: Entity) -> dict[str, Decision]:
        """Return the decisions about single entities of one type, by id."""
        return {
            id_: decision for (key, id_), decision in self.named.items() if key == entity.table_key
        }

    def refuse_unused(self, decided: Iterable[Key]) -> None:
        """Refuse decisions about entities that are not in conflict; ``decided`` are those that are."""
        unused = sorted(set(self.named) - set(decided))
        if unused:
            table_key, id_ = unused[0]
            raise BadRequest(
                f"resolve names {table_key} {shown(id_)}, which is not in conflict; leave it out, and see "
                "with dry_run what is",
                table_key=table_key,
                row_id=id_,
            )


NO_RESOLUTIONS: Final = Resolutions()


def read_resolutions(catalog: Catalog, resolve: object, blobs: BlobPolicy) -> Resolutions:
    """Check what a caller gives as ``resolve``, and read its images as stored values.

    ``BadRequest`` for what is no resolution, ``InputError`` for an image that does not fit its type.
    """
    if resolve is None:
        return NO_RESOLUTIONS
    if isinstance(resolve, str):
        return Resolutions(_word(resolve))
    if not isinstance(resolve, Mapping):
        raise BadRequest(
            f'resolve is "ours", "theirs" or a mapping of (table key, id), got {shown(resolve)}'
        )
    named: dict[Key, Decision] = {}
    for key, given in resolve.items():
        table_key, id_ = _key(key)
        entity = _entity(catalog, table_key, id_)
        if given is None:
            named[table_key, id_] = None
        elif isinstance(given, str):
            named[table_key, id_] = _word(given)
        elif isinstance(given, tuple) or (isinstance(given, Mapping) and "take" in given):
            named[table_key, id_] = _changed(entity, id_, _with_changes(given), blobs)
        else:
            named[table_key, id_] = _image(entity, id_, given, blobs)
    return Resolutions(named=named)


def resolve_from_json(document: object) -> Resolve:
    """Read the JSON form of resolutions: a word, or a list.

    An item is ``{table_key, row_id}`` with an ``image``, or with ``take``, ``set`` and ``ends``. The list may stand in an object under ``resolutions``, as a file has it.
    """
    if document is None or isinstance(document, str):
        return document
    if isinstance(document, Mapping):
        if set(document) != {"resolutions"}:
            raise BadRequest('resolutions are an object with the one key "resolutions", a list')
        document = document["resolutions"]
    if not isinstance(document, list | tuple):
        raise BadRequest(f"resolutions are a list of objects, got {shown(document)}")
    named: dict[Key, Any] = {}
    for number, item in enumerate(document, start=1):
        key, decision = _listed(number, item)
        if key in named:
            raise BadRequest(f"resolutions name {key[0]} {shown(key[1])} twice; decide it once")
        named[key] = decision
    return named


def _listed(number: int, item: object) -> tuple[Key, Any]:
    """Return one item of the JSON list: whom it decides, and how."""
    place = f"resolution {number}"
    if not isinstance(item, Mapping):
        raise BadRequest(f"{place} is an object, got {shown(item)}")
    for name in item:
        if name not in {"table_key", "row_id", "image", "take", "set", "ends"}:
            raise BadRequest(
                f"{place} has no key {shown(name)}, only table_key, row_id, image, take, set and ends"
            )
    if ("image" in item) == ("take" in item):
        raise BadRequest(f'{place} needs either "image" or "take"')
    if "image" in item and ("set" in item or "ends" in item):
        raise BadRequest(f'{place}: "set" and "ends" change what "take" takes; an image is whole')
    key = item.get("table_key"), item.get("row_id")
    if not isinstance(key[0], str) or not isinstance(key[1], str):
        raise BadRequest(f'{place} needs "table_key" and "row_id", both texts')
    if "image" in item:
        if isinstance(item["image"], str):
            raise BadRequest(f'{place}: an image is an object or null; a word goes into "take"')
        return cast("Key", key), item["image"]
    if "set" not in item and "ends" not in item:
        return cast("Key", key), _word(item["take"])
    return cast("Key", key), {name: item[name] for name in ("take", "set", "ends") if name in item}


def _with_changes(given: tuple[Any, ...] | Mapping[str, Any]) -> tuple[Word, object, object]:
    """Return the parts of a word with changes: the word, what is set, and the ends of an edge."""
    if isinstance(given, tuple):
        if not 1 <= len(given) <= 3:
            raise BadRequest(
                f"a word with changes is (word, properties) or (word, properties, ends), got {shown(given)}"
            )
        parts = dict(zip(("take", "set", "ends"), given, strict=False))
    else:
        for name in given:
            if name not in {"take", "set", "ends"}:
                raise BadRequest(f"a word with changes has take, set and ends, not {shown(name)}")
        parts = dict(given)
    for name in ("set", "ends"):
        if not isinstance(parts.setdefault(name, {}), Mapping):
            raise BadRequest(f"what `{name}` gives is a mapping, got {shown(parts[name])}")
    return _word(parts["take"]), parts["set"], parts["ends"]


def _word(given: object) -> Word:
    if given not in WORDS:
        raise BadRequest(
            f'{shown(given)} decides nothing; resolve knows "ours" (the target\'s state) and "theirs" '
            "(the source's)"
        )
    return given


def _key(key: object) -> Key:
    if (
        not isinstance(key, tuple)
        or len(key) != 2
        or not all(isinstance(part, str) for part in key)
    ):
        raise BadRequest(
            "resolve is keyed by pairs of table key and id, such as ('node:Ship', 'S1'), got "
            + (shown(key) if not isinstance(key, tuple) else repr(key)[:80])
        )
    return key


def _entity(catalog: Catalog, table_key: str, id_: str) -> Entity:
    types: list[Entity] = [*catalog.nodes.values(), *catalog.edges.values()]
    known = {one.table_key: one for one in types}
    if table_key in known:
        return known[table_key]
    hint = did_you_mean(table_key, known)
    raise BadRequest(
        f"resolve names {shown(table_key)} {shown(id_)}, and the graph has no such table"
        + (f"; {hint}" if hint else ""),
        table_key=table_key,
        row_id=id_,
    )


def _image(entity: Entity, id_: str, given: object, blobs: BlobPolicy) -> Image:
    """Read an image ``{properties, endpoints?}``; what it leaves out is null."""
    try:
        values = {"id": id_, **_endpoints(entity, given), **_properties(entity, given, blobs)}
        _check_key(entity, id_, values)
    except Unfit as unfit:
        raise _misfit("the image that resolve gives", entity, id_, unfit) from None
    return Image(values)


def _changed(entity: Entity, id_: str, given: tuple[Word, Any, Any], blobs: BlobPolicy) -> Changed:
    """Read a word with changes; values are checked against their types, and key members against the id."""
    word, properties, ends = given
    values: dict[str, Any] = {}
    taken: dict[str, Word] = {}
    try:
        for name, (kind, value) in _changes(entity, properties, ends).items():
            side = _side(name, value)
            if side is None:
                values[name] = _read(name, kind, value, blobs)
            else:
                taken[name] = side
        _check_members(entity, id_, values)
    except Unfit as unfit:
        raise _misfit("what resolve sets", entity, id_, unfit) from None
    return Changed(word, values, taken)


def _changes(
    entity: Entity, properties: Mapping[str, Any], ends: Mapping[str, Any]
) -> dict[str, tuple[PropType, Any]]:
    """Return the type and the given value of every column that changes."""
    _check_names(entity, properties)
    found = {name: (entity.properties[name].type, value) for name, value in properties.items()}
    if ends and not isinstance(entity, EdgeType):
        raise Unfit("a node has no ends")
    for end, value in ends.items():
        if end not in _ENDS:
            raise Unfit(f'the ends of an edge are "from" and "to", not {shown(end)}')
        found[_ENDS[end]] = (TEXT, value)
    return found


def _side(name: str, value: object) -> Word | None:
    """Return the side that a value is taken from; None if it is given."""
    if not isinstance(value, Mapping) or _TAKE not in value:
        return None
    if len(value) > 1:
        raise Unfit(f"{name}: {_TAKE} stands alone")
    return _word(value[_TAKE])


def _read(name: str, kind: PropType, value: object, blobs: BlobPolicy) -> Any:
    """Return a value as it is stored; a value that does not fit is refused with the name."""
    try:
        return _column_value(_stored(kind, value), blobs)
    except Unfit as unfit:
        raise Unfit(f"{name}: {unfit}") from None


def _misfit(what: str, entity: Entity, id_: str, unfit: Unfit) -> InputError:
    return InputError(
        f"{what} for {entity.table_key} {shown(id_)} does not fit: {unfit}",
        table_key=entity.table_key,
        row_id=id_,
    )


def _check_members(entity: Entity, id_: str, values: Mapping[str, Any]) -> None:
    """Refuse values of single key members that belong to another id."""
    if not isinstance(entity, NodeType) or entity.key is None:
        return
    texts = [id_] if len(entity.key) == 1 else json.loads(id_)
    for name, text in zip(entity.key, texts, strict=True):
        if name in values and derive_id([(entity.properties[name].type, values[name])]) != text:
            raise Unfit(f"{name} is part of the key, and an id cannot change")


def _check_key(entity: Entity, id_: str, values: Mapping[str, Any]) -> None:
    """Refuse values of key members that belong to another id."""
    if isinstance(entity, NodeType) and entity.key is not None:
        derived = derive_id((entity.properties[name].type, values[name]) for name in entity.key)
        if derived != id_:
            raise Unfit(f"its key makes the id {shown(derived)}, and an id cannot change")


def _properties(entity: Entity, given: object, blobs: BlobPolicy) -> dict[str, Any]:
    properties = _member(given, "properties")
    _check_names(entity, properties)
    return {
        name: _read(name, prop.type, properties.get(name), blobs)
        for name, prop in entity.properties.items()
    }


def _check_names(entity: Entity, properties: Iterable[object]) -> None:
    for name in properties:
        if name not in entity.properties:
            hint = did_you_mean(str(name), entity.properties)
            raise Unfit(
                f"{entity.name} has no property {shown(name)}" + (f"; {hint}" if hint else "")
            )


def _endpoints(entity: Entity, given: object) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise Unfit(f"an image is an object with properties, got {shown(given)}")
    is_edge = isinstance(entity, EdgeType)
    for name in given:
        if name != "properties" and not (is_edge and name == "endpoints"):
            raise Unfit(
                f"an image of {'an edge' if is_edge else 'a node'} has no key {shown(name)}"
            )
    if not is_edge:
        return {}
    ends = _member(given, "endpoints")
    if set(ends) != set(_ENDS):
        raise Unfit('the endpoints of an edge are an object with "from" and "to"')
    values = {}
    for end, column in _ENDS.items():
        try:
            values[column] = from_json(TEXT, ends[end])
        except Unfit as unfit:
            raise Unfit(f"{end}: {unfit}") from None
    return values


def _member(given: object, name: str) -> Mapping[str, Any]:
    """Return an object inside the image."""
    found = given.get(name) if isinstance(given, Mapping) else None
    if not isinstance(found, Mapping):
        raise Unfit(f"its {name} are an object, got {shown(found)}")
    return found


def _stored(type_: PropType, value: object) -> Any:
    """Read a value, also one of Python's own types: dates, arrays, the bytes of a blob."""
    if type_.is_blob and isinstance(value, bytes):
        return value
    return from_json(type_, json_form(type_, value))


def _column_value(value: Any, blobs: BlobPolicy) -> Any:
    """Return a stored value as a row that is written has it, which matters for blobs."""
    if isinstance(value, bytes):
        return {"data": value}
    if isinstance(value, BlobAddress):
        return {"uri": blobs.allowed_address(value.uri)}
    if isinstance(value, FileBlob):
        source = blobs.find_source(value.path)
        # Lance takes in no empty range.
        return (
            {"uri": source.uri, "position": 0, "size": source.size}
            if source.size
            else {"data": b""}
        )
    return value

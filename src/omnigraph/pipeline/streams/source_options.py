"""The options of `spark.readStream`, checked, and the columns that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.changes.change_filter import ChangeFilter
from omnigraph.changes.feed.change_rows import IMAGES, Images
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest.branch_names import trim_branch_name
from omnigraph.pipeline.datasource.option_values import (
    EndOptions,
    check_known,
    ends_of,
    graph_address,
    names_in,
    require,
    truth_of,
    whole_number,
)
from omnigraph.pipeline.datasource.options import end_columns, find_type
from omnigraph.types import TEXT, PropType, Scalar

FEED: Final = "feed"
"""The option that makes a read one of the change feed; its value is the branch."""

MAX_ROWS: Final = 100_000
MAX_COMMITS: Final = 512

_OPTIONS = (
    "graph", "path", FEED, "types", "kinds", "ops", "images", "typed", "startingfrom",
    "maxrowspertrigger", "maxcommitspertrigger", "from_col", "to_col",
)  # fmt: skip

_COMMIT = "commit:"
_LATEST = "latest"
_STARTS = {_LATEST: "now", "beginning": "beginning"}


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The checked options of a stream.

    ``start`` is where a query without a checkpoint begins, in the words of the feed. ``max_rows`` and
    ``max_commits`` bound a micro-batch; ``by_commits`` says that the user bounded commits alone.
    """

    graph: str
    branch: str
    filter: ChangeFilter
    images: Images
    typed: bool
    start: str
    max_rows: int
    max_commits: int
    by_commits: bool
    ends: EndOptions

    @property
    def starts_at_head(self) -> bool:
        """Whether a new query begins with what is committed after its start."""
        return self.start == _STARTS[_LATEST]


@dataclass(frozen=True, slots=True)
class FeedColumn:
    """A column of the stream. ``source`` is what ``change_rows`` calls it, or the id of a property."""

    name: str
    type: PropType
    source: str | int


def feed_options(options: Mapping[str, str]) -> FeedOptions:
    """Check the options of `spark.readStream`, as far as that is possible without the graph."""
    given = check_known(options, _OPTIONS, "stream")
    listed = {
        name: names_in(name, given[name]) for name in ("kinds", "types", "ops") if name in given
    }
    shown = ChangeFilter.of(**listed)
    typed = truth_of(given, "typed")
    if typed and len(shown.types) != 1:
        raise BadRequest(
            "typed=true gives the columns of one type; name exactly one type in the option `types`"
        )
    ends = ends_of(given)
    if typed and "images" in given:
        raise BadRequest(
            "typed=true gives properties as columns, and no images; leave the option `images` out",
            option="images",
        )
    if not typed and ends != EndOptions():
        raise BadRequest(
            "from_col and to_col name columns of a typed stream; add typed=true, or leave them out"
        )
    return FeedOptions(
        graph=graph_address(given),
        branch=trim_branch_name(require(given, FEED)),
        filter=shown,
        images=_images(given.get("images", "after")),
        typed=typed,
        start=_start(given.get("startingfrom", _LATEST)),
        max_rows=_most(given, "maxRowsPerTrigger", MAX_ROWS),
        max_commits=_most(given, "maxCommitsPerTrigger", MAX_COMMITS),
        by_commits="maxcommitspertrigger" in given and "maxrowspertrigger" not in given,
        ends=ends,
    )


def _most(given: Mapping[str, str], option: str, default: int) -> int:
    return whole_number(option, given.get(option.lower(), str(default)), least=1)


def _images(text: str) -> Images:
    for known in IMAGES:
        if text.strip().lower() == known:
            return known
    raise BadRequest(f"images is {text!r}; give {', '.join(IMAGES[:-1])} or {IMAGES[-1]}")


def _start(text: str) -> str:
    """Return `now`, `beginning` or `after:<commit id>`, as the feed calls them."""
    word = text.strip()
    if word.lower() in _STARTS:
        return _STARTS[word.lower()]
    if word.lower().startswith(_COMMIT) and word[len(_COMMIT) :].strip():
        return f"after:{word[len(_COMMIT) :].strip()}"
    raise BadRequest(f"startingFrom is {text!r}; it is latest, beginning or commit:<commit id>")


# ------------------------------------------------------------------ columns

_MAYBE: Final = TEXT.as_nullable(True)

_ROWS: Final = tuple(
    FeedColumn(name, kind, name)
    for name, kind in (
        ("op", TEXT),
        ("kind", TEXT),
        ("type", TEXT),
        ("id", TEXT),
        ("before", _MAYBE),
        ("after", _MAYBE),
        ("from", _MAYBE),
        ("to", _MAYBE),
        ("graph_commit_id", TEXT),
        ("actor_id", _MAYBE),
        ("authored_at", PropType(Scalar.DATETIME)),
    )
)


def feed_columns(catalog: Catalog, options: FeedOptions) -> tuple[FeedColumn, ...]:
    """Return the columns of a stream: those of changes, or those of its one type."""
    return _typed(_type_of(catalog, options), options) if options.typed else _ROWS


def _type_of(catalog: Catalog, options: FeedOptions) -> Entity:
    (name,), kinds = options.filter.types, options.filter.kinds
    return find_type(catalog, f"{kinds[0]}:{name}" if kinds else name)


def _typed(entity: Entity, options: FeedOptions) -> tuple[FeedColumn, ...]:
    own = [FeedColumn(name, TEXT, name) for name in ("op", "id", "graph_commit_id")]
    ends = {shown: end for shown, end in end_columns(entity, options.ends).items() if end != "id"}
    own += [FeedColumn(shown, _MAYBE, _ENDS[end]) for shown, end in ends.items()]
    taken = {column.name for column in own}
    for name in entity.properties:
        if name in taken:
            raise BadRequest(
                f"{entity.name} has a property `{name}`, which a typed stream has as a column of its "
                "own; leave typed out and take the property from `after`"
            )
    return tuple(own) + tuple(
        # A delete has only the id.
        FeedColumn(name, prop.type.as_nullable(True), prop.property_id)
        for name, prop in entity.properties.items()
    )


_ENDS: Final = {"src": "from", "dst": "to"}

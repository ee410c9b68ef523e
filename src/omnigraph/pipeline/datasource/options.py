"""The options of the Spark data source, checked, and the names of its columns."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.errors import BadRequest, did_you_mean
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.manifest.actors import check_actor, check_operation_id
from omnigraph.manifest.branch_names import MAIN, trim_branch_name, trim_written_branch
from omnigraph.manifest.snapshot import Target
from omnigraph.pipeline.formats.frame_layout import Layout, check_ends
from omnigraph.pipeline.frame_options import FrameOptions
from omnigraph.pipeline.load_options import ON_BAD, LoadMode, LoadOptions, OnBad

PARTITION_ROWS = 250_000
"""About how many rows a partition has: small fragments are put together, large ones divided."""

_COMMON = ("graph", "path", "type", "branch", "from_col", "to_col", "columns")
READ = (*_COMMON, "snapshot", "version", "tag", "time", "filter", "partition_rows", "pushdown")
WRITE = (
    *_COMMON,
    "merge",
    "patch",
    "on_bad",
    "rejects",
    "ignore_extra",
    "actor",
    "from_branch",
    "if_commit",
    "retries",
    "operation_id",
)
# A view or a table has the options of both: it is read with them, and written by INSERT.
_NOT_OF_READS = ("merge", "patch", "on_bad", "ignore_extra", "actor", "retries")
_NOT_OF_WRITES = ("partition_rows", "pushdown")

_TRUTH = {"true": True, "false": False}
_TABLE_OPTION = "option."


@dataclass(frozen=True, slots=True)
class Ends:
    """The names of the columns with the ids of an edge's two ends."""

    source: str = "from"
    target: str = "to"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of a read."""

    graph: str
    type: str
    target: Target
    ends: Ends
    columns: tuple[str, ...] | None
    filter: str | None
    partition_rows: int
    pushdown: bool = False
    """Whether Spark may hand over filters of its own."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The checked options of a write.

    ``merge`` replaces rows with the same id, ``patch`` changes only the columns that the frame has.
    ``frame`` says how the columns of the frame are read, and the others mean what they mean to a load.
    """

    graph: str
    type: str
    branch: str
    ends: Ends
    merge: bool
    actor: str | None
    patch: bool = False
    on_bad: OnBad = "fail"
    rejects: str | None = None
    from_branch: str | None = None
    if_commit: str | None = None
    retries: int | None = None
    operation_id: str | None = None
    frame: FrameOptions = field(default_factory=FrameOptions)

    def layout(self, entity: Entity) -> Layout:
        """Return which columns of the frame become which columns of the type."""
        ends = self.ends
        return Layout(entity, ends.source, ends.target, patch=self.patch, options=self.frame)

    def load_options(self, mode: LoadMode) -> LoadOptions:
        """Return what the commit, which is a load, takes of them."""
        return LoadOptions(
            mode,
            self.branch,
            self.from_branch,
            actor=self.actor,
            if_commit=self.if_commit,
            retries=self.retries,
            rejects=self.rejects,
            on_bad=self.on_bad,
            operation_id=self.operation_id,
        )


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check the options of `spark.read`, as far as that is possible without the graph."""
    given = _check_known(options, READ, "read", _NOT_OF_READS)
    version = given.get("version")
    return ReadOptions(
        _graph(given),
        _require(given, "type"),
        Target.of(
            given.get("branch"),
            given.get("snapshot"),
            None if version is None else _whole("version", version),
            given.get("tag"),
            given.get("time"),
        ),
        _ends(given),
        _names(given["columns"]) if "columns" in given else None,
        given.get("filter"),
        max(1, _whole("partition_rows", given.get("partition_rows", str(PARTITION_ROWS)))),
        _truth(given, "pushdown"),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Check the options of `df.write`, as far as that is possible without the graph."""
    given = _check_known(options, WRITE, "write", _NOT_OF_WRITES)
    merge, patch = _truth(given, "merge"), _truth(given, "patch")
    if merge and patch:
        raise BadRequest("merge=true replaces rows and patch=true keeps what they have; choose one")
    return WriteOptions(
        _graph(given),
        _require(given, "type"),
        trim_written_branch(given.get("branch", MAIN)),
        _ends(given),
        merge,
        check_actor(given.get("actor")),
        patch,
        _on_bad(given.get("on_bad", "fail")),
        _rejects(given.get("rejects")),
        None if "from_branch" not in given else trim_branch_name(given["from_branch"]),
        given.get("if_commit"),
        None if "retries" not in given else _whole("retries", given["retries"]),
        check_operation_id(given.get("operation_id")),
        FrameOptions.of(_renames(given.get("columns")), _truth(given, "ignore_extra")),
    )


def _rejects(text: str | None) -> str | None:
    """Return the file for bad rows; processes of Spark's would look for a relative path elsewhere."""
    if text is None or "://" in text or Path(text).is_absolute():
        return text
    raise BadRequest(f"rejects is {text!r}; give the full path of a file", option="rejects")


def _renames(text: str | None) -> dict[str, str] | None:
    """Read `A=b, c`: the column A of the frame is written as b, and c as c. JSON does as well."""
    if text is None:
        return None
    if text.lstrip().startswith("{"):
        try:
            renames: dict[str, str] = json.loads(text)
        except ValueError:
            raise BadRequest(
                f"the option `columns` is no JSON object: {text}", option="columns"
            ) from None
        return renames
    pairs = [name.partition("=") for name in _names(text)]
    return {old.strip(): (new if equals else old).strip() for old, equals, new in pairs}


def _truth(given: Mapping[str, str], name: str) -> bool:
    value = _TRUTH.get(given.get(name, "false").strip().lower())
    if value is None:
        raise BadRequest(f"{name} is {given[name]!r}; give true or false")
    return value


def _on_bad(text: str) -> OnBad:
    for known in ON_BAD:
        if text.strip().lower() == known:
            return known
    raise BadRequest(f"on_bad is {text!r}; give {' or '.join(ON_BAD)}")


def user_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return what the user gave, with lower-case names, as Spark compares them.

    For `CREATE TABLE` Spark adds what it knows of the table itself (`provider`, `owner`, …), and gives
    the user's own options once more under the names `option.…`.
    """
    given = {name.lower(): value for name, value in options.items()}
    if "provider" not in given:
        return given
    return {
        name.removeprefix(_TABLE_OPTION): value
        for name, value in given.items()
        if name.startswith(_TABLE_OPTION) or name == "path"
    }


def _check_known(
    options: Mapping[str, str], known: Collection[str], what: str, ignored: Collection[str]
) -> dict[str, str]:
    """Return the options that were given; refuse unknown ones."""
    given = user_options(options)
    for name in given:
        if name not in known and name not in ignored:
            hint = did_you_mean(name, known) or f"it takes {', '.join(known)}"
            raise BadRequest(f"a {what} of omnigraph takes no option `{name}`; {hint}", option=name)
    return given


def _require(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise BadRequest(f'the option `{name}` is missing; add .option("{name}", …)', option=name)
    return value


def _graph(given: Mapping[str, str]) -> str:
    """Return the graph's address: the option `graph`, or the argument of `load` or `save`."""
    return given["path"] if "path" in given and "graph" not in given else _require(given, "graph")


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text, re.ASCII):
        raise BadRequest(f"the option `{name}` is {text!r}; give a whole number", option=name)
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise BadRequest("the option `columns` is empty; name columns, separated by commas")
    return names


def _ends(given: Mapping[str, str]) -> Ends:
    ends = Ends(given.get("from_col", "from"), given.get("to_col", "to"))
    check_ends(ends.source, ends.target)
    return ends


def find_type(catalog: Catalog, name: str) -> Entity:
    """Return the node or edge type of that name; `node:T` or `edge:T` where both have it."""
    kind, colon, bare = name.partition(":")
    if colon and kind in {"node", "edge"}:
        entity = catalog.nodes.get(bare) if kind == "node" else catalog.edge(bare)
        if entity is not None:
            return entity
    node, edge = catalog.nodes.get(name), catalog.edge(name)
    if node is not None and edge is not None:
        raise BadRequest(f"{name} is a node type and an edge type; say node:{name} or edge:{name}")
    if node is not None or edge is not None:
        found = node or edge
        assert found is not None
        return found
    known = [*catalog.nodes, *catalog.edges]
    hint = did_you_mean(name, known) or f"the graph has {', '.join(known) or 'no types'}"
    raise BadRequest(f"there is no type {name}; {hint}", type=name)


def end_columns(entity: Entity, ends: Ends) -> dict[str, str]:
    """Return the columns before the properties: their names in Spark and in the table."""
    columns = {"id": "id"}
    if isinstance(entity, EdgeType):
        for shown, stored in ((ends.source, "src"), (ends.target, "dst")):
            if shown in entity.properties or shown in columns:
                raise BadRequest(
                    f"{entity.name} has a column `{shown}` already; name the ends of the edge "
                    "with from_col and to_col"
                )
            columns[shown] = stored
    return columns

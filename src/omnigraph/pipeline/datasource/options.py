"""The options of the Spark data source, checked, and the names of its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.errors import BadRequest
from omnigraph.lang.query.ir import EVER
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.manifest.actors import check_actor, check_app_id, check_message, check_operation_id
from omnigraph.manifest.branch_names import MAIN, trim_branch_name, trim_written_branch
from omnigraph.manifest.history.stream_records import StreamBatch
from omnigraph.manifest.snapshot import Target, check_as_of
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
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.frame_options import FrameOptions
from omnigraph.pipeline.load_options import ON_BAD, LoadOptions, OnBad
from omnigraph.spelling import did_you_mean

PARTITION_ROWS = 250_000
"""About how many rows a partition has: small fragments are put together, large ones divided."""

_COMMON = ("graph", "path", "type", "branch", "from_col", "to_col", "columns")
READ = (*_COMMON, "snapshot", "version", "tag", "time", "as_of", "filter", "partition_rows")
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
    "message",
    "app_id",
    "batch_id",
    "query_id",
)
# A table has the options of both: it is read with them, and written by INSERT.
_OF_WRITES = tuple(name for name in WRITE if name not in READ)
_NOT_OF_WRITES = ("partition_rows",)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of a read."""

    graph: str
    type: str
    target: Target
    ends: EndOptions
    columns: tuple[str, ...] | None
    filter: str | None
    partition_rows: int
    as_of: int | str = EVER
    """The moment at which rows hold, in milliseconds; by default all that is stored."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The checked options of a write: a type of a graph, how a frame becomes rows of it, and the load that is.

    ``load`` has what a load is asked for, too. Its mode is append, merge or patch; that a frame replaces all
    rows is told later, by Spark. ``frame`` says how the columns of the frame are read. ``batch``: the frame
    is this micro-batch of a stream.
    """

    graph: str
    type: str
    ends: EndOptions
    load: LoadOptions
    frame: FrameOptions = field(default_factory=FrameOptions)
    batch: StreamBatch | None = None

    def layout(self, entity: Entity, catalog: Catalog) -> Layout:
        """Return which columns of the frame become which columns of the type."""
        ends = self.ends
        return Layout(
            entity,
            ends.source,
            ends.target,
            patch=self.load.mode == "patch",
            options=self.frame,
            by_options=True,
            nodes=catalog.nodes,
        )


def read_options(options: Mapping[str, str], *, table: bool = False) -> ReadOptions:
    """Check the options of `spark.read`, as far as that is possible without the graph.

    ``table``: they are those of a table, and some are for its INSERTs.
    """
    if not table:
        _refuse_others(options)
    given = check_known(options, READ, "read", _OF_WRITES if table else ())
    version = given.get("version")
    return ReadOptions(
        graph_address(given),
        require(given, "type", 'or .option("feed", BRANCH) for a stream'),
        Target.of(
            given.get("branch"),
            given.get("snapshot"),
            None if version is None else whole_number("version", version),
            given.get("tag"),
            given.get("time"),
        ),
        ends=ends_of(given),
        columns=names_in("columns", given["columns"]) if "columns" in given else None,
        filter=given.get("filter"),
        partition_rows=whole_number(
            "partition_rows", given.get("partition_rows", str(PARTITION_ROWS)), least=1
        ),
        as_of=check_as_of(given.get("as_of", EVER)),
    )


def _refuse_others(options: Mapping[str, str]) -> None:
    """Refuse options that have a meaning, but not for a read."""
    for name in options:
        if name.lower() == "pushdown":
            # Spark 4.3 keeps the filters of one query for all others of the frame.
            raise BadRequest(
                "Spark would use the filters of one query for others of the same frame, so none of its own "
                "are taken; give conditions with the option `filter`",
                option="pushdown",
            )
        if name.lower() == "paths":
            raise BadRequest(
                "a frame is of one graph, and load was given several; read them one by one, and unite them",
                option="paths",
            )
        if name.lower() in _OF_WRITES:
            raise BadRequest(
                f"a read of omnigraph takes no option `{name}`, which is one of writes; leave it out",
                option=name,
            )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Check the options of `df.write`, as far as that is possible without the graph."""
    given = check_known(options, WRITE, "write", _NOT_OF_WRITES)
    return WriteOptions(
        graph_address(given),
        require(given, "type"),
        ends_of(given),
        _load_options(given),
        FrameOptions.of(_renames(given.get("columns")), truth_of(given, "ignore_extra")),
        _batch(given),
    )


def _load_options(given: Mapping[str, str]) -> LoadOptions:
    merge, patch = truth_of(given, "merge"), truth_of(given, "patch")
    if merge and patch:
        raise BadRequest("merge=true replaces rows and patch=true keeps what they have; choose one")
    return LoadOptions(
        mode="merge" if merge else "patch" if patch else "append",
        branch=trim_written_branch(given.get("branch", MAIN)),
        from_branch=None if "from_branch" not in given else trim_branch_name(given["from_branch"]),
        actor=check_actor(given.get("actor")),
        if_commit=given.get("if_commit"),
        retries=None if "retries" not in given else whole_number("retries", given["retries"]),
        rejects=_rejects(given.get("rejects")),
        on_bad=_on_bad(given.get("on_bad", "fail")),
        operation_id=check_operation_id(given.get("operation_id")),
        message=check_message(given.get("message")),
    )


def _batch(given: Mapping[str, str]) -> StreamBatch | None:
    """Return the micro-batch that a frame of `foreachBatch` is, if it says so."""
    app_id = check_app_id(given.get("app_id"))
    if app_id is None and "batch_id" not in given:
        if "query_id" in given:
            raise BadRequest(
                "query_id goes with app_id and batch_id; give all three", option="query_id"
            )
        return None
    if app_id is None or "batch_id" not in given:
        raise BadRequest("app_id and batch_id belong together; give both, or leave both out")
    if "operation_id" in given:
        raise BadRequest("app_id and batch_id name the operation; leave operation_id out")
    return StreamBatch(app_id, whole_number("batch_id", given["batch_id"]), given.get("query_id"))


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
    pairs = [name.partition("=") for name in names_in("columns", text)]
    return {old.strip(): (new if equals else old).strip() for old, equals, new in pairs}


def _on_bad(text: str) -> OnBad:
    for known in ON_BAD:
        if text.strip().lower() == known:
            return known
    raise BadRequest(f"on_bad is {text!r}; give {' or '.join(ON_BAD)}")


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


def end_columns(entity: Entity, ends: EndOptions) -> dict[str, str]:
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
    else:
        refuse_ends(entity, ends)
    return columns


def refuse_ends(entity: Entity, ends: EndOptions) -> None:
    """Refuse names for the ends of a type that has none."""
    if not isinstance(entity, EdgeType) and ends != EndOptions():
        raise BadRequest(
            f"{entity.name} is a node type, whose rows have no ends; leave from_col and to_col out"
        )

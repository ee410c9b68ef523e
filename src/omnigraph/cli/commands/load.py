"""`omnigraph load` and its older name `ingest`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import writes_graph
from omnigraph.cli.output import note, put
from omnigraph.cli.progress import load_progress
from omnigraph.cli.register import (
    BranchOption,
    IfCommitOption,
    OperationOption,
    UriArgument,
    add,
)
from omnigraph.cli.source import STDIN, open_stdin
from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import MAIN
from omnigraph.pipeline.load_options import EngineName, LoadMode, OnBad

if TYPE_CHECKING:
    from omnigraph.pipeline.frame_options import FrameOptions
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.request import LoadResult


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """Flags that name the input: JSON lines, and files of columns of one type."""

    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="JSON lines: a file, glob, directory or s3:// URI; - reads stdin.",
        ),
    ] = None
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="TYPE FILE", help="A Parquet, CSV or Arrow file of one node type."
        ),
    ] = None
    edge: Annotated[
        list[str] | None,
        typer.Option(
            "--edge", metavar="TYPE FILE", help="A Parquet, CSV or Arrow file of one edge type."
        ),
    ] = None
    from_col: Annotated[
        str | None,
        typer.Option(
            "--from-col", metavar="NAME", help="The column of an edge's source, if not from."
        ),
    ] = None
    to_col: Annotated[
        str | None,
        typer.Option("--to-col", metavar="NAME", help="The column of an edge's target, if not to."),
    ] = None


@dataclass(frozen=True, slots=True)
class ColumnFlags:
    """Flags that say how files of columns are read."""

    map: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="A=b", help="Read column A of the files as b; repeatable."),
    ] = None
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Leave out columns that the type does not have.")
    ] = False
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", metavar="C", help=r"What divides the cells of CSV; \t is tab."),
    ] = None
    no_header: Annotated[
        bool, typer.Option("--no-header", help="CSV files begin with a row; needs --names.")
    ] = False
    names: Annotated[
        str | None,
        typer.Option("--names", metavar="A,b", help="The columns of CSV files without a header."),
    ] = None
    null: Annotated[
        list[str] | None,
        typer.Option("--null", metavar="TEXT", help="A cell that means no value; repeatable."),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", metavar="NAME", help="The encoding of CSV, if not UTF-8."),
    ] = None


@dataclass(frozen=True, slots=True)
class SparkFlags:
    """Flags that say where a load runs."""

    engine: Annotated[
        EngineName, typer.Option("--engine", help="The engine that runs the load.")
    ] = "auto"
    spark_master: Annotated[
        str | None,
        typer.Option("--spark-master", metavar="MASTER", help="Where Spark runs, as local[*]."),
    ] = None
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--spark-conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated."
        ),
    ] = None


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, writes_graph("load"), load)
    ingest.__signature__ = _with_defaults(load, mode="merge", from_=MAIN)  # type: ignore[attr-defined]
    add(app, writes_graph("ingest"), ingest)


def load(
    call: Call,
    mode: Annotated[LoadMode, typer.Option("--mode", help="How records meet what is there.")],
    sources: SourceFlags,
    columns: ColumnFlags,
    spark: SparkFlags,
    uri: UriArgument = None,
    branch: BranchOption = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="Make a missing branch from this one."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Judge every record, and write nothing.")
    ] = False,
    on_bad: Annotated[
        OnBad,
        typer.Option("--on-bad", help="What a bad record does: fail the load, or be skipped."),
    ] = "fail",
    rejects: Annotated[
        Path | None, typer.Option("--rejects", metavar="FILE", help="Write every bad record there.")
    ] = None,
    embed: Annotated[
        bool,
        typer.Option(
            "--embed", help="Fail where a vector cannot be made, instead of leaving null."
        ),
    ] = False,
    if_commit: IfCommitOption = None,
    operation_id: OperationOption = None,
) -> None:
    """Load records as one commit, or nothing."""
    from omnigraph.graph import loads
    from omnigraph.graph.session import access_of

    named = _NamedInput(sources, columns)
    conf = _pairs("--spark-conf", spark.spark_conf) or None
    address = call.address(uri, read_only=check)
    if mode == "overwrite" and not check:
        call.consent(address, "overwriting tables")
    with load_progress(call.flags) as progress, call.open(address, read_only=check) as graph:
        result = loads.load_gathered(
            access_of(graph),
            named.add_to,
            mode=mode,
            branch=MAIN if branch is None else branch,
            from_branch=from_,
            engine=spark.engine,
            spark_master=spark.spark_master,
            spark_conf=conf,
            actor=call.actor,
            rejects=rejects,
            on_bad=on_bad,
            check=check,
            embed=embed,
            if_commit=if_commit,
            progress=progress,
            operation_id=operation_id,
        )
    if result.note is not None:
        note(result.note)
    made = None
    if result.commit is not None:
        made = f"commit {result.commit.graph_commit_id} is made on branch {result.branch}"
    call.answer({"uri": address.uri, **result.to_json()}, lambda: _put(result), made)


def ingest(call: Call, **flags: Any) -> None:
    """Load into a branch, made from main if it is missing; an older name of load."""
    note("omnigraph ingest is deprecated; use omnigraph load --from main --mode merge")
    load(call, **flags)


def _with_defaults(function: Callable[..., None], **defaults: object) -> inspect.Signature:
    """Return the signature of a command with other defaults for some of its options."""
    signature = inspect.signature(function, eval_str=True)
    parameters = (
        parameter.replace(
            default=defaults.get(parameter.name, parameter.default),
            kind=inspect.Parameter.KEYWORD_ONLY,
        )
        for parameter in signature.parameters.values()
    )
    return signature.replace(parameters=list(parameters))


def _pairs(flag: str, given: Sequence[str] | None) -> dict[str, str]:
    """Return the `key=value` texts of a flag as a dict."""
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadRequest(f"{flag} takes key=value, not {text!r}")
        if key in found and flag == "--map":
            raise BadRequest(f"--map names the column `{key}` twice; drop one")
        found[key] = value
    return found


class _NamedInput:
    """The input that the flags name, checked before a graph is opened."""

    def __init__(self, sources: SourceFlags, columns: ColumnFlags) -> None:
        if not (sources.data or sources.node or sources.edge):
            raise BadRequest("there is nothing to load; pass --data FILE, --node or --edge")
        self.data = sources.data or []
        if self.data.count(STDIN) > 1:
            raise BadRequest("--data - was given twice and stdin can be read once; drop one")
        self.node = [_split_pair("--node", text) for text in sources.node or []]
        self.edge = [_split_pair("--edge", text) for text in sources.edge or []]
        for flag, column in (("--from-col", sources.from_col), ("--to-col", sources.to_col)):
            if column is not None and not self.edge:
                raise BadRequest(
                    f"{flag} names a column of --edge files and there is none; drop it"
                )
        self.from_col = "from" if sources.from_col is None else sources.from_col
        self.to_col = "to" if sources.to_col is None else sources.to_col
        self.options = self._options(columns)

    def _options(self, flags: ColumnFlags) -> FrameOptions:
        """Return how the files of columns are read; refuse flags that no file of the call can use."""
        from omnigraph.pipeline.frame_options import COMMA, UTF_8, FrameOptions

        files = [file for _, file in (*self.node, *self.edge)]
        options = FrameOptions.of(
            _pairs("--map", flags.map),
            flags.ignore_extra,
            COMMA if flags.delimiter is None else flags.delimiter.replace("\\t", "\t"),
            not flags.no_header,
            None if flags.names is None else [name.strip() for name in flags.names.split(",")],
            flags.null,
            UTF_8 if flags.encoding is None else flags.encoding,
            shared=len(files) > 1,
        )
        if not files and options != FrameOptions():
            raise BadRequest(
                "--map, --ignore-extra and the flags of CSV say how the files of --node and --edge "
                "are read, and there is none; drop them"
            )
        return options

    def add_to(self, inputs: LoadInput) -> None:
        """Add everything to the input, in the order data, nodes, edges."""
        for name in self.data:
            if name == STDIN:
                inputs.stream(open_stdin("--data"), "<stdin>")
            else:
                inputs.json(name)
        for type_name, file in self.node:
            inputs.nodes(type_name, file, self.options)
        for type_name, file in self.edge:
            inputs.edges(type_name, file, self.from_col, self.to_col, self.options)


def _split_pair(flag: str, text: str) -> tuple[str, str]:
    """Split `TYPE=FILE`; the command line had two words, which were joined for the parser."""
    type_name, equals, file = text.partition("=")
    if not equals or not type_name or not file:
        raise BadRequest(f"{flag} takes a type and a file: {flag} Person people.parquet")
    return type_name, file


def _put(result: LoadResult) -> None:
    where = f"branch {result.branch}" + (" (new)" if result.branch_created else "")
    how = f"({result.mode}, {result.engine})"
    if result.commit is None:
        lines = [f"checked {result.total_rows} rows for {where} {how}; nothing was written"]
    else:
        lines = [f"loaded {result.total_rows} rows into {where} {how}"]
    lines += [f"  {table['table_key']}: {table['rows_loaded']}" for table in result.tables]
    if result.skipped:
        lines.append(f"  bad records left out: {result.skipped}")
    if result.indexes_built:
        lines.append(f"  indexes built: {len(result.indexes_built)}")
    if result.embeddings_pending:
        lines.append(f"  vectors still to be filled: {result.embeddings_pending}")
    if result.commit is not None:
        lines.append(f"  commit {result.commit.graph_commit_id}")
    put("\n".join(lines))

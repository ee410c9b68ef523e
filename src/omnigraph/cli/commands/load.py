"""`omnigraph load`, its older name `ingest`, and `omnigraph embed`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from omnigraph.cli.address import Server
from omnigraph.cli.call import Invocation
from omnigraph.cli.output import made_commit, note, replayed
from omnigraph.cli.progress_line import embed_progress, load_progress
from omnigraph.cli.register import Pair, read_pair
from omnigraph.cli.shared_options import (
    STDIN,
    BranchOption,
    CommitFlags,
    IfCommitOption,
    UriArgument,
    open_stdin,
)
from omnigraph.display.text import counted
from omnigraph.errors import BadRequest
from omnigraph.manifest.actors import check_if_commit
from omnigraph.manifest.branch_names import MAIN
from omnigraph.pipeline.load_options import LoadMode, OnBad
from omnigraph.runner.executors import EngineName
from omnigraph.service import wire
from omnigraph.service.documents import Document
from omnigraph.service.loads import LoadRequest, TypedFile

FAILED = 1
"""The exit code when the provider could not make some of the vectors."""


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
        list[Pair] | None,
        typer.Option(
            "--node",
            metavar="TYPE FILE",
            parser=read_pair,
            help="A Parquet, CSV, Arrow or JSON lines file of one node type.",
        ),
    ] = None
    edge: Annotated[
        list[Pair] | None,
        typer.Option(
            "--edge",
            metavar="TYPE FILE",
            parser=read_pair,
            help="A Parquet, CSV, Arrow or JSON lines file of one edge type.",
        ),
    ] = None
    from_col: Annotated[
        str | None,
        typer.Option(
            "--from-col",
            metavar="NAME",
            help="The column of an edge's source, if not from; of a key with several members MEMBER=NAME,….",
        ),
    ] = None
    to_col: Annotated[
        str | None,
        typer.Option(
            "--to-col",
            metavar="NAME",
            help="The column of an edge's target, if not to; of a key with several members MEMBER=NAME,….",
        ),
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

    def read(self) -> dict[str, Any]:
        """Return them as a request has them."""
        return {
            "columns": _pairs("--map", self.map),
            "ignore_extra": self.ignore_extra,
            # A shell passes a tab most easily as the two characters that spell it.
            "delimiter": "\t" if self.delimiter == r"\t" else self.delimiter,
            "header": not self.no_header,
            "names": None if self.names is None else tuple(map(str.strip, self.names.split(","))),
            "null": tuple(self.null or ()),
            "encoding": self.encoding,
        }


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


def load(
    call: Invocation,
    sources: SourceFlags,
    columns: ColumnFlags,
    spark: SparkFlags,
    made: CommitFlags,
    uri: UriArgument = None,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="JSON lines, as those of --data; - reads stdin."),
    ] = None,
    mode: Annotated[
        LoadMode, typer.Option("--mode", help="How records meet what is there.")
    ] = "merge",
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
        str | None, typer.Option("--rejects", metavar="FILE", help="Write every bad record there.")
    ] = None,
    embed: Annotated[
        bool,
        typer.Option(
            "--embed", help="Fail where a vector cannot be made, instead of leaving null."
        ),
    ] = False,
    if_commit: IfCommitOption = None,
) -> None:
    """Load records as one commit, or nothing."""
    request = LoadRequest(
        mode=mode,
        data=(*(files or ()), *(sources.data or ())),
        nodes=_typed_files("--node", sources.node),
        edges=_typed_files("--edge", sources.edge),
        from_col=sources.from_col,
        to_col=sources.to_col,
        **columns.read(),
        branch=branch,
        from_=from_,
        check=check,
        on_bad=on_bad,
        rejects=rejects,
        engine=spark.engine,
        spark_master=spark.spark_master,
        spark_conf=_pairs("--spark-conf", spark.spark_conf) or None,
        embed=embed,
        if_commit=check_if_commit(if_commit),
        **made.read(),
    )
    request.check_sources()
    address = call.address(uri, read_only=check)
    if isinstance(address, Server):
        from omnigraph.cli.sides.served_load import refuse_unsendable

        refuse_unsendable(request)
    stream = open_stdin("--data") if STDIN in request.data else None
    if mode == "overwrite" and not check:
        call.consent(address, "overwriting tables")
    with load_progress(call.flags) as progress, call.reach(address, read_only=check) as side:
        document = side.load(request, stream, progress)
    if document["note"] is not None:
        note(document["note"])
    call.answer(document, load_text(document), made_commit(document))


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


def ingest(call: Invocation, **flags: Any) -> None:
    """Load into a branch, made from main if it is missing; an older name of load."""
    note("omnigraph ingest is deprecated; use omnigraph load --from main --mode merge")
    load(call, **flags)


ingest.__signature__ = _with_defaults(load, from_=MAIN)  # type: ignore[attr-defined]


def _pairs(flag: str, given: Sequence[str] | None) -> dict[str, str]:
    """Return the `key=value` texts of a flag as a dict."""
    values: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadRequest(f"{flag} takes key=value, not {text!r}")
        if key in values and flag == "--map":
            raise BadRequest(f"--map names the column `{key}` twice; drop one")
        values[key] = value
    return values


def _typed_files(flag: str, pairs: Sequence[tuple[str, str]] | None) -> tuple[TypedFile, ...]:
    for pair in pairs or ():
        if not all(word.strip() for word in pair):
            raise BadRequest(f"{flag} takes a type and a file: {flag} Person people.parquet")
    return tuple(TypedFile(*pair) for pair in pairs or ())


def load_text(document: Document) -> str:
    """Return what a load did, from its document."""
    where = f"branch {document['branch']}" + (" (new)" if document["branch_created"] else "")
    how = f"({document['mode']}, {document['engine']})"
    commit, rows = document["commit"], document["total_rows"]
    if commit is None:
        lines = [f"checked {counted(rows, 'row')} for {where} {how}; nothing was written"]
    else:
        lines = [f"loaded {counted(rows, 'row')} into {where} {how}"]
    lines += [f"  {table['table_key']}: {table['rows_loaded']}" for table in document["tables"]]
    if document["skipped"]:
        lines.append(f"  bad records left out: {document['skipped']}")
    for name, count in document.get("truncated", {}).items():
        lines.append(f"  cut to milliseconds: {count} of {name}")
    if document["indexes_built"]:
        lines.append(f"  indexes built: {len(document['indexes_built'])}")
    if document["embeddings_pending"]:
        lines.append(f"  vectors still to be filled: {document['embeddings_pending']}")
    if commit is not None:
        lines.append(f"  commit {commit['graph_commit_id']}{replayed(document)}")
    return "\n".join(lines)


def embed(
    call: Invocation,
    made: CommitFlags,
    uri: UriArgument = None,
    branch: BranchOption = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="T", help="Only this node type; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most N vectors.")
    ] = None,
) -> None:
    """Fill vectors that are missing although their text is there; every 1,000 rows are a commit."""
    request = wire.EmbedBody(branch=branch, types=type_, limit=limit, message=made.message)
    with embed_progress(call.flags) as progress, call.reach(call.address(uri)) as side:
        document = side.embed(request, made.conditions(), progress)
    call.answer(document, _embed_text(document), made_commit(document))
    if document["failed"]:
        raise typer.Exit(FAILED)


def _embed_text(document: Document) -> str:
    lines = [f"filled {counted(document['filled'], 'vector')} on branch {document['branch']}"]
    if document["failed"]:
        lines.append(f"  the provider could not make: {document['failed']}")
    if document["pending"]:
        lines.append(f"  still to be filled: {document['pending']}")
    if document["commit"] is not None:
        lines.append(f"  commit {document['commit']['graph_commit_id']}{replayed(document)}")
    return "\n".join(lines)

"""`omnigraph load` and its older name `ingest`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import writes_graph
from omnigraph.cli.output import note, put
from omnigraph.cli.progress import load_progress
from omnigraph.cli.register import BranchOption, OperationOption, UriArgument, add
from omnigraph.cli.source import STDIN, open_stdin
from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import MAIN
from omnigraph.pipeline.load_options import EngineName, LoadMode, OnBad

if TYPE_CHECKING:
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.request import LoadResult


DataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help="JSON lines: a file, glob, directory or s3:// URI; - reads stdin.",
    ),
]
NodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node", metavar="TYPE FILE", help="A Parquet, CSV or Arrow file of one node type."
    ),
]
EdgeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--edge", metavar="TYPE FILE", help="A Parquet, CSV or Arrow file of one edge type."
    ),
]
FromColumn = Annotated[
    str | None,
    typer.Option("--from-col", metavar="NAME", help="The column of an edge's source, if not from."),
]
ToColumn = Annotated[
    str | None,
    typer.Option("--to-col", metavar="NAME", help="The column of an edge's target, if not to."),
]
RejectsOption = Annotated[
    Path | None, typer.Option("--rejects", metavar="FILE", help="Write every bad record there.")
]
MasterOption = Annotated[
    str | None,
    typer.Option("--spark-master", metavar="MASTER", help="Where Spark runs, as local[*]."),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, writes_graph("load"), load)
    ingest.__signature__ = _with_defaults(load, mode="merge", from_=MAIN)  # type: ignore[attr-defined]
    add(app, writes_graph("ingest"), ingest)


def load(
    call: Call,
    mode: Annotated[LoadMode, typer.Option("--mode", help="How records meet what is there.")],
    uri: UriArgument = None,
    data: DataOption = None,
    node: NodeOption = None,
    edge: EdgeOption = None,
    from_col: FromColumn = None,
    to_col: ToColumn = None,
    branch: BranchOption = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="Make a missing branch from this one."),
    ] = None,
    on_bad: Annotated[
        OnBad,
        typer.Option("--on-bad", help="What a bad record does: fail the load, or be skipped."),
    ] = "fail",
    rejects: RejectsOption = None,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="The engine that runs the load.")
    ] = "auto",
    spark_master: MasterOption = None,
    spark_conf: ConfOption = None,
    operation_id: OperationOption = None,
) -> None:
    """Load records as one commit, or nothing."""
    from omnigraph.graph import loads
    from omnigraph.graph.session import access_of

    named = _NamedInput(data, node, edge, from_col, to_col)
    conf = _parse_spark_conf(spark_conf)
    address = call.address(uri)
    if mode == "overwrite":
        call.consent(address, "overwriting tables")
    with load_progress(call.flags) as progress, call.open(address) as graph:
        result = loads.load_gathered(
            access_of(graph),
            named.add_to,
            mode=mode,
            branch=MAIN if branch is None else branch,
            from_branch=from_,
            engine=engine,
            spark_master=spark_master,
            spark_conf=conf,
            actor=call.actor,
            rejects=rejects,
            on_bad=on_bad,
            progress=progress,
            operation_id=operation_id,
        )
    if result.note is not None:
        note(result.note)
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


def _parse_spark_conf(given: list[str] | None) -> dict[str, str] | None:
    settings = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadRequest(f"--spark-conf takes key=value, not {text!r}")
        settings[key] = value
    return settings or None


class _NamedInput:
    """The input that the flags name, checked before a graph is opened."""

    def __init__(
        self,
        data: list[str] | None,
        node: list[str] | None,
        edge: list[str] | None,
        from_col: str | None,
        to_col: str | None,
    ) -> None:
        if not (data or node or edge):
            raise BadRequest("there is nothing to load; pass --data FILE, --node or --edge")
        self.data = data or []
        if self.data.count(STDIN) > 1:
            raise BadRequest("--data - was given twice and stdin can be read once; drop one")
        self.node = [_split_pair("--node", text) for text in node or []]
        self.edge = [_split_pair("--edge", text) for text in edge or []]
        for flag, column in (("--from-col", from_col), ("--to-col", to_col)):
            if column is not None and not edge:
                raise BadRequest(
                    f"{flag} names a column of --edge files and there is none; drop it"
                )
        self.from_col = "from" if from_col is None else from_col
        self.to_col = "to" if to_col is None else to_col

    def add_to(self, inputs: LoadInput) -> None:
        """Add everything to the input, in the order data, nodes, edges."""
        for name in self.data:
            if name == STDIN:
                inputs.stream(open_stdin("--data"), "<stdin>")
            else:
                inputs.json(name)
        for type_name, file in self.node:
            inputs.nodes(type_name, file)
        for type_name, file in self.edge:
            inputs.edges(type_name, file, self.from_col, self.to_col)


def _split_pair(flag: str, text: str) -> tuple[str, str]:
    """Split `TYPE=FILE`; the command line had two words, which were joined for the parser."""
    type_name, equals, file = text.partition("=")
    if not equals or not type_name or not file:
        raise BadRequest(f"{flag} takes a type and a file: {flag} Person people.parquet")
    return type_name, file


def _put(result: LoadResult) -> None:
    where = f"branch {result.branch}" + (" (new)" if result.branch_created else "")
    lines = [f"loaded {result.total_rows} rows into {where} ({result.mode}, {result.engine})"]
    lines += [f"  {table['table_key']}: {table['rows_loaded']}" for table in result.tables]
    if result.skipped:
        lines.append(f"  bad records left out: {result.skipped}")
    if result.indexes_built:
        lines.append(f"  indexes built: {len(result.indexes_built)}")
    if result.embeddings_pending:
        lines.append(f"  vectors still to be filled: {result.embeddings_pending}")
    lines.append(f"  commit {result.commit.graph_commit_id}")
    put("\n".join(lines))

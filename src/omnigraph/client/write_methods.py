"""The operations that write, as methods; both clients have them.

Each that makes a commit sends an operation id, its own or the caller's: sent again under the same id it
has no second effect. Nothing is ever sent again by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, Literal, TypedDict, Unpack

from omnigraph.client.core import PreparedCall, quoted
from omnigraph.client.read_methods import (
    Asking,
    D,
    State,
    TargetNames,
    sent_params,
    state_name,
)
from omnigraph.client.sent_bodies import (
    Bytes,
    ColumnFormat,
    LinesLike,
    PathLike,
    bytes_body,
    columns_body,
    lines_body,
)
from omnigraph.service import wire


class CommitArguments(TypedDict, total=False):
    """What a write says of its commit, and the commit at which the branch must be."""

    message: str | None
    operation_id: str | None
    if_commit: str | None


class LoadArguments(CommitArguments, total=False):
    """How records meet what is there; ``rejects`` is how many bad records the answer lists."""

    mode: wire.Mode
    branch: str | None
    from_: str | None
    check: bool
    on_bad: Literal["fail", "skip"]
    embed: bool
    rejects: int | None


class ColumnArguments(LoadArguments, total=False):
    """How columns are read; those from ``delimiter`` on are of CSV alone."""

    from_col: str | None
    to_col: str | None
    columns: Mapping[str, str]
    ignore_extra: bool
    delimiter: str | None
    header: bool
    names: Sequence[str] | None
    null: Sequence[str]
    encoding: str | None


class ConflictArguments(CommitArguments, total=False):
    """How conflicts are found, decided and shown."""

    resolve: wire.Resolutions | None
    resolve_schema: wire.SchemaResolutions | None
    granularity: wire.Granularity
    dry_run: bool
    images: bool
    short: bool
    limit: int | None


class WriteMethods(Asking[D]):
    """Every operation that writes."""

    def mutate(
        self,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        **commit: Unpack[CommitArguments],
    ) -> D:
        """Run a mutation as one commit; ``commit`` of the answer is None if nothing changed."""
        more, made = _divided(commit)
        body = wire.MutateBody(
            query=query, name=name, params=sent_params(params), branch=branch, **more
        )
        return self.send(self.core.prepare("mutate", body, source=query, **made))

    def load(self, source: LinesLike | Iterable[LinesLike], **options: Unpack[LoadArguments]) -> D:
        """Load records as one commit, or nothing.

        ``source`` are JSON lines (paths, bytes, files that are open) and records as dicts, one or many. They
        are sent as they are read. The options are those of ``Graph.load``.
        """
        return self.send(self.loading(source, **options))

    def loading(
        self, source: LinesLike | Iterable[LinesLike], **options: Unpack[LoadArguments]
    ) -> PreparedCall:
        """Return the request of ``load`` without sending it."""
        more, made = _divided(options)
        body = lines_body(source)
        return self.core.prepare("load_ndjson", wire.LoadParameters(**more), body=body, **made)

    def load_table(
        self,
        kind: wire.Kind,
        type: str,
        source: Any,
        *,
        format: ColumnFormat | None = None,
        **options: Unpack[ColumnArguments],
    ) -> D:
        """Load columns of one type as one commit, or nothing.

        ``source`` is a frame (Arrow, pandas, polars, rows as dicts) or a Parquet, CSV or Arrow file: its path,
        or its bytes with ``format``. The options are those of ``Graph.load_nodes`` and ``load_edges``.
        """
        more, made = _divided(options)
        renames: Mapping[str, str] = more.pop("columns", {})
        for name in ("names", "null"):
            if more.get(name) is not None:
                more[name] = list(more[name])
        chosen, body = columns_body(source, format)
        said = wire.TableParameters(
            kind=kind,
            type=type,
            format=chosen,
            map=[f"{old}={new}" for old, new in renames.items()],
            **more,
        )
        return self.send(self.core.prepare("load_table", said, body=body, **made))

    def embed(
        self,
        types: Sequence[str] | None = None,
        *,
        branch: str | None = None,
        limit: int | None = None,
        **commit: Unpack[CommitArguments],
    ) -> D:
        """Fill vectors that are missing; ask again while ``pending`` of the answer is above 0."""
        more, made = _divided(commit)
        named = None if types is None else list(types)
        body = wire.EmbedBody(branch=branch, types=named, limit=limit, **more)
        return self.send(self.core.prepare("embed", body, **made))

    def put_blob(
        self,
        kind: wire.Kind,
        type: str,
        id: str,
        property: str,
        data: PathLike | Bytes | IO[bytes],
        *,
        branch: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        **commit: Unpack[CommitArguments],
    ) -> D:
        """Replace a blob with the bytes of a path or an open file, or with these, as one commit.

        ``if_match`` is the ETag that the value must have; ``if_none_match="*"`` needs that there is none.
        """
        more, made = _divided(commit)
        named = wire.BlobWriteParameters(
            kind=kind, type=type, id=id, property=property, branch=branch, **more
        )
        said = {"If-Match": quoted(if_match), "If-None-Match": if_none_match}
        asked = self.core.prepare("put_blob", named, body=bytes_body(data), headers=said, **made)
        return self.send(asked)

    def clear_blob(
        self,
        kind: wire.Kind,
        type: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        if_match: str | None = None,
        **commit: Unpack[CommitArguments],
    ) -> D:
        """Make a blob null, as one commit."""
        more, made = _divided(commit)
        named = wire.BlobWriteParameters(
            kind=kind, type=type, id=id, property=property, branch=branch, **more
        )
        return self.send(
            self.core.prepare("clear_blob", named, headers={"If-Match": quoted(if_match)}, **made)
        )

    def create_branch(self, name: str, from_: State | None = None) -> D:
        """Make a branch at a state of the graph, the head of `main` by default."""
        begin = None if from_ is None else state_name(from_)
        return self.send(
            self.core.prepare("create_branch", wire.NewBranchBody(name=name, from_=begin))
        )

    def delete_branch(self, branch: str) -> D:
        """Delete a branch and its commits; this cannot be undone."""
        return self.send(self.core.prepare("delete_branch", wire.NoParameters(), branch))

    def merge(
        self,
        source: str,
        target: str | None = None,
        *,
        delete_branch: bool = False,
        **options: Unpack[ConflictArguments],
    ) -> D:
        """Merge a branch into another as one commit, or raise with all conflicts."""
        more, made = _divided(options)
        body = wire.MergeBody(source=source, target=target, delete_branch=delete_branch, **more)
        return self.send(self.core.prepare("merge", body, **made))

    def revert(
        self,
        graph_commit_id: str,
        *,
        branch: str | None = None,
        **options: Unpack[ConflictArguments],
    ) -> D:
        """Undo a commit on a branch as a new commit, or raise with all conflicts."""
        more, made = _divided(options)
        body = wire.RevertBody(branch=branch, **more)
        return self.send(self.core.prepare("revert", body, graph_commit_id, **made))

    def purge(
        self,
        entities: Mapping[str, Iterable[str]],
        *,
        reason: str | None = None,
        dry_run: bool = False,
        operation_id: str | None = None,
    ) -> D:
        """Remove nodes with their edges, and edges, for good; a dry run says what would go."""
        named = {name: list(ids) for name, ids in entities.items()}
        body = wire.PurgeBody(entities=named, reason=reason, dry_run=dry_run)
        return self.send(self.core.prepare("purge", body, operation_id=operation_id))

    def create_tag(self, name: str, **target: Unpack[TargetNames]) -> D:
        """Name the commit of one state of the graph; a tag never moves."""
        return self.send(self.core.prepare("create_tag", wire.NewTagBody(name=name, **target)))

    def delete_tag(self, tag: str) -> D:
        """Delete a tag, and say which commit it named."""
        return self.send(self.core.prepare("delete_tag", wire.NoParameters(), tag))

    def apply_schema(
        self,
        schema_source: str,
        *,
        allow_data_loss: bool = False,
        branch: str | None = None,
        message: str | None = None,
        operation_id: str | None = None,
    ) -> D:
        """Give a branch a new schema as one commit, or change nothing; other branches keep theirs."""
        body = wire.SchemaApplyBody(
            schema_source=schema_source,
            allow_data_loss=allow_data_loss,
            branch=branch,
            message=message,
        )
        return self.send(
            self.core.prepare("apply_schema", body, source=schema_source, operation_id=operation_id)
        )


def _divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what travels in the body or the parameters, and what in headers."""
    headers = ("operation_id", "if_commit")
    return (
        {name: value for name, value in options.items() if name not in headers},
        {name: options[name] for name in headers if name in options},
    )

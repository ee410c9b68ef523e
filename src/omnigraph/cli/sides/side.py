"""What a command asks of a graph, wherever it is.

Commands build requests as they travel and ask a side, so that no command knows which one it has:

    side.ask("create_tag", wire.NewTagBody(name="v1", branch="main"))

Operations that move more than a document, or show how far they are, have methods of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol

import msgspec

from omnigraph.service import wire
from omnigraph.service.documents import Document, Streamed

if TYPE_CHECKING:
    from omnigraph.changes.export.export_files import Out
    from omnigraph.pipeline.progress import ProgressCallback
    from omnigraph.service.documents import TargetValues
    from omnigraph.service.loads import ExportRequest, LoadRequest
    from omnigraph.write.blobs import BlobSourceLike

Counts = Callable[[int, int], None]


class WriteConditions(msgspec.Struct, kw_only=True, frozen=True):
    """What a write says beside its request: an id of the caller's choice, and what must hold before."""

    operation_id: str | None = None
    if_commit: str | None = None
    if_match: str | None = None


NO_CONDITIONS = WriteConditions()


class GraphSide(Protocol):
    """One graph; ``uri`` is how the user knows it."""

    uri: str

    def ask(
        self, name: str, request: wire.Wire, *path: str, said: WriteConditions = NO_CONDITIONS
    ) -> Document:
        """Run an operation that answers with a document; ``path`` are the values in its path."""

    def query(self, request: wire.QueryBody) -> Streamed:
        """Run a read query; the rows can be read until the side is closed."""

    def diff(self, request: wire.DiffBody) -> Streamed:
        """Return all that changed from one state to another; it can be read until the side is closed."""

    def load(
        self, request: LoadRequest, stream: BinaryIO | None, progress: ProgressCallback | None
    ) -> Document:
        """Load all sources as one commit, or nothing."""

    def embed(
        self, request: wire.EmbedBody, said: WriteConditions, progress: Counts | None
    ) -> Document:
        """Fill the vectors that are missing."""

    def export(self, request: ExportRequest, out: Out, progress: Counts | None) -> Document:
        """Write the records of one state; say what was written, as far as it is known."""

    def baseline(self, request: wire.BaselineBody, out: str, progress: Counts | None) -> Document:
        """Write the newest state of a branch to a file, which is on disk when this returns."""

    def stat_blob(self, request: wire.BlobParameters) -> Document:
        """Describe a blob without reading it."""

    def read_blob(
        self, request: wire.BlobParameters, offset: int, length: int | None, out: BinaryIO
    ) -> None:
        """Write the bytes of a blob, or of a range of it, to a file, a piece at a time."""

    def put_blob(
        self, request: wire.BlobWriteParameters, source: BlobSourceLike, said: WriteConditions
    ) -> Document:
        """Replace a blob, or clear it (None), as one commit."""


def full_commit_id(side: GraphSide, word: str) -> str:
    """Return the commit of a state that a word names, where a word may have the beginning of an id."""
    found = side.ask("diff", wire.DiffBody(from_=word, to=word, images=False, limit=1))
    commit: str = found["from"]["graph_commit_id"]
    return commit


def state_fields(side: GraphSide, word: str) -> TargetValues:
    """Return the state that a word names, as requests have it that take no words."""
    from omnigraph.manifest.snapshot import Target

    target = Target.of_text(word)
    commit = full_commit_id(side, word) if target.is_prefix else target.snapshot
    return {
        "branch": target.branch,
        "snapshot": commit,
        "tag": target.tag,
        "version": target.version,
        "time": None,
    }


def all_commit_changes(
    side: GraphSide, request: wire.CommitChangesParameters, graph_commit_id: str
) -> Streamed:
    """Return everything that a commit changed against its first parent, page by page."""
    first = side.ask("commit_changes", request, graph_commit_id)
    rest = {name: value for name, value in first.items() if name == "schema"}

    def pages() -> Iterator[Document]:
        page = first
        yield page
        while "next_page_token" in page:
            following = _with(request, page_token=page["next_page_token"])
            page = side.ask("commit_changes", following, graph_commit_id)
            yield page

    return Streamed({"cause": first["cause"]}, "changes", _texts(pages()), rest)


def all_changes(side: GraphSide, request: wire.DiffBody) -> Streamed:
    """Return a whole diff, page by page; the first page has the counts of all of it."""
    first = side.ask("diff", request)

    def pages() -> Iterator[Document]:
        page = first
        yield page
        while "next_page_token" in page:
            page = side.ask("diff", _with(request, page_token=page["next_page_token"]))
            yield page

    head: Document = {name: first[name] for name in ("from", "to", "schema") if name in first}
    return Streamed(head, "changes", _texts(pages()), {"stats": first["stats"]})


def poll(side: GraphSide, request: wire.FeedParameters) -> Document:
    """Return the next commits of a branch, each with all it changed, and the cursor after them.

    The page may end inside the changes of a commit; the rest of that commit is read as well.
    """
    page = side.ask("changes", request)
    blocks = page["blocks"]
    while "next_page_token" in page:
        following = _with(
            request, start=None, cursor=None, page_token=page["next_page_token"], max_commits=1
        )
        page = side.ask("changes", following)
        for block in page["blocks"]:
            if blocks and blocks[-1]["cause"] == block["cause"]:
                blocks[-1]["changes"] += block["changes"]
            else:
                blocks.append(block)
    return {**page, "blocks": blocks}


def _with(request: wire.Wire, **changed: object) -> wire.Wire:
    return msgspec.structs.replace(request, **changed)


def _texts(pages: Iterable[Document]) -> Iterator[list[str]]:
    for page in pages:
        yield [
            json.dumps(change, ensure_ascii=False, separators=(",", ":"))
            for change in page["changes"]
        ]

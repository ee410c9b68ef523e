"""Tags: names for single commits, kept as rows of `main`.

For example, tagging commit C2 as ``v1`` writes one row that holds C2, the branch it was made on, its
manifest version and its pins. That write makes no commit: the head row is written again unchanged, so
that it collides with every other publish on `main`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from typing import Any

from omnigraph import failpoints
from omnigraph.errors import StorageError, TagExists, TagNotFound
from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.publisher import publish_without_commit
from omnigraph.manifest.rows import EPOCH, Row, TableState
from omnigraph.types.temporal import format_moment

BEFORE_PUBLISH = failpoints.declare("tag.before_publish")
AFTER_PUBLISH = failpoints.declare("tag.after_publish")


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one commit, which keeps the content of that commit readable.

    ``branch`` is where the commit was made, None for `main`; ``branch_id`` is the Lance identifier of
    that branch. ``tables`` are the pins of the commit. ``created_us`` are microseconds.
    """

    name: str
    graph_commit_id: str
    branch: str | None
    manifest_version: int
    created_us: int
    actor_id: str | None
    branch_id: str | None = None
    tables: tuple[TableState, ...] = ()

    @property
    def created_at(self) -> datetime:
        """When the tag was made, in UTC."""
        return EPOCH + timedelta(microseconds=self.created_us)

    def to_json(self) -> dict[str, Any]:
        """Return the public record."""
        return {
            "name": self.name,
            "graph_commit_id": self.graph_commit_id,
            "branch": self.branch,
            "manifest_version": self.manifest_version,
            "actor_id": self.actor_id,
            "created_at": self.created_us,
        }

    def __repr__(self) -> str:
        made = f"{self.graph_commit_id} on {self.branch or MAIN}, {format_moment(self.created_us)}"
        return f"<omnigraph.Tag {self.name}: {made}>"


def list_tags(manifest: Manifest) -> list[Tag]:
    """Return all tags, by name in code-point order."""
    found = manifest.metadata(manifest.state(MAIN), "object_type", rows.TAG)
    tags = (_read(metadata) for metadata in found if metadata is not None)
    return sorted(tags, key=lambda tag: tag.name)


def find_tag(manifest: Manifest, name: str, commit_id: str | None = None) -> Tag:
    """Return a tag; raise ``TagNotFound`` if there is none of that name.

    ``commit_id`` is the commit that it named when it was looked up before; another one is refused.
    """
    found = _find(manifest, manifest.state(MAIN), name)
    if found is None:
        raise _not_found(name)
    if commit_id not in (None, found.graph_commit_id):
        raise TagNotFound(
            f"the tag `{name}` was deleted meanwhile, and one of that name made at another commit; try "
            "again",
            tag=name,
        )
    return found


def refuse_taken(manifest: Manifest, name: str) -> None:
    """Refuse the name of a tag that exists."""
    if _find(manifest, manifest.state(MAIN), name) is not None:
        raise _taken(name)


def publish_tag(manifest: Manifest, tag: Tag) -> None:
    """Make a tag visible. The caller holds the graph lock and the head lock of `main`."""

    def row(state: BranchState) -> Row:
        if _find(manifest, state, tag.name) is not None:
            raise _taken(tag.name)
        return _row(tag)

    BEFORE_PUBLISH.hit()
    try:
        publish_without_commit(manifest, row)
    except (StorageError, TagExists):
        # The store may have failed after the write landed; then the tag is there, and it is ours.
        if not _is_there(manifest, tag):
            raise
    AFTER_PUBLISH.hit()


def drop_tag(manifest: Manifest, name: str, commit_id: str | None = None) -> Tag:
    """Delete a tag and return it. The caller holds the graph lock and the head lock of `main`."""
    tag = find_tag(manifest, name, commit_id)
    BEFORE_PUBLISH.hit()
    try:
        # One publish rewrites rows and removes none, so a deleted tag leaves an empty row.
        publish_without_commit(manifest, lambda _: Row(_object_id(name), rows.TAG))
    except StorageError:
        if _is_there(manifest, tag):
            raise
    AFTER_PUBLISH.hit()
    return tag


def _find(manifest: Manifest, state: BranchState, name: str) -> Tag | None:
    found = manifest.metadata(state, "object_id", _object_id(name))
    return _read(found[0]) if found and found[0] is not None else None


def _is_there(manifest: Manifest, tag: Tag) -> bool:
    return _find(manifest, manifest.state(MAIN), tag.name) == tag


def _object_id(name: str) -> str:
    return f"tag:{name}"


def _row(tag: Tag) -> Row:
    document = {name: getattr(tag, name) for name in Tag.__slots__}
    document["tables"] = [astuple(state) for state in tag.tables]
    commit = f"commit:{tag.graph_commit_id}"
    return Row(_object_id(tag.name), rows.TAG, base_objects=(commit,), metadata=rows.dump(document))


def _read(metadata: str) -> Tag:
    return rows.decode(rows.TAG, metadata, _tag)


def _tag(document: Mapping[str, Any]) -> Tag:
    tables = tuple(TableState(*fields) for fields in document["tables"])
    return Tag(**{**document, "tables": tables})


def _taken(name: str) -> TagExists:
    return TagExists(
        f"there is a tag `{name}` already, and tags never move; delete it first, or choose another "
        "name",
        tag=name,
    )


def _not_found(name: str) -> TagNotFound:
    return TagNotFound(f"there is no tag `{name}`; list the tags to see which there are", tag=name)

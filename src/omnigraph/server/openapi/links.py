"""What can be asked next with an answer: the links of the OpenAPI document.

A program that follows them comes from a branch to its commits, to one of these, and to the deletion of the
branch, without having read the manual.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NAME: Final = "$response.body#/name"
_COMMIT: Final = "$response.body#/commit/graph_commit_id"
_HEAD: Final = "$response.body#/graph_commit_id"

LINKS: Final[Mapping[str, Mapping[str, tuple[str, Mapping[str, str]]]]] = {
    "create_branch": {
        "state": ("snapshot", {"branch": _NAME}),
        "commits": ("commits", {"branch": _NAME}),
        "delete": ("delete_branch", {"branch": _NAME}),
    },
    "create_tag": {
        "state": ("snapshot", {"tag": _NAME}),
        "commit": ("commit", {"graph_commit_id": _HEAD}),
        "delete": ("delete_tag", {"tag": _NAME}),
    },
    "commits": {
        "newest": ("commit", {"graph_commit_id": "$response.body#/commits/0/graph_commit_id"}),
        "older": ("commits", {"before": "$response.body#/commits/0/graph_commit_id"}),
    },
    "commit": {
        "changes": ("commit_changes", {"graph_commit_id": _HEAD}),
        "state": ("snapshot", {"snapshot": _HEAD}),
        "revert": ("revert", {"graph_commit_id": _HEAD}),
    },
    "snapshot": {"commit": ("commit", {"graph_commit_id": _HEAD})},
    "branches": {"state": ("snapshot", {"branch": "$response.body#/branches/0"})},
    "tags": {"state": ("snapshot", {"tag": "$response.body#/tags/0/name"})},
    **{
        name: {"commit": ("commit", {"graph_commit_id": _COMMIT})}
        for name in ("mutate", "load", "load_ndjson", "load_table", "put_blob", "merge", "revert")
    },
}
"""By operation, and by the name of the link: the operation that it leads to, and what it is given."""


def links_of(operation: str) -> dict[str, Any]:
    """Return the links of an operation's answer."""
    graph = {"graph_id": "$request.path.graph_id"}
    return {
        f"{operation}_{name}": {"operationId": target, "parameters": {**graph, **given}}
        for name, (target, given) in LINKS.get(operation, {}).items()
    }

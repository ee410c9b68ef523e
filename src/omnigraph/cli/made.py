"""What writing commands say about the commit they made."""

from __future__ import annotations

from omnigraph.service.documents import Document


def made_commit(document: Document) -> str | None:
    """Say that the commit of a document is made; None if there is none."""
    commit = document["commit"]
    if commit is None:
        return None
    return f"commit {commit['graph_commit_id']} is made on branch {commit['branch'] or 'main'}"


def replayed(document: Document) -> str:
    """Say of a write that it had been made before, under the same operation id."""
    return " (made before, under this operation id)" if document.get("replayed") else ""

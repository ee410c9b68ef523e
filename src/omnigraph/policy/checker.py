"""The question that a policy is asked, the answer it gives, and the protocol of whoever answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Action(StrEnum):
    """Everything that a policy decides about; there is nothing else, and no way to add to it."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    TAG_CREATE = "tag_create"
    TAG_DELETE = "tag_delete"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    INVOKE_QUERY = "invoke_query"
    PURGE = "purge"
    GRAPH_LIST = "graph_list"


@dataclass(frozen=True, slots=True)
class Question:
    """May this actor do this? ``branch`` is the branch it starts from, ``target`` the one it changes.

    Names of branches are trimmed. The user manual says which of the two an action has.
    """

    actor: str
    action: Action
    branch: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of a policy: yes or no, the rule that said so, and a reason for people."""

    allowed: bool
    matched_rule_id: str | None = None
    message: str = ""


class Checker(Protocol):
    """A policy. It is asked by several threads at once, before every single operation."""

    def check(self, question: Question) -> Decision:
        """Decide. An exception means that no decision was possible, and refuses the operation."""
        ...

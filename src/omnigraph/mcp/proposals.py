"""Writes of an agent as a proposal: a branch of its session, which somebody else looks through and merges.

    omnigraph mcp notes --as agent-7 --propose      the first write makes `proposals/01J…` from `main`

Mutations, loads and stored queries that write go to that branch and to no other. The tools that make, delete and merge
branches are not offered; `proposal` shows what the branch would bring to `main`. Reads are as ever: those without a target
are of `main`, and the answer of a write names the branch on which it can be read. A session is the process that serves:
who connects to it over HTTP shares the branch with others that do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from omnigraph.clock import new_ulid
from omnigraph.errors import BadRequest, BranchNotFound, PolicyDenied
from omnigraph.manifest.branch_names import check_branch_name
from omnigraph.mcp.tool_runners import ToolRunner
from omnigraph.mcp.tools import PROPOSAL, Tool, ToolRequest, built_in, proposal_tool
from omnigraph.policy.checker import Action
from omnigraph.service import wire
from omnigraph.service.documents import Document
from omnigraph.service.operations import OPERATIONS

_NOT_OFFERED: Final = frozenset({"branches_create", "branches_delete", "branches_merge"})
INSTRUCTIONS: Final = (
    "What you write goes to a branch of this session, whose name the answer has; pass it as "
    "`branch` to read there. `proposal` shows what it would change; somebody else merges it."
)
_BRANCH: Final = {
    "type": ["string", "null"],
    "description": "Leave it out: writes go to the branch of this session.",
}


class ProposingRunner:
    """Runs the tools of another runner, and sends what they write to the branch of the session."""

    def __init__(self, runner: ToolRunner, prefix: str) -> None:
        self._runner = runner
        self._prefix = _checked(prefix)
        self._branch: str | None = None
        self._making = asyncio.Lock()

    def built_in(self) -> Mapping[str, Tool]:
        """Return the tools but those for branches, and `proposal`."""
        tools = {
            name: _bound(tool) for name, tool in built_in().items() if name not in _NOT_OFFERED
        }
        return {**tools, PROPOSAL: proposal_tool()}

    def could(self, tool: Tool) -> bool:
        """Return whether the actor may ever call a tool; who may look at the graph may look at a proposal."""
        return self._runner.could(tool)

    async def stored(self) -> Mapping[str, Tool]:
        """Return the tools of stored queries by name."""
        return {name: _bound(tool) for name, tool in (await self._runner.stored()).items()}

    async def stored_tool(self, name: str) -> Tool | None:
        """Return the tool of that name, if it is a stored query."""
        tool = await self._runner.stored_tool(name)
        return None if tool is None else _bound(tool)

    async def run(self, asked: ToolRequest) -> Document:
        """Run a read as it is, and a write on the branch of the session."""
        if asked.operation.name == PROPOSAL:
            return await self._proposal()
        if asked.reads_only:
            return await self._runner.run(asked)
        named = getattr(asked.request, "branch", None)
        if named not in (None, self._branch) or getattr(asked.request, "from_", None) is not None:
            raise _denied(named)
        branch = await self._own_branch()
        try:
            return await self._write(asked, branch)
        except BranchNotFound:
            self._leave(branch)
            if named is not None:
                raise _gone(branch) from None
            return await self._write(asked, await self._own_branch())

    async def _write(self, asked: ToolRequest, branch: str) -> Document:
        request = msgspec.structs.replace(asked.request, branch=branch)
        return await self._runner.run(replace(asked, request=request))

    def _leave(self, branch: str) -> None:
        """Begin another proposal with the next write: this branch was merged and deleted, or refused."""
        if self._branch == branch:  # another call may have begun one meanwhile
            self._branch = None

    async def _own_branch(self) -> str:
        """Return the branch of the session, made from `main` when it is first needed."""
        async with self._making:
            if self._branch is None:
                name = f"{self._prefix}/{new_ulid()}"
                made = wire.NewBranchBody(name=name, from_="main")
                await self._runner.run(ToolRequest(OPERATIONS["create_branch"], made))
                self._branch = name
            return self._branch

    async def _proposal(self) -> Document:
        """Return the branch, its head, and what a merge into `main` would bring; all null where there is no branch."""
        branch = self._branch
        if branch is None:
            return {"branch": None, "head_commit_id": None, "diff": None, "merge_plan": None}
        planned = wire.MergePlanBody(source=branch, target="main")
        try:
            plan = await self._runner.run(ToolRequest(OPERATIONS["merge_plan"], planned))
        except BranchNotFound:
            self._leave(branch)
            raise _gone(branch) from None
        head = plan["source_commit_id"]
        compared = wire.DiffBody(from_=f"commit:{plan['base_commit_id']}", to=f"commit:{head}")
        diff = await self._runner.run(ToolRequest(OPERATIONS["diff"], compared))
        return {"branch": branch, "head_commit_id": head, "diff": diff, "merge_plan": plan}


def _checked(prefix: str) -> str:
    """Return what the names of branches begin with, or refuse it."""
    end = f"/{'0' * 26}"
    try:
        return check_branch_name(f"{prefix}{end}").removesuffix(end)
    except BadRequest as error:
        raise BadRequest(
            f"no branch can be called `{prefix}/…`: {error.details['reason']}; "
            "choose another prefix for --propose"
        ) from None


def _bound(tool: Tool) -> Tool:
    """Return a tool that says of its writes where they go."""
    schema = tool.input_schema
    if tool.reads_only or "branch" in tool.parameters or "branch" not in schema["properties"]:
        return tool
    properties = {**schema["properties"], "branch": _BRANCH}
    return replace(tool, input_schema={**schema, "properties": properties})


def _gone(branch: str) -> BranchNotFound:
    return BranchNotFound(
        f"the branch `{branch}` of this session is gone: somebody merged it, or refused it; your next write "
        "begins another one",
        branch=branch,
    )


def _denied(branch: Any) -> PolicyDenied:
    other = f"branch `{branch}`" if branch is not None else "another branch"
    return PolicyDenied(
        f"writes of this session go to its own branch, not to {other}; leave `branch` and `from` out, and "
        "look at `proposal`",
        action=str(Action.CHANGE),
        actor=None,
    )

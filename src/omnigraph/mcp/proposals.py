"""Writes of an agent as a proposal: a branch of its session, which somebody else looks through and merges.

    omnigraph mcp notes --as agent-7 --propose      the first write makes `proposals/01J…` from `main`

Mutations, loads and stored queries that write go to that branch and to no other. The tools that make, delete and merge
branches are not offered; `proposal` shows what the branch would bring to `main`. Reads are as ever: those without a target
are of `main`, and the answer of a write names the branch on which it can be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from omnigraph.clock import new_ulid
from omnigraph.errors import BranchNotFound, PolicyDenied
from omnigraph.manifest.branch_names import check_branch_name
from omnigraph.mcp.running import Runner
from omnigraph.mcp.tools import PROPOSAL, Tool, ToolRequest, built_in, proposal_tool
from omnigraph.policy.checker import Action
from omnigraph.service import wire
from omnigraph.service.documents import Document
from omnigraph.service.operations import OPERATIONS

_NOT_OFFERED: Final = frozenset({"branches_create", "branches_delete", "branches_merge"})
INSTRUCTIONS: Final = (
    "What you write (`mutate`, `load`) goes to a branch of this session, whose name the answer has; pass it as "
    "`branch` to read there. `proposal` shows what it would change; somebody else merges it."
)


class ProposingRunner:
    """Runs the tools of another runner, and sends what they write to the branch of the session."""

    def __init__(self, runner: Runner, prefix: str) -> None:
        check_branch_name(f"{prefix}/{'0' * 26}")
        self._runner = runner
        self._prefix = prefix
        self._branch: str | None = None
        self._making = asyncio.Lock()

    def built_in(self) -> Mapping[str, Tool]:
        """Return the tools but those for branches, and `proposal`."""
        tools = {name: tool for name, tool in built_in().items() if name not in _NOT_OFFERED}
        return {**tools, PROPOSAL: proposal_tool()}

    def could(self, tool: Tool) -> bool:
        """Return whether the actor may ever call a tool; who may look at the graph may look at a proposal."""
        return self._runner.could(tool)

    async def stored(self) -> Mapping[str, Tool]:
        """Return the tools of stored queries by name."""
        return await self._runner.stored()

    async def stored_tool(self, name: str) -> Tool | None:
        """Return the tool of that name, if it is a stored query."""
        return await self._runner.stored_tool(name)

    async def run(self, asked: ToolRequest) -> Document:
        """Run a read as it is, and a write on the branch of the session."""
        if asked.operation.name == PROPOSAL:
            return await self._proposal()
        if asked.reads_only:
            return await self._runner.run(asked)
        named = getattr(asked.request, "branch", None)
        if named not in (None, self._branch) or getattr(asked.request, "from_", None) is not None:
            raise _denied(named)
        try:
            return await self._write(asked)
        except BranchNotFound:
            # The branch was merged and deleted meanwhile: further writes begin another proposal.
            if named is not None:
                raise
            self._branch = None
            return await self._write(asked)

    async def _write(self, asked: ToolRequest) -> Document:
        request = msgspec.structs.replace(asked.request, branch=await self._own_branch())
        return await self._runner.run(replace(asked, request=request))

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
        """Return the branch, its head, and what a merge into `main` would bring; all null before the first write."""
        branch = self._branch
        if branch is None:
            return {"branch": None, "head_commit_id": None, "diff": None, "merge_plan": None}
        planned = wire.MergePlanBody(source=branch, target="main")
        plan = await self._runner.run(ToolRequest(OPERATIONS["merge_plan"], planned))
        head = plan["source_commit_id"]
        compared = wire.DiffBody(from_=f"commit:{plan['base_commit_id']}", to=f"commit:{head}")
        diff = await self._runner.run(ToolRequest(OPERATIONS["diff"], compared))
        return {"branch": branch, "head_commit_id": head, "diff": diff, "merge_plan": plan}


def _denied(branch: Any) -> PolicyDenied:
    other = f"branch `{branch}`" if branch is not None else "another branch"
    return PolicyDenied(
        f"writes of this session go to its own branch, not to {other}; leave `branch` and `from` out, and "
        "look at `proposal`",
        action=str(Action.CHANGE),
        actor=None,
    )

"""Sessions of `omnigraph mcp --propose`: what is written, where it goes, and what others merge."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import jsonschema
import pytest
from mcp import Client

import omnigraph as og
from omnigraph.errors import BadRequest, BranchNotFound
from omnigraph.mcp.messages import Offer, make_server
from omnigraph.mcp.proposals import ProposingRunner
from omnigraph.mcp.tool_runners import GraphRunner
from omnigraph.mcp.tools import BUILT_IN_NAMES, built_in
from omnigraph.service.stored import read_directory
from tests.mcp.test_protocol import NAMES, SCHEMA, call
from tests.mcp.test_stdio import greeted

ADD = 'query add() { insert Author { name: "zoe" } }'
STORED = "query set_born($n: String, $y: I32) { update Author set { born: $y } where name = $n }"


@pytest.fixture
def place(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Author", "data": {"name": name}} for name in ("ada", "bob")])
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "all.gq").write_text(STORED, "utf-8")
    return tmp_path / "g"


@pytest.fixture
def talk(place):
    """Run a conversation with a server whose writes are proposals."""

    def talking(conversation, prefix="proposals"):
        async def run():
            plain = GraphRunner(
                lambda: og.open(place, actor="agent"),
                "graph",
                lambda: read_directory(place.parent / "queries", BUILT_IN_NAMES),
            )
            try:
                server = make_server(lambda _: ProposingRunner_(plain), Offer())
                async with Client(server) as client:
                    return await conversation(client)
            finally:
                await plain.close()

        made = []

        def ProposingRunner_(plain):  # noqa: N802 - one for the whole session
            if not made:
                made.append(ProposingRunner(plain, prefix))
            return made[0]

        return asyncio.run(run())

    return talking


def names(graph, **target):
    return [row["name"] for row in graph.query(NAMES, **target).rows]


def test_writes_go_to_one_branch_of_the_session_and_main_stays_as_it_is(talk, place):
    async def conversation(client):
        first = await call(client, "mutate", query=ADD)
        record = '{"type": "Author", "data": {"name": "yan"}}'
        second = await call(client, "load", data=record, branch=first.structured_content["branch"])
        third = await call(client, "set_born", n="ada", y=1815)
        return [one.structured_content for one in (first, second, third)]

    answers = talk(conversation, "drafts/agent-7")
    (branch,) = {answer["branch"] for answer in answers}
    assert branch.startswith("drafts/agent-7/")
    assert len(branch.removeprefix("drafts/agent-7/")) == 26
    with og.open(place) as graph:
        assert graph.branches.list() == ["main", branch]
        assert names(graph) == ["ada", "bob"]
        assert names(graph, branch=branch) == ["ada", "bob", "yan", "zoe"]
        assert {one.actor_id for one in graph.commits.list(branch=branch, limit=3)} == {"agent"}
        graph.branches.merge(branch)
        assert names(graph) == ["ada", "bob", "yan", "zoe"]


def test_the_proposal_shows_what_its_merge_would_bring(talk, place):
    async def conversation(client):
        before = await call(client, "proposal")
        await call(client, "mutate", query=ADD)
        with og.open(place, actor="somebody") as graph:  # main goes on meanwhile
            graph.mutate('query m() { delete Author where name = "bob" }')
        return before.structured_content, (await call(client, "proposal")).structured_content

    before, after = talk(conversation)
    assert before == {"branch": None, "head_commit_id": None, "diff": None, "merge_plan": None}
    changes = [(change["op"], change["id"]) for change in after["diff"]["changes"]]
    assert changes == [("insert", "zoe")]
    plan = after["merge_plan"]
    assert (plan["source"], plan["target"]) == (after["branch"], "main")
    assert (plan["outcome"], plan["conflict_count"]) == ("merged", 0)
    with og.open(place) as graph:
        head = graph.commits.list(branch=after["branch"], limit=1)[0]
        assert after["head_commit_id"] == plan["source_commit_id"] == head.graph_commit_id


def test_other_branches_are_denied_and_not_touched(talk, place):
    with og.open(place) as graph:
        graph.branches.create("other")

    async def conversation(client):
        record = '{"type": "Author", "data": {"name": "yan"}}'
        asked = [
            ("mutate", {"query": ADD, "branch": "main"}),
            ("mutate", {"query": ADD, "branch": "other"}),
            ("load", {"data": record, "branch": "new", "from": "main"}),
            ("load", {"data": record, "from": "main"}),
            ("set_born", {"n": "ada", "y": 1, "branch": "main"}),
        ]
        return [await call(client, name, **arguments) for name, arguments in asked]

    for result in talk(conversation):
        assert result.is_error
        assert result.structured_content["code"] == "forbidden"
        assert "`proposal`" in result.structured_content["error"]
    with og.open(place) as graph:
        assert graph.branches.list() == ["main", "other"]
        assert names(graph) == names(graph, branch="other") == ["ada", "bob"]


def test_tools_that_make_delete_and_merge_branches_are_not_offered(talk):
    hidden = {"branches_create", "branches_delete", "branches_merge"}

    async def conversation(client):
        tools = (await client.list_tools()).tools
        denied = [await call(client, name, name="x") for name in sorted(hidden)]
        shown = await call(client, "proposal")
        return tools, denied, shown

    tools, denied, shown = talk(conversation)
    by_name = {tool.name: tool for tool in tools}
    assert set(by_name) == {*built_in(), "proposal", "set_born"} - hidden
    assert all("there is no tool" in result.structured_content["error"] for result in denied)
    jsonschema.validate(shown.structured_content, by_name["proposal"].output_schema)
    assert by_name["proposal"].annotations.read_only_hint
    for name in ("mutate", "load", "set_born"):
        told = by_name[name].input_schema["properties"]["branch"]["description"]
        assert told == "Leave it out: writes go to the branch of this session."


def test_after_a_merge_that_deleted_the_branch_the_next_write_begins_another(talk, place):
    async def conversation(client):
        first = await call(client, "mutate", query=ADD)
        gone = first.structured_content["branch"]
        with og.open(place, actor="reviewer") as graph:
            graph.branches.merge(gone, delete_branch=True)
        second = await call(client, "mutate", query=ADD.replace("zoe", "yan"))
        third = await call(client, "mutate", query=ADD.replace("zoe", "xi"), branch=gone)
        return gone, second.structured_content["branch"], third

    gone, branch, third = talk(conversation)
    assert branch.startswith("proposals/")
    assert branch != gone
    assert third.is_error
    with og.open(place) as graph:
        assert graph.branches.list() == ["main", branch]
        assert names(graph) == ["ada", "bob", "zoe"]
        assert names(graph, branch=branch) == ["ada", "bob", "yan", "zoe"]


def test_a_session_whose_branch_is_gone_hears_so_once_in_plain_words(talk, place):
    async def conversation(client):
        told = []
        for asked, more in (("proposal", {}), ("mutate", {"query": ADD})):
            first = await call(client, "mutate", query=ADD)
            gone = first.structured_content["branch"]
            with og.open(place, actor="reviewer") as graph:
                graph.branches.delete(gone)
            on = {"branch": gone} if more else {}
            told.append(await call(client, asked, **more, **on))
        return told, (await call(client, "proposal")).structured_content

    told, shown = talk(conversation)
    for result in told:
        assert result.is_error
        assert result.structured_content["kind"] == "branch_not_found"
        assert "your next write begins another" in result.structured_content["error"]
    assert shown == {"branch": None, "head_commit_id": None, "diff": None, "merge_plan": None}


def test_writes_at_once_after_the_branch_is_gone_begin_one_proposal_together(talk, place):
    async def conversation(client):
        first = await call(client, "mutate", query=ADD)
        with og.open(place, actor="reviewer") as graph:
            graph.branches.delete(first.structured_content["branch"])
        made = [call(client, "mutate", query=ADD.replace("zoe", f"n{n}")) for n in range(6)]
        return [one.structured_content["branch"] for one in await asyncio.gather(*made)]

    branches = set(talk(conversation))
    with og.open(place) as graph:
        assert graph.branches.list() == ["main", *branches]
        (branch,) = branches
        assert names(graph, branch=branch) == ["ada", "bob", *(f"n{n}" for n in range(6))]


class OneGoneAfterTheOther:
    """A runner on which the first branch is gone, and the second of two writes to it hears so late."""

    def __init__(self):
        self.made, self.late = [], asyncio.Event()

    async def run(self, asked):
        if asked.operation.name == "create_branch":
            self.made.append(asked.request.name)
            return {}
        if asked.request.branch != self.made[0]:
            self.late.set()
            return {"branch": asked.request.branch}
        if asked.request.query == "late":
            await self.late.wait()
        raise BranchNotFound("gone", branch=self.made[0])


def test_a_write_that_hears_late_that_the_branch_is_gone_joins_the_next_proposal():
    async def both():
        runner = OneGoneAfterTheOther()
        proposing = ProposingRunner(runner, "p")
        mutate = built_in()["mutate"]
        asked = [proposing.run(mutate.request({"query": text})) for text in ("late", "early")]
        return await asyncio.gather(*asked), runner.made

    answers, made = asyncio.run(both())
    assert [answer["branch"] for answer in answers] == [made[1], made[1]]
    assert len(made) == 2


def test_a_write_that_fails_leaves_an_empty_proposal(talk, place):
    async def conversation(client):
        failed = await call(client, "mutate", query='query q() { insert Author { nam: "x" } }')
        return failed, (await call(client, "proposal")).structured_content

    failed, shown = talk(conversation)
    assert failed.is_error
    assert shown["diff"] is None or shown["diff"]["changes"] == []
    with og.open(place) as graph:
        assert names(graph) == ["ada", "bob"]


@pytest.mark.parametrize("prefix", ["", "__x", "a b", "main", "x/", "/data/notes", "x" * 300])
def test_a_prefix_that_makes_no_branch_name_is_refused_at_the_start(prefix):
    if prefix == "main":  # `main/…` is a name as any other
        ProposingRunner(None, prefix)
        return
    with pytest.raises(BadRequest, match="choose another prefix for --propose") as caught:
        ProposingRunner(None, prefix)
    assert f"`{prefix}/…`" in str(caught.value)


def test_a_graph_that_the_option_took_for_its_prefix_is_missed_in_plain_words(tmp_path):
    argv = [sys.executable, "-m", "omnigraph", "mcp", "--propose", "notes"]
    done = subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1
    assert "--propose took `notes`, so put the URI before it" in done.stderr


def test_the_command_line_takes_the_option_with_and_without_a_prefix(place):
    for words, begins in ((["--propose"], "proposals/"), (["--propose", "team"], "team/")):
        argv = (sys.executable, "-m", "omnigraph", "mcp", str(place), *words)
        with greeted(argv, place.parent / "stderr") as agent:
            text = f'query add() {{ insert Author {{ name: "{begins}" }} }}'
            written = agent.call("mutate", {"query": text})["result"]["structuredContent"]
            assert written["branch"].startswith(begins)

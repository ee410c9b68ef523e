"""Ways around a policy, tried over HTTP and with tools: none shows or changes anything of a protected branch.

Ada may do everything on branches that are not protected, and `side` is protected. Every attempt is refused with 403, or
answered as the same request about something unknown is, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from omnigraph.policy import Action
from omnigraph.policy.bundle import Bundle, PolicyRule
from omnigraph.policy.cedar import CedarChecker
from tests.policy.calls import ADD, ALL, UNKNOWN
from tests.policy.operation_rows import PHOTO
from tests.policy.served import TOKENS, ServedWorld, served_world
from tests.server.http import Answer

ON_BRANCHES = (Action.READ, Action.EXPORT, Action.CHANGE, Action.TAG_CREATE, Action.TAG_DELETE)
ON_TARGETS = (Action.BRANCH_CREATE, Action.BRANCH_DELETE, Action.BRANCH_MERGE)
BUNDLE = Bundle(
    "graph",
    {"team": frozenset({"ada"}), "keepers": frozenset({"bob"})},
    frozenset({"side"}),
    (
        PolicyRule("team-branches", "team", ON_BRANCHES, "unprotected"),
        PolicyRule("team-targets", "team", ON_TARGETS, "unprotected"),
        PolicyRule("team-queries", "team", (Action.INVOKE_QUERY,)),
        PolicyRule("keepers", "keepers", (*ON_BRANCHES, *ON_TARGETS, Action.INVOKE_QUERY)),
    ),
)
SECRET = "bea"
"""The name of the person who is on `side` alone."""
BEA = {"type": "Person", "id": SECRET}
FAR = "2999-01-01T00:00:00Z"


class Watched:
    """The bundle; something may happen while it thinks about a question."""

    def __init__(self) -> None:
        self.bundle = CedarChecker(BUNDLE)
        self.meanwhile: Callable[[], object] | None = None

    def check(self, question: Any) -> Any:
        """Let happen what is to happen, once, and decide."""
        decision = self.bundle.check(question)
        happen, self.meanwhile = self.meanwhile, None
        if happen is not None:
            happen()
        return decision


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedWorld]:
    with served_world(tmp_path_factory.mktemp("bypass"), Watched()) as world:
        world.owner.branches.create("copy", "side")
        yield world


@pytest.fixture(autouse=True)
def nothing_changes(world: ServedWorld) -> Iterator[None]:
    """No attempt may change `side`, or make or move anything."""

    def state() -> Any:
        tags = [(tag.name, tag.graph_commit_id) for tag in world.owner.tags.list()]
        heads = {
            name: world.owner.snapshot(branch=name).graph_commit_id
            for name in ("side", "main", "copy", "fresh")
        }
        return heads, tags, world.owner.branches.list()

    before = state()
    yield
    assert state() == before


class Kept(NamedTuple):
    """Names of one state of a protected branch; or of none."""

    branch: str
    commit: str
    tag: str


def kept(world: ServedWorld) -> Kept:
    return Kept("side", world.side_commit, "of-side")


NONE = Kept("no-such-branch", UNKNOWN, "no-such-tag")
TARGETS: dict[str, Callable[[Kept], dict[str, Any]]] = {
    "branch": lambda k: {"branch": k.branch},
    "blanks": lambda k: {"branch": f" \t{k.branch}\n"},
    "commit": lambda k: {"snapshot": k.commit},
    "tag": lambda k: {"tag": k.tag},
    "blank-tag": lambda k: {"tag": f" {k.tag} "},
    "version": lambda k: {"branch": k.branch, "version": 3},
    "time": lambda k: {"branch": k.branch, "time": FAR},
}
Send = Callable[[ServedWorld, dict[str, Any], Kept], Answer]
READS: dict[str, Send] = {
    "query": lambda w, t, k: w.ask("query", {"query": ALL, **t}),
    "lines": lambda w, t, k: w.ask("query", {"query": ALL, **t}, Accept="application/x-ndjson"),
    "explain": lambda w, t, k: w.ask("explain", {"query": ALL, "profile": True, **t}),
    "neighbors": lambda w, t, k: w.ask("neighbors", {**BEA, **t}),
    "neighbors page": lambda w, t, k: w.ask("neighbors", {**BEA, "after": "x", **t}),
    "subgraph": lambda w, t, k: w.ask("subgraph", {"nodes": [BEA], **t}),
    "drawn": lambda w, t, k: w.ask("subgraph", {"query": ALL, **t}),
    "stored": lambda w, t, k: w.ask("queries/everybody", t),
    "export": lambda w, t, k: w.ask("export", t),
    "snapshot": lambda w, t, k: w.send("GET", "/graphs/default/snapshot", params=t),
    "entity": lambda w, t, k: w.send("GET", "/graphs/default/entity", params={"kind": "node", **BEA, **t}),
    "entity history": lambda w, t, k: w.send(
        "GET", "/graphs/default/entity/history", params={"kind": "node", **BEA, **t}
    ),
    "entity blame": lambda w, t, k: w.send("GET", "/graphs/default/entity/blame", params={"kind": "node", **BEA, **t}),
    "blob": lambda w, t, k: w.send("GET", "/graphs/default/blob", params={**PHOTO, **t}),
    "diff from": lambda w, t, k: w.ask("diff", {"from": t, "to": "main"}),
    "diff to": lambda w, t, k: w.ask("diff", {"from": "main", "to": t}),
    "branch": lambda w, t, k: w.ask("branches", {"name": "mine", "from": t}),
    "new tag": lambda w, t, k: w.ask("tags", {"name": "mine", **t}),
}  # fmt: skip
OTHERS: dict[str, Callable[[ServedWorld, Kept], Answer]] = {
    "commit": lambda w, k: w.ask(f"commits/{k.commit}"),
    "changes of a commit": lambda w, k: w.ask(f"commits/{k.commit}/changes"),
    "commits": lambda w, k: w.send("GET", "/graphs/default/commits", params={"branch": k.branch}),
    "history": lambda w, k: w.send("GET", "/graphs/default/history", params={"branch": k.branch}),
    "page of history": lambda w, k: w.send(
        "GET", "/graphs/default/history", params={"branch": "main", "before": k.commit}
    ),
    "page of commits": lambda w, k: w.send(
        "GET", "/graphs/default/commits", params={"branch": "copy", "before": k.commit}
    ),
    "changes": lambda w, k: w.send("GET", "/graphs/default/changes", params={"branch": k.branch, "start": "beginning"}),
    "changes after": lambda w, k: w.send(
        "GET", "/graphs/default/changes", params={"branch": "main", "start": f"after:{k.commit}"}
    ),
    "baseline": lambda w, k: w.ask("changes/baseline", {"branch": k.branch}),
    "merge plan": lambda w, k: w.ask("branches/merge/plan", {"source": k.branch}),
    "plan into": lambda w, k: w.ask("branches/merge/plan", {"source": "main", "target": k.branch}),
    "merge": lambda w, k: w.ask("branches/merge", {"source": k.branch, "target": "fresh"}),
    "merge into": lambda w, k: w.ask("branches/merge", {"source": "main", "target": f" {k.branch} "}),
    "merge and delete": lambda w, k: w.ask(
        "branches/merge", {"source": k.branch, "target": "fresh", "delete_branch": True}
    ),
    "revert": lambda w, k: w.ask(f"commits/{k.commit}/revert", {"branch": "fresh"}),
    "revert there": lambda w, k: w.ask(f"commits/{k.commit}/revert", {"branch": k.branch}),
    "revert plan": lambda w, k: w.ask(f"commits/{k.commit}/revert", {"branch": "fresh", "dry_run": True}),
    "delete": lambda w, k: w.send("DELETE", f"/graphs/default/branches/{k.branch}"),
    "delete tag": lambda w, k: w.send("DELETE", f"/graphs/default/tags/{k.tag}"),
    "mutate": lambda w, k: w.ask("mutate", {"query": ADD, "params": {"name": "x"}, "branch": f" {k.branch} "}),
    "load": lambda w, k: w.ask("load", {"data": "", "branch": f"{k.branch} "}),
    "fork by a load": lambda w, k: w.ask("load", {"data": "", "branch": "mine", "from": k.branch}),
    "stored mutation": lambda w, k: w.ask("queries/newcomer", {"params": {"name": "x"}, "branch": k.branch}),
    "embed": lambda w, k: w.ask("embed", {"branch": k.branch}),
    "clear": lambda w, k: w.send("DELETE", "/graphs/default/blob", params={**PHOTO, "branch": k.branch}),
    "condition": lambda w, k: w.ask(
        "mutate", {"query": ADD, "params": {"name": "x"}, "branch": "fresh"}, **{"Omnigraph-If-Graph-Commit": k.commit}
    ),
}  # fmt: skip


def shown(answer: Answer, names: Kept) -> tuple[int, str]:
    """An answer with the names of the request taken out."""
    text = answer.text
    for name, stands in zip(
        (names.commit, names.tag, names.branch), ("ID", "TAG", "BRANCH"), strict=True
    ):
        text = text.replace(name, stands)
    return answer.status, text


def refused(answer: Answer, unknown: Answer, names: Kept) -> None:
    """Assert that nothing was told: 403, or what the unknown gets."""
    assert SECRET not in answer.text
    if answer.status != 403:
        assert answer.status >= 400, answer.text
        assert shown(answer, names) == shown(unknown, NONE)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("read", READS)
def test_no_target_leads_to_a_protected_branch(world, read, target):
    names = kept(world)
    asked, unknown = TARGETS[target](names), TARGETS[target](NONE)
    refused(READS[read](world, asked, names), READS[read](world, unknown, NONE), names)


@pytest.mark.parametrize("other", OTHERS)
def test_no_other_request_does(world, other):
    names = kept(world)
    refused(OTHERS[other](world, names), OTHERS[other](world, NONE), names)


def test_all_of_these_are_answered_to_somebody_who_may(world):
    """What shows that the attempts are not refused for another reason."""
    names = kept(world)
    for read in (
        "query",
        "entity",
        "entity history",
        "entity blame",
        "export",
        "subgraph",
        "stored",
    ):
        for target in TARGETS.values():
            bob = ServedWorld(**{**vars(world), "http": world.http.as_(TOKENS["bob"])})
            bob.send = lambda *a, **m: world.send(*a, **{**m, "actor": "bob"})  # type: ignore[method-assign]
            wanted = {**target(names)}
            if "version" in wanted:
                wanted["version"] = world.owner.snapshot(branch="side").manifest_version
            answer = READS[read](bob, wanted, names)
            assert (answer.status, SECRET in answer.text) == (200, True), (
                read,
                wanted,
                answer.text,
            )


SPELLINGS = [
    "SIDE",
    "Side",
    "ｓide",
    "side\u200b",
    "\u202eside",
    "s\u0456de",
    "side/",
    "/side",
    "./side",
    "side\x00",
]


@pytest.mark.parametrize("name", SPELLINGS, ids=ascii)
def test_another_spelling_is_another_branch(world, name):
    for answer in (
        world.ask("query", {"query": ALL, "branch": name}),
        world.ask("mutate", {"query": ADD, "params": {"name": "x"}, "branch": name}),
        world.ask("diff", {"from": "main", "to": name}),
    ):
        assert answer.status in {400, 404}, answer.text
        assert SECRET not in answer.text


PATHS = [
    "branches/side", "branches/%73ide", "branches/side%20", "branches/%20side%09", "branches//side", "//branches/side",
    "branches/./side", "branches/%2E/side", "branches/x/../side", "branches/%2e%2e/branches/side", "branches/side/",
    "branches%2Fside", "branches/x%2F..%2Fside", "branches/%2Fside", "branches/side%2F", "branches/side%00",
    "branches/SIDE", "branches/side;x=1", "branches/side%3Fx", "branches/%ff", "BRANCHES/side", "../default/branches/side",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_spelling_of_a_path_leads_past_the_policy(world, path):
    answer = world.send("DELETE", f"/graphs/default/{path}")
    assert answer.status in {400, 403, 404, 405}, answer.text
    trimmed = path in {
        "branches/side",
        "branches/%73ide",
        "branches/side%20",
        "branches/%20side%09",
    }
    assert (answer.status == 403) == trimmed


@pytest.mark.parametrize(
    "path", ["/graphs/DEFAULT/branches/side", "/graphs//default/branches/side", "//graphs/default/branches/side",
             "/graphs/default%2Fbranches/side", "/graphs/./default/branches/side", "/Graphs/default/branches/side"],
)  # fmt: skip
def test_no_spelling_of_a_graph_does(world, path):
    assert world.send("DELETE", path).status in {400, 404}


FORGED = [
    "X-Omnigraph-Actor",
    "X-Actor",
    "Actor",
    "From",
    "Remote-User",
    "X-Forwarded-User",
    "X-Remote-User",
]


@pytest.mark.parametrize("header", FORGED)
def test_no_header_names_another_actor(world, header):
    answer = world.ask("query", {"query": ALL, "branch": "side"}, **{header: "bob"})
    assert answer.error == (403, "policy_denied", "forbidden")
    assert "ada" in answer.json()["error"]


def test_no_field_names_another_actor(world):
    asked = {"query": ALL, "branch": "side"}
    for more in ({"actor": "bob"}, {"actor_id": "bob"}, {"as": "bob"}):
        assert world.ask("query", {**asked, **more}).status == 400
    for name in ("actor", "as", "actor_id"):
        path = f"/graphs/default/query?{name}=bob"
        body = json.dumps(asked).encode()
        headers = {"Content-Type": "application/json"}
        assert world.send("POST", path, body=body, headers=headers).status == 400
    told = world.tool("query", {**asked, "actor": "bob"})["structuredContent"]
    assert "no argument `actor`" in told["error"]
    named = world.message(
        "tools/call", name="query", arguments=asked, _meta={"actor": "bob"}
    ).json()
    assert named["result"]["structuredContent"]["kind"] == "policy_denied"


def test_no_second_token_counts(world):
    body = json.dumps({"query": ALL, "branch": "side"}).encode()
    head = [
        "POST /graphs/default/query HTTP/1.1",
        f"Host: 127.0.0.1:{world.http.port}",
        f"Authorization: Bearer {TOKENS['ada']}",
        "Content-Type: application/json",
    ]
    again = f"Authorization: Bearer {TOKENS['bob']}"
    twice = "\r\n".join([*head, again, f"Content-Length: {len(body)}", "", ""]).encode() + body
    assert world.http.raw(twice).status == 401
    # A field after the body is no header.
    chunked = "\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode()
    chunked += b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(body), body, again.encode())
    assert world.http.raw(chunked).error[:2] == (403, "policy_denied")


def get(world: ServedWorld, path: str, actor: str = "ada", **params: Any) -> Answer:
    return world.send("GET", f"/graphs/default/{path}", params=params, actor=actor)


def test_no_token_of_a_page_that_somebody_else_got_is_a_key(world):
    pages = [
        world.ask("diff", {"from": "main", "to": "side", "limit": 1}, actor="bob"),
        get(world, "changes", "bob", branch="side", start="beginning", limit=1),
        get(world, "changes", "bob", branch="side", start="now"),
    ]
    tokens = [page.json().get("next_page_token") or page.json().get("cursor") for page in pages]
    found = [token for token in tokens if token]
    assert len(found) >= 2, [page.text for page in pages]
    for token in found:
        for answer in (
            world.ask("diff", {"from": "main", "to": "side", "page_token": token}),
            world.ask("diff", {"from": "main", "to": "main", "page_token": token}),
            world.ask("diff", {"from": "main", "to": "fresh", "page_token": token}),
            get(world, f"commits/{world.side_commit}/changes", page_token=token),
            get(world, f"commits/{world.main_commit}/changes", page_token=token),
            *(
                get(world, "changes", branch=branch, **{name: token})
                for branch in ("side", "main", "fresh", "copy")
                for name in ("cursor", "page_token")
            ),
        ):
            assert SECRET not in answer.text
            assert answer.status in {400, 403, 404, 409, 410}, answer.text


def test_a_copy_of_a_protected_branch_shows_itself_and_no_commit_of_the_other(world):
    """Who made the copy could read both, and gave it a name that the rules are about."""
    assert SECRET in world.ask("query", {"query": ALL, "branch": "copy"}).text
    told = get(world, "commits", branch="copy").json()["commits"]
    assert world.side_commit not in {commit["graph_commit_id"] for commit in told}
    assert world.side_commit not in {
        one["graph_commit_id"] for one in get(world, "history", branch="copy").json()["commits"]
    }
    # A feed ends before the first commit that may not be read.
    feed = get(world, "changes", branch="copy", start="beginning", max_commits=512)
    assert SECRET not in feed.text
    assert get(world, "changes", branch="copy", cursor=feed.json()["cursor"]).status == 403


TOOLS: dict[str, Callable[[Kept], dict[str, Any]]] = {
    "query": lambda k: {"query": ALL, "branch": f" {k.branch} "},
    "explain": lambda k: {"query": ALL, "tag": k.tag},
    "entity": lambda k: {"kind": "node", **BEA, "snapshot": k.commit},
    "entity_history": lambda k: {"kind": "node", **BEA, "tag": k.tag},
    "entity_blame": lambda k: {"kind": "node", **BEA, "branch": k.branch},
    "neighbors": lambda k: {**BEA, "branch": k.branch},
    "snapshot": lambda k: {"snapshot": k.commit},
    "diff": lambda k: {"from": "main", "to": f"commit:{k.commit}"},
    "merge_plan": lambda k: {"source": k.branch},
    "commit_show": lambda k: {"graph_commit_id": k.commit},
    "commits_list": lambda k: {"branch": k.branch},
    "mutate": lambda k: {"query": ADD, "params": {"name": "x"}, "branch": k.branch},
    "load": lambda k: {"data": "", "branch": "mine", "from": k.branch},
    "branches_create": lambda k: {"name": "mine", "from": k.branch},
    "branches_delete": lambda k: {"branch": f" {k.branch}"},
    "branches_merge": lambda k: {"source": k.branch, "target": "fresh"},
    "everybody": lambda k: {"branch": k.branch},
    "newcomer": lambda k: {"name": "x", "branch": k.branch},
}


@pytest.mark.parametrize("tool", TOOLS)
def test_no_tool_leads_to_a_protected_branch(world, tool):
    names = kept(world)
    result, unknown = world.tool(tool, TOOLS[tool](names)), world.tool(tool, TOOLS[tool](NONE))
    assert result["isError"]
    assert SECRET not in str(result)
    if result["structuredContent"]["kind"] != "policy_denied":
        told = str(result).replace(names.commit, "ID")
        assert told == str(unknown).replace(NONE.commit, "ID")


@pytest.mark.parametrize("surface", ["http", "mcp"])
def test_a_tag_that_moves_while_it_is_asked_about_shows_nothing(world, surface):
    world.owner.tags.create("moving", "main")

    def move() -> None:
        world.owner.tags.delete("moving")
        world.owner.tags.create("moving", "side")

    world.policy.meanwhile = move
    try:
        if surface == "http":
            told = world.ask("query", {"query": ALL, "tag": "moving"}).text
        else:
            told = json.dumps(
                world.tool("query", {"query": ALL, "tag": "moving"})["structuredContent"]
            )
    finally:
        world.owner.tags.delete("moving")
    assert json.loads(told)["kind"] == "tag_not_found"
    assert SECRET not in told

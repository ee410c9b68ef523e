"""The explorer in a browser: other states, writing, links, what is kept, policies, and a server that goes away."""

import json
import random
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph as og
from tests.explorer.looking import (
    COUNTS,
    DRAWN,
    ask,
    find,
    go,
    link,
    places,
    requests_under_way,
    run,
    wait_until_quiet,
    write,
)
from tests.explorer.running import start_explorer
from tests.server.running import LONG, start_server
from tests.server.small import CROSS, TOKENS, make_graph
from tests.server.small import LONG as ROWS

LATE = 'query q() { match { $p: Person { handle: "late" } } return { $p } }'
POLICY = """
version: 1
groups: { readers: [ada], guests: [bob] }
protected_branches: [main]
rules:
  - id: all-read
    allow: { actors: { group: readers }, actions: [read], branch_scope: any }
  - id: guests-read-beside-main
    allow: { actors: { group: guests }, actions: [read], branch_scope: unprotected }
"""


def insert(handle):
    return f'query w() {{ insert Person {{ handle: "{handle}", name: "{handle}" }} }}'


def test_a_past_state_is_read_only_wherever_it_is_chosen(visits):
    page = visits.page("#/query?tag=before")
    page.get_by_text("You are looking at the tag before, read only.").wait_for()
    run(page, LATE, drawn=False)
    page.get_by_text("0 rows: this query matches no nodes.").wait_for()
    find(page, "person late")
    page.get_by_text("Nothing is called so.").wait_for()
    page.keyboard.press("Escape")
    write(page, insert("x"))
    page.get_by_text("You are looking at the past, which nobody can change.").wait_for()
    assert page.get_by_role("button", name="Write to main").is_disabled()
    page.keyboard.press("Control+Enter")
    assert page.locator("dialog").count() == 0
    page.get_by_role("button", name="Back to now").click()
    run(page, LATE)
    page.mouse.click(*places(page)["Person", "late"])
    page.locator(".inspect dd", has_text="Latecomer").wait_for()
    page.go_back()
    page.get_by_text("You are looking at the tag before, read only.").wait_for()

    # By commit and by time, typed.
    tagged = page.evaluate(
        "async () => (await (await fetch('/graphs/default/tags', {headers: {authorization: "
        "`Bearer ${JSON.parse(sessionStorage['omnigraph:session']).token}`}})).json()).tags[0]"
    )
    for typed, words in (
        (tagged["graph_commit_id"], "the commit of "),
        ("2100-01-01T00:00:00Z", "1 Jan 2100, 00:00:00, read only."),
    ):
        page.locator(".target").click()
        page.get_by_label("A branch, commit or time").fill(typed)
        page.keyboard.press("Enter")
        page.locator(
            f".past-note[title='{typed}']", has_text=f"You are looking at {words}"
        ).wait_for()
    page.locator(".target").click()
    page.get_by_label("A branch, commit or time").fill("2026-13-45")
    page.keyboard.press("Enter")
    page.get_by_text("That is no time").first.wait_for()


def test_a_panel_tells_how_a_node_came_to_be_so_and_who_set_what(visits, place):
    with og.open(place / "g.omni", mode="r") as graph:
        changes = graph.history("node", "Person", "late").entries
    page = visits.page(link(LATE))
    page.wait_for_selector(".cm-content")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f".result {DRAWN}")
    page.mouse.click(*places(page)["Person", "late"])
    listed = page.locator(".came li")
    listed.nth(1).wait_for()
    # Exactly the commits that changed it, each with a link to the state that it left.
    links = [one.get_attribute("href") for one in listed.locator("a").all()]
    assert [one.partition("snapshot=")[2] for one in links] == [
        one.graph_commit_id for one in changes
    ]
    assert [text.split()[0] for text in listed.all_inner_texts()] == ["Changed", "Inserted"]
    assert "by bea" in listed.first.inner_text()
    assert listed.first.locator("dl").inner_text().split() == ["age", "null", "→", "77"]
    page.get_by_role("button", name="Who set what").click()
    age = page.locator(".props > div", has=page.locator("dt", has_text="age"))
    age.get_by_text("by bea").wait_for()
    name = page.locator(".props > div", has=page.locator("dt", has_text="name"))
    assert "bea" not in name.inner_text()

    listed.nth(1).locator("a").click()
    page.get_by_title(changes[1].graph_commit_id, exact=True).wait_for()
    page.keyboard.press("Control+Enter")
    page.locator(".inspect").wait_for(state="detached")
    page.wait_for_selector(f".result {DRAWN}")
    page.mouse.click(*places(page)["Person", "late"])
    listed.first.wait_for()
    assert [text.split()[0] for text in listed.all_inner_texts()] == ["Inserted"]
    page.locator(".props dd", has_text="null").first.wait_for()


def test_a_link_with_a_mutation_fills_the_editor_and_writes_only_when_agreed_to(visits, explorer):
    sent = []
    context = visits.context()
    context.clock.install()
    page = visits.page(link(insert("linked")), context=context)
    page.on("request", lambda request: sent.append(request.url))
    under_way = requests_under_way(page)
    page.get_by_role("button", name="Write to main").wait_for()
    page.locator(".cm-content").press("Control+Enter")
    page.locator("dialog").get_by_text("Write to main?").wait_for()
    assert not any(url.endswith("/mutate") for url in sent)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Write to main").click()
    page.locator("dialog").get_by_role("button", name="Write to main").click()
    page.get_by_text("1 node and 0 edges written to main.").wait_for()

    # Somebody else writes after the page has looked: nothing is written until it has looked again.
    visits.expected = ("412 (Precondition Failed)",)
    wait_until_quiet(page, under_way)
    mine = {"authorization": f"Bearer {explorer.told['token']}"}
    other = explorer.request(
        "POST", "/graphs/default/mutate", json={"query": insert("other")}, headers=mine
    )
    assert other.status_code == 200
    context.clock.run_for(6_000)
    page.get_by_role("button", name="The branch moved: refresh").wait_for()
    write(page, insert("second"))
    page.get_by_role("button", name="Write to main").click()
    page.locator("dialog").get_by_role("button", name="Write to main").click()
    page.locator(".failure", has_text="The branch moved meanwhile; look again.").wait_for()
    with page.expect_response(lambda response: "/snapshot" in response.url):
        page.get_by_role("button", name="Try again").click()
    wait_until_quiet(page, under_way)
    page.get_by_role("button", name="Write to main").click()
    page.locator("dialog").get_by_role("button", name="Write to main").click()
    page.get_by_text("1 node and 0 edges written to main.").wait_for()


def test_texts_are_there_again_and_forgotten_altogether(visits):
    context = visits.context()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visits.page(link(COUNTS, tag="before"), context=context)
    page.locator(".cm-content", has_text="counts").wait_for()
    page.wait_for_function("() => Object.keys(localStorage).some((key) => key.endsWith(':tabs'))")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Link copied").first.wait_for()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied == f"{visits.explorer.base}/ui/{link(COUNTS, tag='before')}"
    again = visits.page("#/query", context=context)
    again.locator(".cm-content", has_text="counts").wait_for()
    # So is the width of the text, which arrow keys change as a drag does.
    width = "() => document.querySelector('.write').offsetWidth"
    usual = again.evaluate(width)
    again.get_by_role("separator", name="Width of the text").focus()
    for _ in range(2):
        again.keyboard.press("ArrowRight")
    again.reload()
    again.wait_for_selector(".cm-content")
    assert again.evaluate(width) == usual + 40
    again.get_by_role("button", name="Theme, keys and what is kept").click()
    with again.expect_navigation():
        again.get_by_role("button", name="Forget all texts and runs").click()
    again.wait_for_selector(".cm-content")
    assert "counts" not in again.locator(".cm-content").inner_text()
    assert again.evaluate(width) == usual
    kept = again.evaluate("() => JSON.stringify(localStorage)")
    assert "counts" not in kept


def test_odd_fragments_lead_somewhere(visits):
    visits.expected = ("404 (Not Found)",)
    page = visits.page("#/nowhere")
    page.get_by_text("There is no view “nowhere”").wait_for()
    for fragment in ("#/query?text=" + "x" * 100_000, "#/%00?%ff", "#", "#//?=&&"):
        go(page, fragment)
        page.wait_for_selector("main")
        page.wait_for_selector(".nav a[aria-current=page]")
    go(page, "#/overview?branch=gone")
    page.locator(".failure", has_text="gone").wait_for()
    page.locator(".failure", has_text="choose another branch").wait_for()
    go(page, "#/overview?snapshot=01ARZ3NDEKTSV4RRFFQ69G5FAV")
    page.locator(".failure", has_text="01ARZ3NDEKTSV4RRFFQ69G5FAV").wait_for()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with a policy: Ada reads everything, Bob what is not protected; nobody writes."""
    place = tmp_path_factory.mktemp("guarded")
    with make_graph(place / "g.omni") as graph:
        graph.load([{"type": "Person", "data": {"name": "sid"}}], branch="side")
    (place / "policy.yaml").write_text(POLICY)
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    flags = "--store", place / "g.omni", "--policy", place / "policy.yaml"
    flags = *flags, "--metrics-bind", "127.0.0.1:0"
    with start_server(*flags, log=place / "log", environ=tokens) as running:
        yield running


def sign_in(visits, server, actor):
    """Type the token of an actor into the form, with keys alone."""
    visits.explorer = server
    visits.expected = ("403 (Forbidden)",)
    page = visits.page(signed_in=False)
    page.get_by_label("Token").focus()
    page.keyboard.type(TOKENS[actor])
    page.keyboard.press("Enter")
    # Nobody may list graphs here, so the name is asked for.
    page.get_by_label("Graph").wait_for()
    page.keyboard.press("Enter")
    page.locator(".who", has_text=actor).wait_for()
    return page


def test_keys_alone_lead_from_signing_in_to_an_expanded_node(visits, guarded):
    page = sign_in(visits, guarded, "ada")
    page.wait_for_selector(DRAWN)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.getAttribute('role')") == "application":
            break
    page.keyboard.press("ArrowRight")
    assert "is chosen" in page.locator(".stage").get_attribute("aria-label")
    page.keyboard.press("Delete")
    page.wait_for_selector(".scene[data-nodes='1']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".scene[data-nodes='2'][data-edges='1']")
    for nodes in (1, 2):
        page.keyboard.press("Control+z")
        page.wait_for_selector(f".scene[data-nodes='{nodes}'][data-settled=true]")

    # An edge is picked where it is drawn: beside the straight line, to one side or the other.
    (ax, ay), (bx, by) = places(page).values()
    panel = page.locator(".inspect[aria-label^=Knows]")
    for side in (0.04, -0.04):
        if panel.count() == 0:
            page.mouse.click((ax + bx) / 2 - side * (by - ay), (ay + by) / 2 + side * (bx - ax))
            page.evaluate(
                "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
            )
    panel.get_by_role("button", name="bob").click()
    page.locator(".inspect h2", has_text="bob").wait_for()

    # A reader's buttons for writing are disabled with the reason, and a request by hand is refused.
    go(page, "#/query")
    write(page, 'query w() { insert Person { name: "x" } }')
    assert page.get_by_role("button", name="Write to main").is_disabled()
    page.locator(
        ".run-row", has_text="You may not change this branch: no rule allows it."
    ).wait_for()
    body = {"query": 'query w() { insert Person { name: "x" } }'}
    assert ask(page, "POST", "/graphs/default/mutate", body, TOKENS["ada"]) == 403
    page.reload()
    page.locator(".who", has_text="ada").wait_for()


def test_who_may_read_one_branch_sees_just_that(visits, guarded):
    page = sign_in(visits, guarded, "bob")
    page.locator(".failure", has_text="does not allow bob").wait_for()
    page.locator(".target").click()
    page.get_by_label("A branch, commit or time").fill("side")
    page.keyboard.press("Enter")
    page.wait_for_selector(DRAWN)
    page.get_by_text("You may read some branches only").wait_for()
    assert page.locator(".failure").count() == 0
    assert ("Person", "sid") in places(page)
    for method, path, body, status in (
        ("GET", "history", None, 403),
        ("GET", "history?branch=side", None, 200),
        ("POST", "diff", {"from": {"branch": "main"}, "to": {"branch": "side"}}, 403),
    ):
        assert ask(page, method, f"/graphs/default/{path}", body, TOKENS["bob"]) == status


def free_port():
    """A port that the system gives to nobody by itself: it is free again when its server has ended."""
    span = Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest = int(span.read_text().split()[0]) if span.exists() else 49_152
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", random.SystemRandom().randrange(lowest // 2, lowest)))
            return probe.getsockname()[1]


def test_a_server_that_is_gone_comes_back_with_a_new_token(visits, place, tmp_path):
    port = "--port", str(free_port())
    with start_explorer(place / "g.omni", *port, home=tmp_path) as first:
        visits.explorer = first
        context = visits.context(signed_in=False)
        context.clock.install()
        page = visits.page(f"#code={first.code}", context=context)
        page.wait_for_selector(DRAWN)
        page.get_by_role("link", name="Query").click()
        write(page, COUNTS)
    refused = "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"
    visits.expected = (*refused, "401 (Unauthorized)")
    page.keyboard.press("Control+Enter")
    page.get_by_text("The server does not answer.").first.wait_for()
    page.get_by_text("What you typed is kept.").first.wait_for()
    assert "counts" in page.locator(".cm-content").inner_text()
    # Every view says so, and counts down to the next try.
    context.clock.run_for(6_000)
    for view in ("schema", "stored", "overview", "query"):
        go(page, f"#/{view}")
        page.locator(".failure", has_text="by itself in").wait_for()
    with start_explorer(place / "g.omni", *port, home=tmp_path) as second:
        # The page tries by itself, its token is void, and a link that another tab opens lets it in.
        context.clock.run_for(6_000)
        page.get_by_text("Press Enter in the terminal").wait_for()
        other = visits.page(f"#code={second.code}", context=context)
        other.wait_for_selector(DRAWN)
        page.locator(".cm-content", has_text="counts").wait_for()
        page.locator(".cm-content").press("Control+Enter")
        page.wait_for_selector(f".result {DRAWN}")
        other.close()
    page.close()
    # Another graph at the same address has none of these texts.
    og.init(tmp_path / "h.omni", "node Only { name: String @key }").close()
    with start_explorer(tmp_path / "h.omni", *port, home=tmp_path) as third:
        other = visits.page(f"#code={third.code}", context=context)
        other.get_by_text("There is nothing in this graph yet").wait_for()
        other.get_by_role("link", name="Query").click()
        other.wait_for_selector(".cm-content")
        assert "counts" not in other.locator(".cm-content").inner_text()
        other.close()


def test_stopping_a_query_frees_the_engine(visits, guarded):
    page = sign_in(visits, guarded, "ada")
    go(page, link(CROSS))
    page.wait_for_selector(".cm-content")
    page.locator(".cm-content").press("Control+Enter")
    page.get_by_role("button", name="Stop").wait_for()
    wait_for_running(guarded, 1)
    assert ask(page, "GET", "/healthz") == 200
    page.keyboard.press("Control+.")
    page.get_by_text("Stopped").first.wait_for()
    wait_for_running(guarded, 0)


def test_an_answer_that_breaks_off_is_said_and_asked_for_again(visits, guarded):
    # Chromium calls it one of several things, as the bytes that came allow.
    broken = "ERR_CONTENT_LENGTH_MISMATCH", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION"
    with BreakingOff(guarded.host, guarded.port) as between:
        page = sign_in(visits, between, "ada")
        visits.expected = (*visits.expected, *broken)
        go(page, link(ROWS))
        page.locator(".cm-content", has_text="long").wait_for()
        between.most = 20_000
        page.locator(".cm-content").press("Control+Enter")
        page.locator(".failure", has_text="The answer of the server broke off.").wait_for()
        assert page.locator(".tr").count() == 0
        between.most = None
        page.get_by_role("button", name="Try again").click()
        page.locator(".said", has_text="5,000 rows").wait_for()


class BreakingOff:
    """Passes connections on to a server as they are; those that bring more than ``most`` bytes are ended.

    ``most`` counts from when it is set, for each connection by itself.
    """

    def __init__(self, host, port):
        self.most = None
        self._upstream = host, port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._open = []

    @property
    def base(self):
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self):
        self._accepting.start()
        return self

    def __exit__(self, *_):
        # A browser may connect until the very end: only then is it known what there is to close.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join(LONG)
        self._listening.close()
        for connection in self._open:
            connection.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                self._open.append(near)
                far = socket.create_connection(self._upstream)
                self._open.append(far)
                for ends in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source, sink, counts):
        passed = 0
        with suppress(OSError):
            while block := source.recv(4096):
                passed = passed + len(block) if counts and self.most is not None else 0
                if self.most is not None and passed > self.most:
                    break
                sink.sendall(block)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def wait_for_running(server, count):
    """Wait until so many queries run."""
    until = time.monotonic() + LONG
    while server.gauges("queries_running") != [count]:
        assert time.monotonic() < until, f"there were never {count} queries running"
        time.sleep(0.01)

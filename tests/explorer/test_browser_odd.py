"""The explorer in a browser: odd graphs, hostile values, and pictures as large as they get."""

import json
import re
import signal
import socket
from pathlib import Path

import lance
import pytest

import omnigraph as og
from tests.explorer.conftest import MARKUP
from tests.explorer.looking import DRAWN, ask, find, go, link, places, run, shown, write
from tests.server.running import start_server
from tests.server.small import CROSS, make_graph

BIDI = "\u202eabc\u2066\u200f"
LONG = "x" * 1_000_000
HALF = "\ud83d"
"""The first half of a surrogate pair."""
ODD = f"""
node Thing @description({json.dumps(MARKUP)}) {{
  name: String @key
  text: String?
  big: I64?
  number: F64?
  list: [I32]?
  vector: Vector(3)?
  file: Blob?
}}
edge Loops: Thing -> Thing
edge Beside: Thing -> Thing
"""
LARGE = """
node Dot { name: String @key }
node Hub { name: String @key }
edge Links: Dot -> Dot
edge Meets: Dot -> Hub
"""
DOTS = 6_000
ALL_DOTS = "query all() { match { $a: Dot  $a links $b } return { $a.name as name } }"


def odd_records():
    values = {
        "text": BIDI,
        "big": 2**60 + 1,
        "number": 1e308,
        "list": [1],
        "vector": [1, 2, 3],
    }
    yield {"type": "Thing", "data": {"name": MARKUP, **values, "file": "base64:QUJD"}}
    yield {"type": "Thing", "data": {"name": BIDI, "text": LONG}}
    yield {"type": "Thing", "data": {"name": "alone", "number": 1.0}}
    yield {"edge": "Loops", "from": MARKUP, "to": MARKUP}
    for _ in range(50):
        yield {"edge": "Beside", "from": MARKUP, "to": BIDI}


def large_records():
    yield {"type": "Hub", "data": {"name": "hub"}}
    for at in range(DOTS):
        yield {"type": "Dot", "data": {"name": f"d{at:04}"}}
        yield {"edge": "Links", "from": f"d{at:04}", "to": f"d{(at + 1) % DOTS:04}"}
        yield {"edge": "Meets", "from": f"d{at:04}", "to": "hub"}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A server of graphs that nobody would make on purpose; it asks for no token."""
    place = tmp_path_factory.mktemp("odd")
    og.init(place / "empty", "").close()
    types = "\n".join(f"node T{at} {{ name: String @key }}" for at in range(300))
    og.init(place / "wide", types).close()
    for name in ("unfilled", "foreign"):
        og.init(place / name, "node N { name: String @key }").close()
    with og.init(place / "odd", ODD) as graph:
        graph.load(list(odd_records()))
    with og.init(place / "large", LARGE) as graph:
        graph.load(list(large_records()))
    with og.init(place / "short", "node N { name: String @key }") as graph:
        first = graph.load([{"type": "N", "data": {"name": "a"}}]).commit.graph_commit_id
        graph.load([{"type": "N", "data": {"name": "b"}}])
        graph.cleanup(keep_versions=1)
    names = "empty", "foreign", "large", "odd", "short", "unfilled", "wide"
    flags = [f"{name}={place / name}" for name in names]
    given = [each for flag in flags for each in ("--graph", flag)]
    with start_server(*given, "--unauthenticated", log=place / "log") as running:
        running.reclaimed, running.place = first, place
        yield running


def open_page(visits, server, fragment):
    visits.explorer = server
    page = visits.page(fragment, signed_in=False)
    page.wait_for_selector(".nav")
    return page


def test_graphs_without_rows_without_types_and_with_many(visits, odd):
    visits.expected = ("400 (Bad Request)", "410 (Gone)")
    page = open_page(visits, odd, "#/overview?graph=empty")
    page.get_by_text("There is nothing in this graph yet").wait_for()
    page.get_by_text("omnigraph examples DIR").wait_for()
    page.get_by_text("anyone who reaches this port can write").wait_for()
    page.get_by_role("link", name="Schema").click()
    page.get_by_text("This schema has no types yet.").wait_for()
    page.get_by_role("link", name="Query").click()
    write(page, "// nothing but a comment")
    page.keyboard.press("Control+Enter")
    page.locator(".failure").wait_for()
    page.locator(".pick", has_text="empty").click()
    page.get_by_role("button", name="unfilled", exact=True).click()
    page.get_by_role("link", name="Overview").click()
    dropped = page.evaluate_handle(
        """() => {
            const data = new DataTransfer();
            data.items.add(new File(['{"type": "N", "data": {"name": "dropped"}}'], "n.jsonl"));
            return data;
        }"""
    )
    page.get_by_text("Load a file into main").wait_for()
    page.dispatch_event(".empty", "drop", {"dataTransfer": dropped})
    page.wait_for_selector(DRAWN)
    assert shown(page) == (1, 0)
    page.locator(".pick", has_text="unfilled").click()
    page.get_by_role("button", name="wide", exact=True).click()
    page.get_by_role("link", name="Schema").click()
    page.locator(".box-of").nth(299).wait_for()
    go(page, "#/overview?graph=short")
    page.wait_for_selector(DRAWN)
    assert shown(page) == (2, 0)
    go(page, f"#/overview?graph=short&snapshot={odd.reclaimed}")
    page.locator(".failure", has_text="That state was reclaimed; choose a newer one.").wait_for()


def test_odd_values_are_shown_as_they_are(visits, odd):
    visits.expected = (
        "413 (Content Too Large)",
        "413 (Request Entity Too Large)",
        "413 (Payload Too Large)",
    )
    page = open_page(visits, odd, "#/overview?graph=odd")
    page.wait_for_selector(DRAWN)
    assert shown(page) == (2, 41)  # 40 of the parallel edges, and a loop
    page.mouse.click(*places(page)["Thing", MARKUP])
    panel = page.locator(".inspect")
    panel.locator("h2", has_text=MARKUP).wait_for()
    for text in (str(2**60 + 1), "1e+308", "[1]", "vector of 3", "blob of 3 bytes"):
        panel.locator("dd", has_text=text).wait_for()
    assert panel.locator("dd a").count() == 0
    page.get_by_role("link", name="Schema").click()
    page.locator(".box-of").click()
    page.get_by_text(MARKUP).wait_for()

    go(page, "#/query?graph=odd")
    everything = "query q() { match { $t: Thing } return { $t, $t.text as text, $t.big as big, $t.list as list, $t.vector as vector, $t.number * 10.0 - $t.number * 10.0 as odd } }"
    run(page, everything)
    assert shown(page) == (3, 51)
    page.keyboard.press("Alt+2")
    page.locator(".all .tr").nth(2).wait_for()
    assert page.locator(".all .tr").count() == 3
    assert page.evaluate("() => document.querySelector('.table').textContent.length") < 5_000
    for cell in ("[1]", "[1,2,3]"):
        page.locator(".all .tr > span", has_text=re.compile(f"^{re.escape(cell)}$")).wait_for()
    # What is no number is the greatest one, and null is the last value whichever way they are sorted.
    for way, numbers in (
        ("ascending", ["0", "NaN", "null"]),
        ("descending", ["NaN", "0", "null"]),
    ):
        page.locator(".th").get_by_role("button", name="odd").click()
        page.locator(f".th [aria-sort={way}]").wait_for()
        assert page.locator(".all .tr > span:last-child").all_inner_texts() == numbers
    page.locator(".all span", has_text="xxxx").first.dblclick()
    assert len(page.locator("dialog pre").inner_text()) == len(LONG)
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+3")
    page.get_by_text(str(2**60 + 1)).wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON", exact=True).click()
    rows = json.loads(Path(download.value.path()).read_text("utf-8"))
    assert {row["t"] for row in rows} == {MARKUP, BIDI, "alone"}
    assert {row["text"] for row in rows} == {BIDI, LONG, None}

    # Text above the limit is refused in words.
    write(page, "// " + "y" * 1_100_000 + "\n" + everything)
    page.keyboard.press("Control+Enter")
    page.locator(".failure", has_text="Ask for less.").wait_for()
    assert page.locator("img:not(.cm-widgetBuffer)").count() == 0
    assert ask(page, "GET", "/graphs/odd/catalog") == 200


def test_a_conflict_says_what_is_in_the_way(visits, odd):
    """Another program has written to a table of the graph: that does not pass when the page looks again."""
    (table,) = (odd.place / "foreign" / "nodes").iterdir()
    lance.dataset(table).update_config({"foreign": "yes"})
    visits.expected = ("409 (Conflict)",)
    page = open_page(visits, odd, link('query w() { insert N { name: "n" } }', graph="foreign"))
    page.get_by_role("button", name="Write to main").click()
    page.locator("dialog").get_by_role("button", name="Write to main").click()
    refused = page.locator(".failure", has_text="409 drift")
    refused.get_by_text("Nothing was changed.").wait_for()
    assert "omnigraph repair" in refused.inner_text()
    assert "moved" not in refused.inner_text()
    page.locator(".cm-content", has_text="insert N").wait_for()


def test_half_a_character_is_taken_for_no_text(visits, odd):
    """A browser has texts that are no Unicode; no graph has."""
    visits.expected = "400 (Bad Request)", "404 (Not Found)"
    page = open_page(visits, odd, "#/query?graph=odd&text=%ED%A0%80")
    page.wait_for_selector(".cm-content")
    half = "text => document.execCommand('insertText', false, text)"
    write(page, "x")
    page.keyboard.press("Control+a")
    page.evaluate(
        half, f'query q() {{ match {{ $t: Thing {{ name: "{HALF}" }} }} return {{ $t }} }}'
    )
    page.keyboard.press("Control+Enter")
    page.locator(".failure").wait_for()
    write(page, "query p($n: String) { match { $t: Thing { name: $n } } return { $t } }")
    page.get_by_label("$n").focus()
    page.evaluate(half, HALF)
    page.keyboard.press("Enter")
    page.locator(".failure").wait_for()
    page.get_by_role("button", name="Copy link").click()
    page.keyboard.press("Control+k")
    page.wait_for_selector(".finds:focus")
    page.evaluate(half, f"thing {HALF}")
    page.get_by_text("Nothing is called so.").wait_for()
    page.keyboard.press("Escape")
    page.locator(".target").click()
    page.get_by_label("A branch, commit or time").focus()
    page.evaluate(half, HALF)
    page.keyboard.press("Enter")
    page.locator(".failure").first.wait_for()
    page.reload()
    page.wait_for_selector(".nav")


def test_a_picture_holds_five_thousand_nodes(visits, odd):
    page = open_page(visits, odd, link(ALL_DOTS, graph="large"))
    page.wait_for_selector(".cm-content")
    page.locator(".cm-content").press("Control+Enter")
    page.wait_for_selector(".scene[data-nodes='5000']")
    # While places are being found, which takes seconds, keys are answered.
    find(page, "sch")
    page.locator(".found li", has_text="Schema").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_selector(f".result {DRAWN}")
    assert page.locator(".said").inner_text().startswith("5,000 of 6,000 nodes")

    # A node is picked where its colour is, also after the picture was made larger and moved.
    x, y = find_colour(page, "--t1", 2)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -600)
    page.mouse.click(x, y)
    panel = page.locator(".inspect")
    name = panel.locator("h2").inner_text()
    panel.get_by_role("button", name="Close").click()
    empty = find_colour(page, "--canvas", 12)
    page.mouse.move(*empty)
    page.mouse.down()
    page.mouse.move(empty[0] + 60, empty[1] - 40, steps=3)
    page.mouse.up()
    page.mouse.click(x + 60, y - 40)
    assert panel.locator("h2").inner_text() == name
    panel.locator("dd", has_text=name).wait_for()

    # There is no room for one more.
    panel.get_by_role("button", name="Expand").click()
    page.locator(".refused", has_text="A picture holds 5,000 nodes").wait_for()
    page.locator(".refused", has_text="5,001").wait_for()
    assert shown(page)[0] == 5_000


def find_colour(page, variable, around):
    """Where in the window the picture has a colour of the style sheet, and nothing else that near."""
    page.wait_for_function(
        "() => document.querySelector('.stage canvas').style.transform === 'translate(0px, 0px) scale(1)'"
    )
    found = page.evaluate(
        """([variable, around]) => {
            const canvas = document.querySelector(".stage canvas"), seen = canvas.getBoundingClientRect();
            const stage = canvas.parentElement.getBoundingClientRect();
            const copy = document.createElement("canvas");
            [copy.width, copy.height] = [Math.round(seen.width), Math.round(seen.height)];
            const context = copy.getContext("2d");
            context.drawImage(canvas, 0, 0, copy.width, copy.height);
            const {data} = context.getImageData(0, 0, copy.width, copy.height);
            const colour = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
            const wanted = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
            const has = (x, y) => {
                const at = 4 * (Math.round(y - seen.top) * copy.width + Math.round(x - seen.left));
                return wanted.every((value, i) => data[at + i] === value);
            };
            // Away from the legend and the tools.
            for (let y = Math.round(stage.top + stage.height * 0.4); y < stage.bottom - 120; y++)
                for (let x = Math.round(stage.left + 30); x < stage.right - 90; x++) {
                    let fits = true;
                    for (let dy = -around; fits && dy <= around; dy++)
                        for (let dx = -around; fits && dx <= around; dx++) fits = has(x + dx, y + dy);
                    if (fits) return [x, y];
                }
            return null;
        }""",
        [variable, around],
    )
    assert found is not None, f"there is no {variable} in the picture"
    return found


def half_a_load(server):
    """Send the head of a load and a part of its body: until the connection ends, the load is under way."""
    connection = socket.create_connection((server.host, server.port))
    head = [
        "POST /graphs/default/load/ndjson HTTP/1.1",
        f"Host: {server.host}:{server.port}",
        "Content-Type: application/x-ndjson",
        "Content-Length: 500",
    ]
    connection.sendall("\r\n".join([*head, "", '{"type": ']).encode())
    return connection


def test_a_server_that_is_busy_or_about_to_end_is_asked_again(visits, tmp_path):
    make_graph(tmp_path / "g.omni").close()
    flags = "--store", tmp_path / "g.omni", "--unauthenticated", "--drain-timeout", "0"
    flags = *flags, "--metrics-bind", "127.0.0.1:0"
    environ = {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "1"}
    visits.expected = "429 (Too Many Requests)", "503 (Service Unavailable)", "ERR_CONNECTION"
    visits.expected = *visits.expected, "503 of "
    with start_server(*flags, log=tmp_path / "log", environ=environ) as server:
        page = open_page(visits, server, link('query w() { insert Person { name: "eve" } }'))
        refused = []
        page.on("response", lambda answer: refused.append(answer.status))
        write_it = page.locator("dialog").get_by_role("button", name="Write to main")
        with half_a_load(server):
            page.get_by_role("button", name="Write to main").click()
            write_it.click()
            page.locator(".failure", has_text="The server is busy; try again in 1 s.").wait_for()
            assert refused.count(429) == 3  # twice more by itself
        page.get_by_role("button", name="Try again").click()
        write_it.click()
        page.get_by_text("1 node and 0 edges written to main.").wait_for()

        write(page, CROSS)
        page.keyboard.press("Control+Enter")
        page.get_by_role("button", name="Stop").wait_for()
        while server.gauges("queries_running") != [1]:
            page.wait_for_timeout(10)
        server.process.send_signal(signal.SIGTERM)
        page.locator(".failure", has_text="The server takes no requests now").wait_for()
        page.locator(".cm-content", has_text=CROSS.split()[1].partition("(")[0]).wait_for()

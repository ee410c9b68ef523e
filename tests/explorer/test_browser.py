"""The explorer in a browser: the newcomer's minute, and what may go wrong in it."""

import json
from pathlib import Path

import pytest

from omnigraph.explorer.sign_in import CODE_SECONDS
from tests.explorer.conftest import DRAWN, FIND, MARKUP
from tests.explorer.running import start_explorer

AXE = Path(__file__).parent / "axe-core" / "axe.min.js"
COUNTS = "query counts() {\n  match { $a: Person  $a knows $b }\n  return { $b.name as name, count($a) as n }\n}\n"


def shown(page):
    """How many nodes and edges the picture has."""
    scene = page.locator(".scene").first
    return int(scene.get_attribute("data-nodes")), int(scene.get_attribute("data-edges"))


def places(page):
    """Where the nodes of the picture lie in the window, by type and id."""
    box = page.locator(".stage").bounding_box()
    found = json.loads(page.locator(".scene").get_attribute("data-places"))
    return {(kind, name): (box["x"] + x, box["y"] + y) for kind, name, x, y in found}


def write(page, text):
    """Replace what the editor has."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    # Chromium itself would give text that replaces other text a style, which the policy of the page refuses.
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)


def open_query(visits, text, params=None):
    """A page with this text in the editor, as a link brings it."""
    page = visits.page()
    page.wait_for_selector(".nav")
    link = page.evaluate(
        "([text, params]) => '#/query?' + new URLSearchParams({text, params})",
        [text, json.dumps(params or {})],
    )
    page.goto(f"{visits.explorer.base}/ui/{link}")
    page.wait_for_selector(".cm-content")
    return page


def test_the_minute_of_a_newcomer(visits, place):
    with start_explorer(place / "g.omni", home=place) as fresh:
        visits.explorer = fresh
        page = visits.page(f"#code={fresh.code}", signed_in=False)
        page.wait_for_selector(DRAWN)
        assert "code" not in page.url
        nodes, edges = shown(page)
        assert nodes > 12
        assert edges == 66  # 40 of MemberOf, and all 26 of Knows

        page.mouse.click(*places(page)["Person", "p3"])
        panel = page.locator(".inspect")
        panel.locator("dt").first.wait_for()
        assert panel.locator("dt").all_inner_texts() == ["handle", "name", "age", "level", "site"]

        page.locator(".ask button", has_text="counted").click()
        page.wait_for_selector(f".result {DRAWN}")
        assert "251 nodes, 250 edges matched · 1 row" in page.locator(".said").inner_text()
        page.get_by_role("tab", name="Table").click()
        assert page.locator(".all .tr").count() > 0

        page.reload()
        page.wait_for_selector(".cm-content")
        assert "most_" in page.locator(".cm-content").inner_text()
        second = visits.page(context=visits.contexts[0])
        second.wait_for_selector(DRAWN)
        stored = page.evaluate("() => JSON.stringify(localStorage)")
        assert fresh.code not in stored
        assert "token" not in stored
        second.close()
        page.close()


def test_a_used_code_asks_for_enter_in_the_terminal(visits, explorer):
    visits.expected = ("401 (Unauthorized)",)
    page = visits.page(f"#code={explorer.code}", signed_in=False)
    page.get_by_text("This explorer belongs to whoever started it").wait_for()
    assert "code" not in page.url
    assert CODE_SECONDS == 120


def test_a_node_is_expanded_to_all_its_neighbours_and_back(visits):
    page = open_query(visits, 'query club() { match { $c: Club { slug: "large" } } return { $c } }')
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f".result {DRAWN}")
    assert shown(page) == (1, 0)
    page.mouse.click(*places(page)["Club", "large"])
    show = page.locator(".near button")
    for nodes, label in ((101, "More"), (201, "More"), (251, "Shown")):
        show.click()
        page.wait_for_selector(f".scene[data-nodes='{nodes}'][data-edges='{nodes - 1}']")
        page.locator(".near button", has_text=label).wait_for()
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".scene[data-nodes='201']")
    page.locator(".inspect").get_by_role("button", name="Collapse").click()
    page.wait_for_selector(".scene[data-nodes='1'][data-edges='0']")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".scene[data-nodes='201'][data-edges='200']")


def test_a_query_of_counts_has_a_picture_table_and_json_that_agree(visits):
    page = open_query(visits, COUNTS)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f".result {DRAWN}")
    assert shown(page)[0] == 13
    assert page.locator(".said").inner_text().startswith("13 nodes, 26 edges matched · 13 rows")
    page.keyboard.press("Alt+2")
    assert page.locator(".all .tr").count() == 13
    page.keyboard.press("Alt+3")
    assert page.locator(".json").inner_text().startswith("▾rows [13]")
    page.keyboard.press("Alt+4")
    page.get_by_text("expand $a -Knows-> $b: Person").wait_for()


def test_a_fault_behind_an_emoji_is_underlined_exactly(visits):
    page = open_query(visits, "")
    write(page, "// 😀🎉\nquery q() { match { $a: Person  $a knowz $b } return { $a } }")
    fault = page.locator(".cm-lintRange-error")
    fault.wait_for()
    assert fault.all_inner_texts() == ["knowz"]
    page.locator(".cm-content").focus()
    page.keyboard.press("F8")
    page.get_by_text("did you mean `knows`?").first.wait_for()


def test_properties_of_the_variables_type_are_completed(visits):
    page = open_query(visits, "")
    write(page, "query q() { match { $p knows $o  $c: Club } return { $c")
    page.keyboard.type(".")
    page.wait_for_selector(".cm-tooltip-autocomplete li")
    offered = page.locator(".cm-tooltip-autocomplete .cm-completionLabel").all_inner_texts()
    assert sorted(offered) == ["slug", "title"]


def test_parameters_are_checked_before_anything_is_sent(visits):
    sent = []
    page = open_query(visits, FIND, {"handle": "p0", "least": "x"})
    page.on("request", lambda request: sent.append(request.url))
    page.keyboard.press("Control+Enter")
    page.get_by_text("least is a whole number").wait_for()
    assert not any(url.endswith("/query") for url in sent)
    page.get_by_label("$least").fill("")
    page.keyboard.press("Enter")
    page.wait_for_selector(f".result {DRAWN}")
    assert any(url.endswith("/query") for url in sent)


def test_markup_of_the_graph_is_text_everywhere(visits):
    page = open_query(
        visits,
        'query q() { match { $p: Person { handle: "evil" } } return { $p, $p.name as name, $p.site as site } }',
    )
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f".result {DRAWN}")
    page.mouse.click(*places(page)["Person", "evil"])
    page.locator(".inspect h2", has_text=MARKUP).wait_for()
    page.locator(".inspect dd", has_text="javascript:alert(1)").wait_for()
    assert page.locator(".inspect a").count() == 0
    page.keyboard.press("Alt+2")
    page.locator(".all .tr", has_text=MARKUP).wait_for()
    page.keyboard.press("Alt+3")
    assert MARKUP in json.loads(page.locator(".json .string").nth(1).inner_text())
    assert page.locator("img").count() == 0


def test_a_tag_leads_to_the_past_where_nothing_is_written(visits):
    page = visits.page("#/query?tag=before")
    page.get_by_text("You are looking at the tag before, read only.").wait_for()
    write(page, 'query q() { match { $p: Person { handle: "late" } } return { $p } }')
    page.keyboard.press("Control+Enter")
    page.get_by_text("0 rows: this query matches no nodes.").wait_for()
    write(page, 'query w() { insert Person { handle: "x", name: "x" } }')
    page.get_by_text("You are looking at the past, which nobody can change.").wait_for()
    assert page.get_by_role("button", name="Write to main").is_disabled()
    page.get_by_role("button", name="Back to now").click()
    write(page, 'query q() { match { $p: Person { handle: "late" } } return { $p } }')
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f".result {DRAWN}")
    page.go_back()
    page.get_by_text("You are looking at the tag before, read only.").wait_for()


def test_a_link_with_a_mutation_fills_the_editor_and_writes_only_when_agreed_to(visits):
    sent = []
    page = open_query(visits, 'query w() { insert Person { handle: "linked", name: "Linked" } }')
    page.on("request", lambda request: sent.append(request.url))
    page.get_by_role("button", name="Write to main").wait_for()
    page.keyboard.press("Control+Enter")
    page.locator("dialog").get_by_text("Write to main?").wait_for()
    assert not any(url.endswith("/mutate") for url in sent)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Write to main").click()
    page.locator("dialog").get_by_role("button", name="Write to main").click()
    page.get_by_text("1 node and 0 edges written to main.").wait_for()


def test_the_keyboard_alone_leads_to_an_expanded_node(visits):
    page = visits.page()
    page.wait_for_selector(DRAWN)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.getAttribute('role')") == "application":
            break
    before = shown(page)[0]
    page.keyboard.press("ArrowRight")
    assert "is chosen" in page.locator(".stage").get_attribute("aria-label")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "before => +document.querySelector('.scene').dataset.nodes > before", arg=before
    )
    page.keyboard.press("Control+z")
    page.wait_for_selector(f".scene[data-nodes='{before}']")
    page.keyboard.press("Control+k")
    page.keyboard.type("person p7")
    page.locator(".found li", has_text="Person 7").wait_for()


def test_texts_are_there_again_and_forgotten_altogether(visits):
    page = open_query(visits, COUNTS)
    page.wait_for_function("() => Object.keys(localStorage).some((key) => key.endsWith(':tabs'))")
    again = visits.page("#/query", context=visits.contexts[0])
    again.locator(".cm-content", has_text="counts").wait_for()
    again.get_by_role("button", name="Theme, keys and what is kept").click()
    again.evaluate("() => window.addEventListener('beforeunload', () => 0)")
    again.get_by_role("button", name="Forget all texts and runs").click()
    again.wait_for_function("() => !(localStorage['omnigraph:theme'] ?? '').length")
    again.wait_for_selector(".cm-content")
    assert "counts" not in again.locator(".cm-content").inner_text()


def test_a_stored_query_has_a_form_and_a_picture(visits):
    page = visits.page("#/stored")
    page.get_by_label("$handle").fill("p0")
    page.keyboard.press("Enter")
    page.wait_for_selector(DRAWN)
    assert "3 rows" in page.locator(".said").inner_text()
    assert shown(page)[0] == 3


@pytest.mark.parametrize("fragment", ["#/nowhere", "#/query?text=" + "x" * 100_000, "#/%00?%ff"])
def test_odd_fragments_lead_somewhere(visits, fragment):
    page = visits.page(fragment)
    page.wait_for_selector("main")
    page.wait_for_selector(".nav")


def test_a_branch_that_is_not_there_is_said_in_words(visits):
    visits.expected = ("404 (Not Found)",)
    page = visits.page("#/overview?branch=gone")
    page.locator(".failure", has_text="gone").wait_for()
    page.locator(".failure", has_text="choose another branch").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", ["overview", "query", "schema", "stored"])
def test_every_view_is_accessible(visits, view, theme):
    page = visits.page(f"#/{view}", color_scheme=theme)
    page.wait_for_selector("main")
    if view == "overview":
        page.wait_for_selector(DRAWN)
    if view == "schema":
        page.wait_for_selector(".box-of")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    grave = [
        (each["id"], [node["html"][:160] for node in each["nodes"]][:3])
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
    ]
    assert grave == []


@pytest.mark.parametrize("view", ["overview", "query", "schema", "stored"])
def test_a_narrow_window_keeps_everything_in_sight(visits, view):
    page = visits.page(f"#/{view}", viewport={"width": 360, "height": 740})
    page.wait_for_selector("main")
    page.wait_for_selector(".nav a[aria-current=page]")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


def test_a_server_that_is_gone_is_said_and_what_was_typed_stays(visits, place):
    with start_explorer(place / "g.omni", home=place) as fresh:
        visits.explorer = fresh
        page = visits.page(f"#code={fresh.code}", signed_in=False)
        page.wait_for_selector(DRAWN)
        page.get_by_role("link", name="Query").click()
        write(page, COUNTS)
    visits.expected = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    page.keyboard.press("Control+Enter")
    page.get_by_text("The server does not answer.").first.wait_for()
    assert "counts" in page.locator(".cm-content").inner_text()

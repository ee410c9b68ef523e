"""The explorer in a browser: the newcomer's minute, queries and their answers, and pictures."""

import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.explorer.conftest import FIND, MARKUP
from tests.explorer.looking import COUNTS, DRAWN, find, go, link, places, run, shown, write

AXE = Path(__file__).parent / "axe-core" / "axe.min.js"
VIEWS = "overview", "query", "schema", "stored"


def test_the_minute_of_a_newcomer(visits, explorer):
    code = explorer.fresh_code()
    page = visits.page(f"#code={code}", signed_in=False)
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
    page.wait_for_selector(".all .tr")

    page.reload()
    page.wait_for_selector(".cm-content")
    assert "most_" in page.locator(".cm-content").inner_text()
    second = visits.page(context=visits.contexts[0])
    second.wait_for_selector(DRAWN)
    stored = page.evaluate("() => JSON.stringify(localStorage)")
    assert code not in stored
    assert "token" not in stored

    # The code is used up, so a browser that has never been here is asked for a new one.
    visits.expected = ("401 (Unauthorized)",)
    stranger = visits.page(f"#code={code}", signed_in=False)
    stranger.get_by_text("This explorer belongs to whoever started it").wait_for()
    assert "code" not in stranger.url


def test_a_node_is_expanded_to_all_its_neighbours_and_back(visits):
    page = visits.page(link('query club() { match { $c: Club { slug: "large" } } return { $c } }'))
    page.wait_for_selector(".cm-content")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f".result {DRAWN}")
    assert shown(page) == (1, 0)
    page.mouse.click(*places(page)["Club", "large"])
    show, undo = page.locator(".near button"), page.get_by_role("button", name="Undo")
    for nodes, label in ((101, "More"), (201, "More"), (251, "Shown")):
        show.click()
        page.wait_for_selector(f".scene[data-nodes='{nodes}'][data-edges='{nodes - 1}']")
        page.locator(".near button", has_text=label).wait_for()
    undo.click()
    page.wait_for_selector(".scene[data-nodes='201']")
    page.locator(".near button", has_text="More").wait_for()
    page.locator(".inspect").get_by_role("button", name="Collapse").click()
    page.wait_for_selector(".scene[data-nodes='1'][data-edges='0']")
    page.locator(".near button", has_text="Show").wait_for()
    undo.click()
    page.wait_for_selector(".scene[data-nodes='201'][data-edges='200']")
    show.click()
    page.wait_for_selector(".scene[data-nodes='251'][data-edges='250']")

    # The list has the same nodes and actions, and a filter is a step like any other.
    page.get_by_role("button", name="List").click()
    page.locator(".nodes li", has_text="Member 17").get_by_role("button", name="Hide").first.click()
    page.wait_for_selector(".scene[data-nodes='250'][data-edges='249']")
    page.locator(".nodes li button", has_text="MemberOf").first.click()
    page.locator(".inspect[aria-label^=MemberOf]").get_by_text("Ends").wait_for()
    # The panel covers no button of the list; Escape closes it.
    hide = page.locator(".nodes li").get_by_role("button", name="Hide").first.bounding_box()
    assert hide["x"] + hide["width"] <= page.locator(".inspect").bounding_box()["x"]
    page.locator(".inspect").get_by_role("button", name="Close").press("Escape")
    page.locator(".inspect").wait_for(state="detached")
    page.get_by_label("Filter the picture").fill("handle=m018")
    page.wait_for_selector(".scene[data-nodes='1'][data-edges='0']")
    for nodes in (250, 251):
        undo.click()
        page.wait_for_selector(f".scene[data-nodes='{nodes}'][data-edges='{nodes - 1}']")
    page.get_by_role("button", name="Captions and sizes").click()
    page.locator(".caption-of", has_text="Person").locator("select").select_option("handle")
    page.locator(".nodes li", has_text="m017").first.wait_for()


def test_the_four_forms_of_an_answer_agree(visits):
    page = visits.page(link(COUNTS))
    page.wait_for_selector(".cm-content")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f".result {DRAWN}")
    assert shown(page)[0] == 13
    assert page.locator(".said").inner_text().startswith("13 nodes, 26 edges matched · 13 rows")
    page.keyboard.press("Alt+2")
    page.locator(".all .tr").nth(12).wait_for()
    assert page.locator(".all .tr").count() == 13
    page.keyboard.press("Alt+3")
    assert page.locator(".json").inner_text().startswith("▾rows [13]")
    page.keyboard.press("Alt+4")
    page.get_by_text("expand $a -Knows-> $b: Person").wait_for()

    # Rows and nodes point at each other; rows are chosen and opened by keys.
    run(page, "query all() { match { $p: Person } return { $p, $p.age as age } }", drawn=False)
    page.keyboard.press("Alt+2")
    page.locator(".said", has_text="264 rows").wait_for()
    assert page.locator(".all .tr").count() < 100
    page.locator(".table").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.wait_for_selector(".tr.chosen[aria-rowindex='3']")
    page.keyboard.press("Enter")
    second = json.loads(page.locator("dialog pre").inner_text())
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+1")
    page.wait_for_selector(f".result {DRAWN}")
    page.keyboard.press("Alt+2")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    lines = Path(download.value.path()).read_text("utf-8").splitlines()
    assert lines[0] == "p,age"
    assert lines[2].startswith(second["p"])
    assert len(lines) == 265

    page.get_by_label("Filter these rows").fill("p11")
    page.get_by_text("1 of 264 rows").wait_for()
    few = "query few() { match { $p: Person $p.age > 28 $p.age < 32 } return { $p } order { $p.age } }"
    run(page, few, drawn=False)
    page.locator(".said", has_text=re.compile(r"^3 rows")).wait_for()
    page.keyboard.press("Alt+1")
    page.wait_for_selector(f".result {DRAWN}")
    page.mouse.click(*places(page)["Person", "p10"])
    page.wait_for_selector(".inspect")
    page.keyboard.press("Alt+2")
    page.wait_for_selector(".tr.named[aria-rowindex='3']")
    run(page, 'query no() { match { $p: Person { name: "nobody" } } return { $p } }', drawn=False)
    page.get_by_text("Nothing is left after").wait_for()


def test_the_editor_helps(visits):
    page = visits.page("#/query")
    page.wait_for_selector(".cm-content")
    write(page, "// 😀🎉\nquery q() { match { $a: Person  $a knowz $b } return { $a } }")
    fault = page.locator(".cm-lintRange-error")
    fault.wait_for()
    assert fault.all_inner_texts() == ["knowz"]
    page.locator(".cm-content").focus()
    page.keyboard.press("F8")
    page.get_by_text("did you mean `knows`?").first.wait_for()
    # The message does not begin with what stands below it, the name of the rule.
    told = page.locator(".cm-diagnostic").first.inner_text()
    assert re.fullmatch(r"there is .*\n+T\d+", told, re.DOTALL), told

    write(page, "query q() { match { $p knows $o  $c: Club } return { $c")
    page.keyboard.type(".")
    page.locator(".cm-tooltip-autocomplete li", has_text="slug").wait_for()
    offered = page.locator(".cm-tooltip-autocomplete .cm-completionLabel").all_inner_texts()
    assert sorted(offered) == ["slug", "title"]
    page.keyboard.press("Escape")

    # Typing over a selection, by key and by key that embraces it, sets no style: `visits` would tell.
    write(page, "query long_word() { }")
    page.locator(".cm-content").press("Control+Home")
    for _ in range(5):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.type("Q")
    page.locator(".cm-line", has_text=re.compile(r"^Q long_word\(\) \{ \}$")).wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.type("(")
    page.locator(".cm-line", has_text=re.compile(r"^\(Q long_word\(\) \{ \}\)$")).wait_for()

    # Several queries: the one at the cursor runs.
    two = "query one() { match { $c: Club } return { $c } }\n"
    run(page, two + "query two() { match { $p: Person } return { $p } }")
    page.locator(".said", has_text="264 rows").wait_for()
    page.locator(".cm-content").press("Control+Home")
    page.keyboard.press("Control+Enter")
    page.locator(".said", has_text="1 row").wait_for()

    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a .gq file").click()
    assert download.value.suggested_filename == "one.gq"
    saved = Path(download.value.path()).read_text("utf-8")
    assert saved.startswith(two)
    page.get_by_label("Open a .gq file").set_input_files(
        {"name": "other.gq", "mimeType": "text/plain", "buffer": COUNTS.encode()}
    )
    page.locator(".cm-content", has_text="counts").wait_for()


def test_parameters_are_checked_before_anything_is_sent(visits):
    sent = []
    page = visits.page(link(FIND, {"handle": "p0", "least": "x"}))
    page.wait_for_selector(".cm-content")
    page.on("request", lambda request: sent.append(request.url))
    page.keyboard.press("Control+Enter")
    page.get_by_text("least is a whole number").wait_for()
    assert not any(url.endswith("/query") for url in sent)
    page.get_by_label("$least").fill("")
    page.keyboard.press("Enter")
    page.wait_for_selector(f".result {DRAWN}")
    assert any(url.endswith("/query") for url in sent)

    write(page, "query by($l: String) { match { $p: Person { level: $l } } return { $p } }")
    choice = page.get_by_label("$l")
    assert choice.locator("option").all_inner_texts() == ["choose", "guest", "member"]
    choice.select_option("member")
    page.locator(".cm-content").press("Control+Enter")
    page.locator(".said", has_text="12 rows").wait_for()

    # What only the server can judge is marked when it has answered.
    visits.expected = ("400 (Bad Request)",)
    write(page, "query by($at: DateTime) { match { $p: Person  $p.age > 1 } return { $p } }")
    page.get_by_label("$at").fill("2026-99-99T00:00")
    page.keyboard.press("Enter")
    page.locator("input[aria-invalid=true]").wait_for()


def test_markup_of_the_graph_is_text_everywhere(visits):
    page = visits.page("#/query")
    page.wait_for_selector(".cm-content")
    run(
        page,
        'query q() { match { $p: Person { handle: "evil" } } return { $p, $p.name as name, $p.site as site } }',
    )
    page.mouse.click(*places(page)["Person", "evil"])
    page.locator(".inspect h2", has_text=MARKUP).wait_for()
    page.locator(".inspect dd", has_text="javascript:alert(1)").wait_for()
    assert page.locator(".props a").count() == 0
    page.keyboard.press("Alt+2")
    page.locator(".all .tr", has_text=MARKUP).wait_for()
    page.keyboard.press("Alt+3")
    assert MARKUP in json.loads(page.locator(".json .string").nth(1).inner_text())
    # A refusal names what it refuses.
    visits.expected = ("404 (Not Found)",)
    go(page, f"#/overview?{urlencode({'branch': MARKUP})}")
    page.locator(".failure", has_text=MARKUP).wait_for()
    page.locator(".target", has_text=MARKUP).wait_for()
    assert page.locator("img").count() == 0


def test_a_stored_query_has_a_form_and_a_picture(visits):
    page = visits.page("#/stored")
    page.get_by_label("$handle").fill("p0")
    page.keyboard.press("Enter")
    page.wait_for_selector(DRAWN)
    assert "3 rows" in page.locator(".said").inner_text()
    assert shown(page)[0] == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_accessible_and_fits(visits, theme):
    page = visits.page("#/overview", color_scheme=theme)
    page.wait_for_selector(DRAWN)
    page.evaluate(AXE.read_text("utf-8"))
    for view in VIEWS:
        go(page, f"#/{view}")
        page.wait_for_selector(f".nav a[href='#/{view}'][aria-current=page]")
        page.wait_for_selector({"schema": ".box-of", "query": ".cm-content"}.get(view, "main"))
        found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        grave = [
            (each["id"], [node["html"][:160] for node in each["nodes"]][:3])
            for each in found["violations"]
            if each["impact"] in {"serious", "critical"}
        ]
        assert grave == [], view


def test_a_narrow_window_and_a_large_zoom_keep_everything_in_reach(visits):
    page = visits.page("#/overview")
    page.wait_for_selector(DRAWN)
    # 640 by 400 is what a window of 1280 by 800 has at 200 %.
    for width, height in ((360, 740), (640, 400)):
        page.set_viewport_size({"width": width, "height": height})
        for view in VIEWS:
            go(page, f"#/{view}")
            page.wait_for_selector(f".nav a[href='#/{view}'][aria-current=page]")
            page.wait_for_selector("main")
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        go(page, "#/query")
        run(page, COUNTS, drawn=False)
        page.get_by_role("tab", name="Graph").click()
        page.wait_for_selector(f".result {DRAWN}")
        page.get_by_role("tab", name="Table").click()
        page.locator(".all .tr").first.click()
        find(page, "person p7")
        page.locator(".found li", has_text="Person 7").wait_for()
        page.keyboard.press("Escape")

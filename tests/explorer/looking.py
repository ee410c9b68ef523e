"""What tests do with a page of the explorer: write queries, and look at pictures."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

DRAWN = ".scene[data-settled=true]:not([data-nodes='0'])"
COUNTS = "query counts() {\n  match { $a: Person  $a knows $b }\n  return { $b.name as name, count($a) as n }\n}\n"


def shown(page: Any) -> tuple[int, int]:
    """How many nodes and edges the picture has."""
    scene = page.locator(".scene").first
    return int(scene.get_attribute("data-nodes")), int(scene.get_attribute("data-edges"))


def places(page: Any) -> dict[tuple[str, str], tuple[float, float]]:
    """Where the nodes of the picture lie in the window, by type and id."""
    box = page.locator(".stage").bounding_box()
    found = json.loads(page.locator(".scene").get_attribute("data-places"))
    return {(kind, name): (box["x"] + x, box["y"] + y) for kind, name, x, y in found}


def write(page: Any, text: str) -> None:
    """Replace what the editor has."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def link(
    text: str, params: dict[str, str] | None = None, view: str = "query", **target: str
) -> str:
    """The fragment of a link with a query."""
    return f"#/{view}?{urlencode({**target, 'text': text, 'params': json.dumps(params or {})})}"


def run(page: Any, text: str, *, drawn: bool = True) -> None:
    """Write a query, run it, and wait for its picture, if it has one."""
    write(page, text)
    page.keyboard.press("Control+Enter")
    if drawn:
        page.wait_for_selector(f".result {DRAWN}")


def ask(page: Any, method: str, path: str, body: object = None, token: str | None = None) -> int:
    """Send a request by hand from the page; return the status of its answer."""
    return int(
        page.evaluate(
            """async ([method, path, body, token]) => {
                const headers = {"content-type": "application/json"};
                if (token !== null) headers.authorization = `Bearer ${token}`;
                return (await fetch(path, {method, headers, body: body && JSON.stringify(body)})).status;
            }""",
            [method, path, body, token],
        )
    )


def find(page: Any, text: str) -> None:
    """Open the field that finds anything, and type into it."""
    page.keyboard.press("Control+k")
    page.wait_for_selector(".finds:focus")
    page.keyboard.type(text)


def go(page: Any, fragment: str) -> None:
    """Follow a link within the page, without loading it anew."""
    page.evaluate("fragment => { location.hash = fragment; }", fragment)


def requests_under_way(page: Any) -> set[Any]:
    """The requests of the page that are not answered yet, from now on."""
    waiting: set[Any] = set()
    # Playwright puts attributes on a listener, which a built-in method refuses: hence the functions.
    page.on("request", lambda request: waiting.update((request,)))
    for event in ("requestfinished", "requestfailed"):
        page.on(event, lambda request: waiting.difference_update((request,)))
    return waiting


def wait_until_quiet(page: Any, under_way: set[Any]) -> None:
    """Wait until all requests are answered, and what they brought is shown."""
    while under_way:
        page.wait_for_timeout(10)
    page.evaluate("() => 0")

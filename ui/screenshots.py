"""Make the pictures of docs/user/explorer.md: `./dev ui --screenshots`.

A real browser looks at a real graph, the research library of the examples, through `omnigraph ui`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "research_library"
PICTURES = ROOT / "docs" / "user" / "pictures"
DRAWN = ".scene[data-settled=true]:not([data-nodes='0'])"
Theme = Literal["light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")


def main() -> int:
    """Make the graph, serve it, and look at it."""
    browser = shutil.which("chromium")
    if browser is None:
        print("needs chromium; on Debian: apt-get install chromium", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        make = [sys.executable, str(EXAMPLE / "run.py"), "--papers", "240", "--place", place]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        command = [sys.executable, "-m", "omnigraph", "ui", f"{place}/library.omni", "--no-open"]
        more = ["--json", "--port", "0", "--as", "ines", "--queries", str(EXAMPLE)]
        with subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True) as server:
            try:
                url = json.loads(first_document(server))["url"]
                look(url, browser)
            finally:
                server.terminate()
    return 0


def first_document(server: subprocess.Popen[str]) -> str:
    """Read the JSON that tells where the server is."""
    text = ""
    assert server.stdout is not None
    for line in server.stdout:
        text += line
        if line.startswith("}"):
            break
    return text


def look(url: str, executable: str) -> None:
    """Go through the views in both themes."""
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        kept = None
        for theme in THEMES:
            kept = take_all(browser, url, theme, kept)
        browser.close()


def take_all(browser: Browser, url: str, theme: Theme, kept: Any) -> Any:
    """Take the pictures of one theme; the first visit signs in, and hands its session on."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800},
        color_scheme=theme,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    page = context.new_page()
    if kept is not None:
        page.goto(url.partition("#")[0])
        page.evaluate("text => sessionStorage.setItem('omnigraph:session', text)", kept)
    page.goto(url if kept is None else url.partition("#")[0])
    page.wait_for_selector(DRAWN)
    take(page, "overview", theme)
    open_node(page)
    take(page, "node", theme)
    page.get_by_role("button", name="Which Author wrote which Paper").click()
    page.wait_for_selector(f".result {DRAWN}")
    take(page, "query", theme)
    page.get_by_role("tab", name="Table").click()
    take(page, "table", theme)
    page.get_by_role("link", name="Schema").click()
    page.wait_for_selector(".box-of")
    take(page, "schema", theme)
    page.get_by_role("link", name="Stored queries").click()
    take(page, "stored", theme)
    kept = page.evaluate("() => sessionStorage.getItem('omnigraph:session')")
    context.close()
    return kept


def open_node(page: Page) -> None:
    """Choose the node with the most edges."""
    page.locator(".stage").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".inspect .near li")
    page.wait_for_selector(".inspect .came li")


def take(page: Page, name: str, theme: Theme) -> None:
    """Take one picture, once nothing moves any more."""
    page.wait_for_timeout(600)
    page.screenshot(path=PICTURES / f"explorer-{name}-{theme}.png")


if __name__ == "__main__":
    sys.exit(main())

"""A real browser before a real server; a test fails on anything that the page or the browser complains about."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

import omnigraph as og
from tests.explorer.running import Explorer, start_explorer, terminal

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
MARKUP = '<img src=x onerror="alert(1)">'
"""A text that would run if it were taken for markup."""

SCHEMA = """
node Person @description("Somebody") {
  handle: String @key
  name: String @index
  age: I32?
  level: enum(guest, member)?
  site: String?
}
node Club { slug: String @key  title: String }
edge Knows: Person -> Person { since: Date? }
edge MemberOf: Person -> Club
"""
FIND = """query known($handle: String, $least: I32?) @description("Whom somebody knows") {
  match { $me: Person { handle: $handle }  $me knows $other }
  return { $other, $other.name as name }
}
"""


def records() -> Iterator[dict[str, Any]]:
    """Twelve people who know each other, a club of 250, and names that are markup."""
    for at in range(12):
        data = {"handle": f"p{at}", "name": f"Person {at}", "age": 20 + at, "level": "member"}
        yield {"type": "Person", "data": data}
        yield {"edge": "Knows", "from": f"p{at}", "to": f"p{(at + 1) % 12}"}
        yield {"edge": "Knows", "from": f"p{at}", "to": f"p{(at + 5) % 12}"}
    yield {"type": "Club", "data": {"slug": "large", "title": "The large club"}}
    for at in range(250):
        yield {"type": "Person", "data": {"handle": f"m{at:03}", "name": f"Member {at}"}}
        yield {"edge": "MemberOf", "from": f"m{at:03}", "to": "large"}
    hostile = {"handle": "evil", "name": MARKUP, "site": "javascript:alert(1)"}
    yield {"type": "Person", "data": hostile}
    yield {"edge": "Knows", "from": "p0", "to": "evil"}
    yield {"edge": "Knows", "from": "evil", "to": "evil"}


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a graph, whose state before the last insert is tagged, and stored queries."""
    place = tmp_path_factory.mktemp("explorer")
    with og.init(place / "g.omni", SCHEMA) as graph:
        graph.load(list(records()))
        graph.tags.create("before")
        graph.load([{"type": "Person", "data": {"handle": "late", "name": "Latecomer"}}])
        aged = 'query aged() { update Person set { age: 77 } where handle = "late" }'
        graph.mutate(aged, actor="bea")
        graph.branches.create("side")
    (place / "queries").mkdir()
    (place / "queries" / "known.gq").write_text(FIND)
    return place


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel of this source installs."""
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(place / "unpacked")
    return place / "unpacked"


@pytest.fixture(scope="session")
def explorer(place: Path, installed: Path) -> Iterator[Explorer]:
    """`omnigraph ui` of the wheel on that graph, signed in to, at a terminal whose Enter makes new links."""
    flags = "--as", "ines", "--queries", place / "queries"
    with (
        terminal() as (press_enter, stdin),
        start_explorer(
            place / "g.omni", *flags, home=place, stdin=stdin, package=installed
        ) as running,
    ):
        running.told["token"] = running.token()
        running.press_enter = press_enter
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The browser of the system, started once for a file: while it runs, no test can run a loop of asyncio."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        started.close()


class Server(Protocol):
    """Whatever serves the explorer."""

    @property
    def base(self) -> str:
        """Its address, without a slash at the end."""


@dataclass
class Visits:
    """Pages of one test, and everything they complained about."""

    browser: Any
    explorer: Server
    complaints: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    contexts: list[Any] = field(default_factory=list)

    def context(self, *, signed_in: bool = True, **more: Any) -> Any:
        """A browser that has never been here; signed in, it keeps the token of ``explorer`` in its tabs."""
        options = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}
        made = self.browser.new_context(
            **{**options, "locale": "en-GB", "timezone_id": "UTC", **more}
        )
        made.add_init_script(
            "document.addEventListener('securitypolicyviolation', "
            "e => console.error('CSP', e.violatedDirective, e.sample, e.target?.outerHTML?.slice(0, 300)))"
        )
        if signed_in and isinstance(self.explorer, Explorer):
            session = {
                "token": self.explorer.told["token"],
                "actor": "ines",
                "graph": "default",
                "mode": "read-write",
            }
            text = json.dumps(json.dumps(session))
            made.add_init_script(f"sessionStorage.setItem('omnigraph:session', {text})")
        made.route(lambda url: not url.startswith(self.explorer.base), self._refuse)
        made.set_default_timeout(120_000)
        self.contexts.append(made)
        return made

    def _refuse(self, route: Any) -> None:
        self.complaints.append(f"request to {route.request.url}")
        route.abort()

    def page(self, fragment: str = "", context: Any = None, **more: Any) -> Any:
        """Open the explorer at a fragment."""
        page = (context or self.context(**more)).new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("response", self._response)
        page.goto(f"{self.explorer.base}/ui/{fragment}")
        return page

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def _response(self, response: Any) -> None:
        if response.status >= 500:
            self.complaints.append(f"{response.status} of {response.url}")

    def unexpected(self) -> list[str]:
        """What nobody asked for. A server on a busy machine may refuse a read for now: a page asks again."""
        expected = (*self.expected, "429 (Too Many Requests)")
        return [each for each in self.complaints if not any(part in each for part in expected)]


@pytest.fixture
def visits(browser: Any, explorer: Explorer) -> Iterator[Visits]:
    """Pages for a test; it fails if any of them complains."""
    made = Visits(browser, explorer)
    yield made
    for context in made.contexts:
        context.close()
    assert made.unexpected() == []

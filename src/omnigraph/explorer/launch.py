"""`omnigraph ui`: a server for one graph in this process, and links to its explorer.

The server is that of `omnigraph-server`, on a loopback address, with one token that lives as long as the
process. A graph has the same port every time, so that the browser knows its page again.
"""

from __future__ import annotations

import socket
import sys
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.errors import StorageError
from omnigraph.explorer.forwarding import ForwardingPage, open_in_browser, why_no_browser
from omnigraph.explorer.page_files import load_ahead
from omnigraph.explorer.sign_in import Mode, SignIn, Visitor
from omnigraph.policy import Action, Checker, Decision, Question
from omnigraph.server.figures import Figures
from omnigraph.server.hosts import Authority, authority_of
from omnigraph.server.process.boot import Personal
from omnigraph.server.process.boot_data import read_boot_data
from omnigraph.server.process.flags import DEFAULT_ID, Options
from omnigraph.server.process.one_process import run
from omnigraph.server.process.ports import bind
from omnigraph.server.process.serving import DrainTimes, Signals

HOST: Final = "127.0.0.1"
_FIRST_PORT: Final = 20_000
_PORTS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreOptions:
    """What `omnigraph ui` was asked for. ``uri`` is absolute; ``port`` 0 is any that is free."""

    uri: str
    actor: str | None
    mode: Mode
    port: int | None
    opens: bool
    queries: Path | None = None
    allowed_hosts: tuple[Authority, ...] = ()


@dataclass(frozen=True, slots=True)
class Announcements:
    """Where ``explore`` tells what happens: ``link`` gets every link, ``note`` words for the person."""

    link: Callable[[str], None]
    note: Callable[[str], None]


class ReadOnly:
    """A policy under which everybody reads and exports, and nobody does anything else.

    Stored queries may write, so they are not run, either: their texts can be.
    """

    def check(self, question: Question) -> Decision:
        """Allow reading and exporting."""
        allowed = question.action in {Action.READ, Action.EXPORT}
        return Decision(
            allowed=allowed,
            message="" if allowed else "the explorer was started for reading only",
        )


def port_of(uri: str) -> int:
    """Return the port that the explorer of a graph has, if it is free."""
    return _FIRST_PORT + zlib.crc32(uri.encode("utf-8", "surrogateescape")) % _PORTS


def explore(wanted: ExploreOptions, told: Announcements) -> int:
    """Serve the explorer until asked to end; return the exit code."""
    visitor = Visitor(wanted.actor or _unnamed(wanted.mode), DEFAULT_ID, wanted.mode)
    sign_in = SignIn(visitor)
    options = _options(wanted)
    data = read_boot_data(options, None)
    checker: Checker | None = ReadOnly() if wanted.mode == "read-only" else None
    if checker is not None and wanted.queries is not None:
        told.note("stored queries are not run for reading only; leave out --queries, or write")
    signals = Signals()
    with signals.handled(), _listener(wanted, told) as listener:
        bound = authority_of(*listener.getsockname()[:2])
        links = Links(f"http://{bound}/ui/", sign_in, told)
        signals.at_last(links.forget)
        try:
            return run(
                options,
                data,
                listener,
                bound=bound,
                asking=signals,
                ready=lambda: links.begin(opens=wanted.opens),
                figures=Figures(),
                personal=Personal(sign_in, checker),
            )
        finally:
            links.forget()


class Links:
    """The links that are printed, each with a code of its own, and the page that leads to the first."""

    def __init__(self, address: str, sign_in: SignIn, told: Announcements) -> None:
        self._address = address
        self._sign_in = sign_in
        self._told = told
        self._page: ForwardingPage | None = None
        sign_in.used = self.forget

    def begin(self, *, opens: bool) -> None:
        """Print the first link and open it; from now on Enter prints another one."""
        url = self._print()
        load_ahead()
        if opens:
            self._open(url)
        if sys.stdin is not None and sys.stdin.isatty():
            threading.Thread(target=self._listen, daemon=True).start()

    def forget(self) -> None:
        """Remove the page that shows a link."""
        page, self._page = self._page, None
        if page is not None:
            page.remove()

    def _print(self) -> str:
        url = f"{self._address}#code={self._sign_in.new_code()}"
        self._told.link(url)
        return url

    def _open(self, url: str) -> None:
        why = why_no_browser()
        if why is None:
            try:
                self._page = ForwardingPage(url)
            except OSError as error:
                why = f"no page could be written ({error.strerror})"
            else:
                if open_in_browser(self._page.path.as_uri()):
                    return
                self.forget()
                why = "no browser was found"
        self._told.note(f"no browser was opened: {why}; open the link yourself")

    def _listen(self) -> None:
        """Print a fresh link for every line that is entered."""
        for _ in sys.stdin:
            self._print()


def _unnamed(mode: Mode) -> str | None:
    """A policy decides about actors only, so a reader without a name gets one; a writer stays without."""
    return DEFAULT_ID if mode == "read-only" else None


def _listener(wanted: ExploreOptions, told: Announcements) -> socket.socket:
    if wanted.port is not None:
        return bind(HOST, wanted.port, "--port")
    try:
        return bind(HOST, port_of(wanted.uri), "--port")
    except StorageError:
        told.note(
            f"port {port_of(wanted.uri)}, which the explorer of this graph usually has, is taken; it has "
            "another one this time"
        )
        return bind(HOST, 0, "--port")


def _options(wanted: ExploreOptions) -> Options:
    return Options(
        graphs=((DEFAULT_ID, wanted.uri),),
        host=HOST,
        port=0,
        unauthenticated=False,
        allowed_hosts=wanted.allowed_hosts,
        proxies=(),
        ending=DrainTimes(timeout=5),
        policies={},
        server_policy=None,
        queries={} if wanted.queries is None else {DEFAULT_ID: wanted.queries},
        agents=False,
        explorer=True,
        group_commit=True,
        workers=1,
        metrics=None,
    )

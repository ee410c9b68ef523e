"""The page on disk that leads the browser to a link.

The address on the command line of a browser is seen by every user of the machine, and the link has a code in
it. So the browser is given the path of a page that only this user can read.
"""

from __future__ import annotations

import html
import os
import sys
import tempfile
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Final

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>OmniGraph</title>
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"></head>
<body><p><a href="{url}">Open the explorer</a></p></body></html>
"""


class ForwardingPage:
    """A page of mode 0600 that leads to a link, until the link was used."""

    def __init__(self, url: str) -> None:
        """Write the page; ``OSError`` where that is not possible."""
        self._directory: Path | None = None
        if sys.platform == "linux":
            # Browsers in snaps read neither the temporary nor hidden directories.
            descriptor, name = tempfile.mkstemp(".html", "omnigraph-ui-", Path.home())
        else:
            self._directory = Path(tempfile.mkdtemp(prefix="omnigraph-ui-"))
            descriptor, name = tempfile.mkstemp(".html", dir=self._directory)
        self.path = Path(name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_PAGE.format(url=html.escape(url, quote=True)))

    def remove(self) -> None:
        """Remove the page, if it is still there."""
        with suppress(OSError):
            self.path.unlink()
        if self._directory is not None:
            with suppress(OSError):
                self._directory.rmdir()


def open_in_browser(target: str) -> bool:
    """Open an address or the path of a page; return whether a browser was found."""
    try:
        return webbrowser.open(target)
    except (webbrowser.Error, OSError):
        return False


def why_no_browser() -> str | None:
    """Return why no browser of this machine can be opened, or None."""
    if os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"):
        return "this terminal is on another machine"
    if sys.platform != "linux":
        return None
    if os.environ.get("WSL_DISTRO_NAME"):
        return "the browser of Windows cannot read the files of this system"
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "there is no display"
    return None

"""Writes that stop after validation, before anything moves, and are finished by a later step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from omnigraph import failpoints

WAIT_SECONDS = 2 * failpoints.PAUSE_LIMIT
"""A write that takes longer hangs; the case fails then."""

# The point at which a write of each operation stops: its files are staged, it holds no lock.
POINTS = {
    "load": "load.before_locks",
    "mutate": "mutation.before_locks",
    "merge": "branch_merge.before_locks",
    "revert": "revert.before_locks",
}


class PreparedWrite:
    """A write in a thread of its own, stopped at its point until ``finish`` is called."""

    def __init__(self, operation: str, write: Callable[[], Any]) -> None:
        self._write = write
        self._pause = failpoints.Pause()
        self._settled = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._armed = _POINTS_IN_USE.join(POINTS[operation], self._thread, self._stop)
        self._thread.start()
        if not self._settled.wait(WAIT_SECONDS):
            self.abandon()
            raise TimeoutError(f"{operation}: the write neither reached its point nor ended")

    def finish(self) -> Any:
        """Let the write go on, and return its result or raise its error."""
        self.abandon()
        if self._error is not None:
            raise self._error
        return self._result

    def abandon(self) -> None:
        """Let the write go on and wait for its end, whatever that is; a second call does nothing."""
        self._pause.resume()
        self._thread.join(WAIT_SECONDS)
        self._armed()
        if self._thread.is_alive():
            raise TimeoutError("a prepared write does not end")

    def _run(self) -> None:
        try:
            self._result = self._write()
        except BaseException as error:  # noqa: BLE001  (raised again in the thread of the case)
            self._error = error
        finally:
            self._settled.set()

    def _stop(self, name: str) -> None:
        # Only the first attempt stops: what a lost race runs again goes through.
        if not self._settled.is_set():
            self._settled.set()
            self._pause(name)


class _SharedPoints:
    """Failpoints at which several threads stop, each by an action of its own; all others pass."""

    def __init__(self) -> None:
        self._actions: dict[str, dict[threading.Thread, Callable[[str], None]]] = {}
        self._armed: dict[str, failpoints.Armed] = {}

    def join(
        self, name: str, thread: threading.Thread, action: Callable[[str], None]
    ) -> Callable[[], None]:
        """Have a thread run its action at a point; return the function that ends this."""
        self._actions.setdefault(name, {})[thread] = action
        if name not in self._armed:
            self._armed[name] = failpoints.arm(name, self._hit)

        def leave() -> None:
            self._actions[name].pop(thread, None)
            if not self._actions[name] and name in self._armed:
                self._armed.pop(name).disarm()

        return leave

    def _hit(self, name: str) -> None:
        action = self._actions[name].get(threading.current_thread())
        if action is not None:
            action(name)


_POINTS_IN_USE = _SharedPoints()

"""Two appliers in two processes, and one that is killed: what each of them is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from omnigraph.failpoints import FilePause
from tests.cli.running import environment

APPLY = ("cluster", "apply", "--config", ".", "--json")
MORE = "node Author {\n    name: String @key\n    born: I32?\n}\n"


class Applier:
    """`omnigraph cluster apply` in a process of its own, which stops at a failpoint."""

    def __init__(self, place, point, environ):
        pause = place / f"pause-{len(list(place.glob('pause-*.reached')))}"
        self.pause = FilePause(pause)
        armed = {"OMNIGRAPH_FAILPOINTS": f"{point}=pause:{pause}"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "omnigraph", *APPLY],
            cwd=place,
            env=environment(place / "home", {**environ, **armed}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        self.pause.wait_until_reached()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def go_on(self):
        """Let it end; return its document."""
        self.pause.resume()
        out, err = self.process.communicate(timeout=600)
        assert self.process.returncode == 0, err
        return json.loads(out)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(600)


def check_two_appliers(cluster, launcher, environ):
    """One works, the other names it; a lock of a killed one is told as such and only removed by force-unlock."""

    def run(*argv):
        return launcher.run(["cluster", *argv, "--config", ".", "--json"], cluster.path, environ)

    def refusal():
        refused = run("apply")
        (told,) = refused.json["diagnostics"]
        assert (refused.exit, told["code"]) == (1, "state_lock_held")
        assert refused.json["state_observations"]["lock_pid"] == one.process.pid
        return told["message"]

    assert run("import").exit == 0
    with Applier(cluster.path, "cluster.after_move", environ) as one:
        said = refusal()
        assert f"apply, process {one.process.pid}" in said
        assert "wait for it" in said
        assert one.go_on()["converged"]
    again = run("apply").json
    assert (again["converged"], again["state_written"]) == (True, False)

    cluster.write("library.pg", MORE)
    with Applier(cluster.path, "cluster.after_move", environ) as one:
        one.kill()
        said = refusal()
        assert "that process is gone" in said
        for command in ("plan", "refresh", "import"):
            assert run(command).exit == 1
        shown = run("status")
        seen = shown.json["state_observations"]
        assert (shown.exit, seen["locked"], seen["lock_operation"]) == (0, True, "apply")
        assert f"force-unlock {seen['lock_id']}" in said
        assert run("force-unlock", "01ARZ3NDEKTSV4RRFFQ69G5FAV").exit == 1
        assert refusal()
        assert run("force-unlock", seen["lock_id"]).json["lock_removed"]
    last = run("apply").json
    assert last["converged"]
    codes = [one["code"] for one in last["diagnostics"]]
    assert codes == ["cluster_recovery_rolled_forward"]
    assert [one["resource"] for one in last["changes"]] == []

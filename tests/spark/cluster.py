"""A standalone Spark cluster on this machine: one master and its workers, started for a test.

Everything comes from the pip package and listens on the loopback address only. Processes are ended
by their ids. On Linux they also end when the process that started them is gone, however it ended.
`with standalone_cluster(path) as cluster:` leaves logs in `path`; `with cluster.driver() as driver:` is a
process with a session on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.spark.sessions import QUICK_JAVA

START_SECONDS = 600
DRIVER_SECONDS = 600
QUICK = {f"spark.{part}.extraJavaOptions": QUICK_JAVA for part in ("driver", "executor")}

# Starting Spark and its executors takes longer than most jobs, so a driver runs many programs.
DRIVER = """
import contextlib, io, json, sys, traceback
from omnigraph.runner import session

session.EXECUTOR_SECONDS = 600.0  # executors start slowly on a busy machine
session.spark_session(None, json.loads(sys.argv[1]))
for line in sys.stdin:
    program, sys.argv[1:] = json.loads(line)
    printed, failure = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(program, "<driver>", "exec"), {"__name__": "__main__"})
    except BaseException:
        failure = traceback.format_exc()
    print(json.dumps([printed.getvalue(), failure]), flush=True)
"""


# Run before Spark's script: the kernel ends the process when the thread that started it is gone.
TIED = """
import ctypes, os, signal, sys

parent, core, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if core:
        os.sched_setaffinity(0, {int(core)})
if os.getppid() == parent:
    os.execv(command[0], command)
"""


@dataclass
class Cluster:
    """A running cluster; `master` is what to give to Spark."""

    directory: Path
    web: str = ""
    master: str = ""
    processes: list[subprocess.Popen] = field(default_factory=list)

    def state(self):
        """What the master tells about itself, its workers and applications."""
        # The machine's proxy is not for the loopback address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.web}/json/", timeout=10) as answer:
            return json.load(answer)

    @contextlib.contextmanager
    def driver(self, **conf):
        """A driver of this cluster, with settings of Spark under names with `_` for `.`."""
        settings = {f"spark.{name.replace('_', '.')}": value for name, value in conf.items()}
        driver = Driver(self, {**QUICK, **settings})
        try:
            yield driver
        finally:
            driver.end()

    def logs(self):
        """The end of every log, for a failure's message."""
        return "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-30:])
            for log in sorted(self.directory.glob("*.log"))
        )

    def executor_pids(self):
        """The Java processes that run executors of this cluster's workers."""
        return sorted(
            pid
            for worker in self.processes[1:]
            for pid in descendants(worker.pid)
            if b"CoarseGrainedExecutorBackend" in command_line(pid)
        )


class Driver:
    """A process with a session on the cluster; it runs programs, one after another."""

    def __init__(self, cluster: Cluster, conf: dict[str, str]) -> None:
        self.cluster = cluster
        self._conf = conf
        self._errors = cluster.directory / "driver.log"
        self._process: subprocess.Popen | None = None
        self._answered = True

    def start(self, program, *arguments):
        """Have a program run there; it finds the session as the one of its process."""
        if not self._answered:
            self.end()  # A test failed in between; its program may still run.
        if self._process is None:
            self._process = self._started()
        self._answered = False
        self._said = self._errors.stat().st_size
        self._process.stdin.write(json.dumps([program, [str(one) for one in arguments]]).encode())
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def answer(self):
        """What the program printed; its failure is ours."""
        assert self.answers_within(DRIVER_SECONDS), self._told()
        answer = self._process.stdout.readline()
        assert answer, self._told()
        self._answered = True
        printed, failure = json.loads(answer)
        assert failure is None, f"{failure}\n{self._told()}"
        return printed

    def run(self, program, *arguments):
        """Run a program to its end and return what it printed."""
        self.start(program, *arguments)
        return self.answer()

    def wait_until(self, condition):
        """Wait for something to happen while the program runs."""
        deadline = time.monotonic() + DRIVER_SECONDS
        while not condition():
            assert not self.answers_within(0.05), self.answer()
            assert time.monotonic() < deadline, self._told()

    def answers_within(self, seconds):
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def complaints(self):
        """What the last program wrote to its error stream."""
        return self._errors.read_bytes()[self._said :].decode()

    def end(self):
        """End the process, so that another driver gets the executors."""
        if self._process is None:
            return
        if not self._answered:
            self._process.kill()
        try:
            self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._process, self._answered = None, True

    def _started(self):
        with self._errors.open("ab") as errors:
            return subprocess.Popen(
                [*tied(), sys.executable, "-W", "error", "-c", DRIVER, json.dumps(self._conf)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={
                    **os.environ,
                    "OMNIGRAPH_SPARK_MASTER": self.cluster.master,
                },
            )

    def _told(self):
        return self.cluster.logs()


@contextlib.contextmanager
def standalone_cluster(
    directory: Path, workers: int = 2, cores: int = 1, memory: str = "1g", pins: Sequence[int] = ()
):
    """A master and its registered workers; all gone on leaving.

    With ``pins`` each worker has one core of the machine to itself, with its executor and their Python.
    """
    directory.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(directory)
    try:
        _start_master(cluster)
        for number in range(workers):
            _start_worker(cluster, number, cores, memory, pins[number] if pins else None)
        _wait(cluster, "workers to register", lambda: len(_alive_workers(cluster)) == workers)
        yield cluster
    finally:
        _stop(cluster)


def _start_master(cluster):
    log = cluster.directory / "master.log"
    # Port 0: the operating system chooses free ones, and the log says which.
    _start(
        cluster,
        log,
        "org.apache.spark.deploy.master.Master",
        *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
    )
    found = {}

    def told():
        for line in log.read_text("utf-8", "replace").splitlines():
            if "Starting Spark master at" in line:
                found["master"] = line.split(" at ")[-1].strip()
            if "'MasterUI' on port" in line:
                found["port"] = line.rsplit("port", 1)[1].strip(" .")
        return {"master", "port"} <= found.keys()

    _wait(cluster, "the master to start", told)
    cluster.master = found["master"]
    cluster.web = f"http://127.0.0.1:{found['port']}"


def _start_worker(cluster, number, cores, memory, pin):
    work = cluster.directory / f"worker-{number}"
    _start(
        cluster,
        cluster.directory / f"worker-{number}.log",
        "org.apache.spark.deploy.worker.Worker",
        *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
        *("--cores", str(cores), "--memory", memory, "--work-dir", str(work)),
        cluster.master,
        pin=pin,
    )


def _start(cluster, log, *command, pin=None):
    import pyspark

    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    variables = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(cluster.directory / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*tied(pin), script, *command],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=variables,
            start_new_session=True,
        )
    cluster.processes.append(process)


def tied(pin=None):
    """Begin the command of a process that ends with this one, and may have one core of its own."""
    return [sys.executable, "-IS", "-c", TIED, str(os.getpid()), "" if pin is None else str(pin)]


def _alive_workers(cluster):
    try:
        return [worker for worker in cluster.state()["workers"] if worker["state"] == "ALIVE"]
    except (urllib.error.URLError, TimeoutError):
        return []


def _wait(cluster, what, done):
    deadline = time.monotonic() + START_SECONDS
    while not done():
        ended = [process for process in cluster.processes if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise RuntimeError(f"waited in vain for {what}\n{cluster.logs()}")
        time.sleep(0.1)


def _stop(cluster):
    # Workers first, with their executors: a master that goes first makes them try to reconnect.
    for process in reversed(cluster.processes):
        children = descendants(process.pid)
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in children:
            if str(cluster.directory).encode() in command_line(pid) + _working_directory(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def leftovers(directory, seconds=300):
    """Processes that still run from or for this directory, after some time to end."""
    deadline = time.monotonic() + seconds
    while True:
        left = [
            int(place.name)
            for place in Path("/proc").glob("[0-9]*")
            if str(directory).encode() in command_line(place.name) + _working_directory(place.name)
        ]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def command_line(pid):
    """What the process was started with; nothing if there is none, or none any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _working_directory(pid):
    try:
        return os.fsencode(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return b""

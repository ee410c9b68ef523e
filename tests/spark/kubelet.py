"""A Kubernetes cluster on this machine for Spark: the API of `kubernetes_api`, and pods that are processes.

Each pod has an address of its own in 127.0.0.0/8, the environment, files and secrets that its specification
asks for, and the names of services. There are no containers: paths of the image are paths of this machine,
and what the entry point of Spark's image does with its arguments is done here.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

from omnigraph.runner.gateway import spark_home
from tests.spark.cluster import QUICK, Driver, descendants, tied
from tests.spark.kubernetes_api import NAMESPACE, Api, Refused

# Every job is small, so compiling its queries takes longer than running them.
QUICKLY = {
    **QUICK,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# Where Spark is in its own images.
IMAGE_HOME = str(Path("/", "opt", "spark"))
# What is not of the pod: Java and Python may need these of the machine.
INHERITED = ("PATH", "JAVA_HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


class Kubernetes:
    """A cluster whose pods all run one image: a map of the image's paths to paths here."""

    def __init__(self, directory, image):
        self.directory = directory
        self.image = {
            IMAGE_HOME: str(spark_home()),
            **{path: str(to) for path, to in image.items()},
        }
        self.api = Api(self.stop_pod)
        self.master = f"k8s://{self.api.url}"
        self.pods = {}
        self._addresses = itertools.count(1)
        self._net = f"127.{random.randrange(1, 255)}.{random.randrange(255)}"
        self._hosts = directory / "hosts"
        threading.Thread(target=self._follow, daemon=True).start()

    @contextlib.contextmanager
    def driver(self, settings):
        """A driver outside the cluster."""
        driver = Driver(self, {**QUICKLY, **settings})
        try:
            yield driver
        finally:
            driver.end()

    def names(self, role):
        """The pods of a role (`driver` or `executor`) that there are now."""
        found = self.api.objects.chosen("pods", f"spark-role={role}")
        return sorted(one["metadata"]["name"] for one in found)

    def kill(self, name):
        """End a pod's processes as the kernel does that has no memory left."""
        _kill(self.pods[name])

    def pod_at(self, port):
        """The pod whose processes hold the connection that comes from a port; None if it is no pod."""
        tables = (
            Path(f"/proc/net/{table}").read_text().splitlines()[1:] for table in ("tcp", "tcp6")
        )
        fields = (line.split() for line in itertools.chain.from_iterable(tables))
        sockets = {
            f"socket:[{one[9]}]" for one in fields if int(one[1].rpartition(":")[2], 16) == port
        }
        for name, process in list(self.pods.items()):
            if any(sockets & _open_files(pid) for pid in (process.pid, *descendants(process.pid))):
                return name
        return None

    def stop_pod(self, name):
        process = self.pods.get(name)
        if process is None or process.poll() is not None:
            with contextlib.suppress(Refused):
                self.api.objects.delete("pods", name)
            return
        self.api.objects.update("pods", name, _terminating)
        process.terminate()

    def logs(self):
        """The end of every log, for a failure's message."""
        return "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-40:])
            for log in sorted(self.directory.glob("*.log"))
        )

    def end(self):
        for process in self.pods.values():
            if process.poll() is None:
                _kill(process)
            process.wait()
        self.api.end()

    def _follow(self):
        for what, pod in self.api.objects.events_after(0, "pods", self.api.ended):
            if what == "ADDED":
                threading.Thread(target=self._run, args=[pod], daemon=True).start()

    def _run(self, pod):
        name, address = pod["metadata"]["name"], f"{self._net}.{next(self._addresses)}"
        # Spark makes the driver's pod before the files that it mounts; a pod waits for what it needs.
        while not self.api.ended.is_set():
            try:
                process = self._started(pod, address)
                break
            except Refused as missing:
                waiting = {"reason": "CreateContainerConfigError", "message": str(missing)}
                self._report(name, "Pending", address, {"waiting": waiting})
                time.sleep(0.2)
        else:
            return
        self._report(name, "Running", address, {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        code = process.wait()
        code = 128 - code if code < 0 else code
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}
        stopped = "deletionTimestamp" in self.api.objects.get("pods", name)["metadata"]
        self._report(name, "Failed" if code else "Succeeded", address, {"terminated": ended})
        if stopped:
            self.api.objects.delete("pods", name)

    def _report(self, name, phase, address, state):
        def change(pod):
            container = pod["spec"]["containers"][0]["name"]
            pod["status"] = {"phase": phase, "podIP": address, "hostIP": "127.0.0.1"}
            pod["status"]["startTime"] = "2026-01-01T00:00:00Z"
            ready = phase == "Running"
            status = {"name": container, "state": state, "ready": ready, "restartCount": 0}
            pod["status"]["containerStatuses"] = [status]
            return pod

        with contextlib.suppress(Refused):  # it may be gone
            self.api.objects.update("pods", name, change)
            self._write_hosts()

    def _started(self, pod, address):
        name = pod["metadata"]["name"]
        root = self.directory / "pods" / name
        places = {**self.image, **self._volumes(pod, root)}
        (container,) = pod["spec"]["containers"]
        variables = {key: os.environ[key] for key in INHERITED if key in os.environ}
        variables["HOME"] = "/nonexistent"  # as that of the image's user
        variables |= {"SPARK_HOME": str(spark_home()), "TMPDIR": str(root / "tmp")}
        for one in container.get("env", []):
            variables[one["name"]] = _here(self._value(one, pod, address), places)
        # The name service of the cluster.
        variables["JAVA_TOOL_OPTIONS"] = f"-Djdk.net.hosts.file={self._hosts}"
        self._write_hosts()
        arguments = [_here(one, places) for one in container.get("args", [])]
        work = root / "work"
        for place in (work, root / "tmp"):
            place.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{name}.log").open("ab") as log:
            self.pods[name] = subprocess.Popen(
                [*tied(), *_entry_point(arguments, variables)],
                cwd=work,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.pods[name]

    def _value(self, one, pod, address):
        source = one.get("valueFrom", {})
        if "fieldRef" in source:
            known = {"status.podIP": address, "metadata.name": pod["metadata"]["name"]}
            return known[source["fieldRef"]["fieldPath"]]
        if "secretKeyRef" in source:
            secret = self.api.objects.get("secrets", source["secretKeyRef"]["name"])
            return base64.b64decode(secret["data"][source["secretKeyRef"]["key"]]).decode()
        return one.get("value", "")

    def _volumes(self, pod, root):
        """Make the pod's volumes, and say where their mount paths are here."""
        made = {}
        for volume in pod["spec"].get("volumes", []):
            place = made[volume["name"]] = root / volume["name"]
            place.mkdir(parents=True, exist_ok=True)
            if "configMap" in volume:
                held = self.api.objects.get("configmaps", volume["configMap"]["name"])
                for item in volume["configMap"].get("items") or [
                    {"key": key, "path": key} for key in held["data"]
                ]:
                    text = _here(held["data"][item["key"]], self.image)
                    (place / item["path"]).write_text(text)
        (container,) = pod["spec"]["containers"]
        return {
            one["mountPath"]: str(made[one["name"]])
            for one in container.get("volumeMounts", [])
            if one["name"] in made
        }

    def _write_hosts(self):
        """Every service has the name that the cluster's DNS gives it, and leads to its pod."""
        lines = ["127.0.0.1 localhost", f"127.0.0.1 {os.uname().nodename}"]
        for service in self.api.objects.chosen("services"):
            selector = ",".join(f"{k}={v}" for k, v in service["spec"]["selector"].items())
            addresses = (
                pod["status"].get("podIP") for pod in self.api.objects.chosen("pods", selector)
            )
            name = f"{service['metadata']['name']}.{NAMESPACE}.svc"
            lines += [f"{address} {name}" for address in addresses if address]
        fresh = self._hosts.with_name(f"hosts-{threading.get_ident()}")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(self._hosts)


def _entry_point(arguments, variables):
    """The command that the image starts for these arguments."""
    role, *rest = arguments
    home = Path(variables["SPARK_HOME"])
    if role == "driver":
        bound = variables["SPARK_DRIVER_BIND_ADDRESS"]
        return [
            *(home / "bin" / "spark-submit", "--conf", f"spark.driver.bindAddress={bound}"),
            *("--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={bound}"),
            *("--deploy-mode", "client", *rest),
        ]
    assert role == "executor", arguments
    java = Path(variables["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in variables else "java"
    numbered = sorted(
        (key for key in variables if key.startswith("SPARK_JAVA_OPT_")),
        key=lambda key: int(key.rpartition("_")[2]),
    )
    memory = variables["SPARK_EXECUTOR_MEMORY"]
    given = {
        "driver-url": "SPARK_DRIVER_URL",
        "executor-id": "SPARK_EXECUTOR_ID",
        "cores": "SPARK_EXECUTOR_CORES",
        "app-id": "SPARK_APPLICATION_ID",
        "hostname": "SPARK_EXECUTOR_POD_IP",
        "resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "podName": "SPARK_EXECUTOR_POD_NAME",
    }
    return [
        shutil.which(java) or java,
        *(variables[key] for key in numbered),
        *(f"-Xms{memory}", f"-Xmx{memory}"),
        *("-cp", f"{variables.get('SPARK_CONF_DIR', home / 'conf')}:{home}/jars/*"),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *(word for name, key in given.items() for word in (f"--{name}", variables[key])),
    ]


def _here(text, places):
    """A text with the paths of the image, as paths of this machine."""
    paths = "|".join(re.escape(path) for path in sorted(places, key=len, reverse=True))
    return re.sub(paths, lambda found: places[found[0]], text)


def _open_files(pid):
    found = set()
    with contextlib.suppress(OSError):
        for held in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(held))
    return found


def _terminating(pod):
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return pod


def _kill(process):
    for pid in (*descendants(process.pid), process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def kubernetes(directory, image):
    """A running cluster; all its pods are gone on leaving."""
    directory.mkdir(parents=True, exist_ok=True)
    cluster = Kubernetes(directory, image)
    try:
        yield cluster
    finally:
        cluster.end()

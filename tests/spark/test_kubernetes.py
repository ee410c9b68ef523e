"""Kubernetes: the page's command as it stands, and a session outside; pods may die.

The cluster is `kubelet`: Spark's own part of the work is all real, its pods are processes here.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import threading
import zipfile
from pathlib import Path

import obstore
import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from omnigraph.runner.gateway import spark_home
from omnigraph.storage.objects.stores import open_bucket
from omnigraph.storage.store_kinds.s3_options import S3Options
from omnigraph.storage.uris import Root
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.sampling import runs_all
from tests.spark.cluster import leftovers
from tests.spark.kubelet import QUICKLY, kubernetes

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "user" / "deploy-spark.md"
SCHEMA = "node Person { name: String @key  age: I32? }"
# Two executors of one core, and only the memory that they need.
SMALLER = {
    "spark.executor.instances=4": "spark.executor.instances=2",
    "spark.executor.cores=2": "spark.executor.cores=1",
    "spark.executor.memory=4g": "spark.executor.memory=600m",
}

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8"),
    pytest.mark.usefixtures("_spark_here"),
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory, built_wheel):
    """What the image has in /usr/local/omnigraph: the wheel, its libraries, and the program."""
    place = tmp_path_factory.mktemp("image") / "omnigraph"
    (place / "bin").mkdir(parents=True)
    zipfile.ZipFile(built_wheel).extractall(place / "lib")
    shutil.copy(ROOT / "deploy" / "load.py", place)
    libraries = shlex.quote(sysconfig.get_path("purelib"))
    script = place / "bin" / "python"
    # Without `site` nothing reads the .pth file that leads to the sources.
    script.write_text(
        '#!/bin/sh\nhere=$(cd "$(dirname "$0")/.." && pwd)\n'
        f'PYTHONPATH=$here/lib:{libraries} exec {shlex.quote(sys.executable)} -S "$@"\n'
    )
    script.chmod(0o755)
    return place


@pytest.fixture
def cluster(tmp_path, environment):
    with kubernetes(tmp_path / "cluster", {"/usr/local/omnigraph": environment}) as running:
        yield running
    assert leftovers(running.directory) == []


@pytest.fixture
def store():
    server = S3Server().start()
    server.make_bucket("lake")
    yield server
    server.stop()


def the_pages_command(begins, names):
    """A command of the page's part on Kubernetes, with other names for what it names."""
    part = PAGE.read_text("utf-8").partition("\n## Kubernetes\n")[2].partition("\n## ")[0]
    (block,) = (
        text
        for text in re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
        if begins in text
    )
    command = block[block.index(begins) :]
    for name, other in names.items():
        assert name in command
        command = command.replace(name, other)
    return shlex.split(command.replace("\\\n", " "))


# Each task leaves a mark and holds on, so both executors have taken work when one is killed.
OUTSIDE = """
import json, sys
from pathlib import Path
import omnigraph as og
from omnigraph.runner.session import spark_session

uri, place = sys.argv[1], Path(sys.argv[2])

def held(batches):
    import os, pathlib, time
    import omnigraph
    pathlib.Path(place, f"task-{os.getpid()}").write_text(omnigraph.__file__)
    while not pathlib.Path(place, "go").exists():
        time.sleep(0.05)
    yield from batches

session = spark_session()
with og.open(uri) as graph:
    loaded = graph.load_nodes("Person", str(place / "people"), engine="spark")
columns = "name string, age int"
options = {"graph": uri, "type": "Person", "merge": "true"}
rows = session.range(0, 400, 1, 4).selectExpr("concat('p', id) AS name", "cast(id + 1 AS int) AS age")
rows.mapInArrow(held, columns).write.format("omnigraph").options(**options).mode("append").save()
stream = session.readStream.schema(columns).json(str(place / "in")).writeStream
stream = stream.format("omnigraph").options(**options, app_id="s", checkpointLocation=str(place / "cp"))
stream.trigger(availableNow=True).start().awaitTermination()
frame = session.read.format("omnigraph").options(graph=uri, type="Person").load()
print(json.dumps([loaded.total_rows, {row.name: row.age for row in frame.collect()}]))
"""


@pytest.mark.skipif(
    not runs_all(), reason="the same pods for another driver, for a minute; in `./dev faults --all`"
)
def test_a_session_outside_the_cluster_and_the_death_of_a_pod(cluster, environment, tmp_path):
    """A load, a write and a stream, on executors whose Python comes along in an archive."""
    for part in ("people", "in"):
        (tmp_path / part).mkdir()
    for number in range(2):
        names = [f"q{number}{row}" for row in range(50)]
        table = pa.table({"name": names, "age": pa.array([1] * 50, pa.int32())})
        parquet.write_table(table, tmp_path / "people" / f"{number}.parquet")
    (tmp_path / "in" / "0.json").write_text('{"name": "p0", "age": 77}\n{"name": "r", "age": 5}\n')
    og.init(tmp_path / "g", SCHEMA).close()
    packed = shutil.make_archive(str(tmp_path / "packed"), "gztar", environment)
    command = the_pages_command(
        "omnigraph load",
        {
            "k8s://https://cluster.example:6443": cluster.master,
            "spark.pyspark.python=/usr/local/omnigraph": "spark.pyspark.python=./environment",
            **SMALLER,
        },
    )
    assert command[command.index("--spark-master") + 1] == cluster.master
    settings = dict(
        value.split("=", 1) for name, value in itertools.pairwise(command) if name == "--spark-conf"
    )
    settings |= {"spark.archives": f"{packed}#environment", "spark.driver.host": "127.0.0.1"}
    with cluster.driver(settings) as driver:
        driver.start(OUTSIDE, tmp_path / "g", tmp_path)
        driver.wait_until(lambda: len(list(tmp_path.glob("task-*"))) >= 2)
        first, _ = cluster.names("executor")
        cluster.kill(first)
        (tmp_path / "go").touch()
        loaded, found = json.loads(driver.answer())
    assert loaded == 100
    expected = {f"p{n}": n + 1 for n in range(400)} | {"p0": 77, "r": 5}
    expected |= {f"q{number}{row}": 1 for number in range(2) for row in range(50)}
    assert found == expected
    packages = [Path(mark.read_text()).parent for mark in tmp_path.glob("task-*")]
    assert {package.parts[-3:] for package in packages} == {("environment", "lib", "omnigraph")}
    assert all(package.is_relative_to(cluster.directory / "pods") for package in packages)
    with og.open(tmp_path / "g") as graph:
        assert len(graph.commits.list()) == 4
    assert len(cluster.pods) == 3, "another executor in place of the killed one"
    assert cluster.names("executor") == []


def test_the_command_of_the_page(cluster, store, tmp_path):
    """The driver runs in a pod and gets the secret; its executors have no more than their tasks bring."""
    options = {"endpoint": store.endpoint, "region": "eu-west-1", "allow_http": "true"}
    options |= {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
    lake = open_bucket(Root("s3", "lake", "orders", S3Options.parse(options)))
    for number in range(4):
        sink = io.BytesIO()
        names = [f"o{number}{row}" for row in range(500)]
        parquet.write_table(pa.table({"number": names, "total": [float(number)] * 500}), sink)
        obstore.put(lake, f"2026-11-16/{number}.parquet", sink.getvalue())
    schema = "node Order { number: String @key  total: F64? }"
    og.init("s3a://lake/shop", schema, storage_options=options).close()
    secret = {"key": ACCESS_KEY, "secret": SECRET_KEY}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in secret.items()}
    cluster.api.objects.create(
        "secrets", {"kind": "Secret", "metadata": {"name": "s3"}, "data": data}
    )

    submit, *arguments = the_pages_command(
        "spark-submit", {"k8s://https://cluster.example:6443": cluster.master, **SMALLER}
    )
    here = {
        **QUICKLY,
        "spark.kubernetes.driver.master": cluster.api.url,
        "spark.kubernetes.driverEnv.AWS_ENDPOINT_URL": store.endpoint,
        "spark.kubernetes.driverEnv.AWS_ALLOW_HTTP": "true",
    }
    for name, value in here.items():
        arguments[:0] = ["--conf", f"{name}={value}"]
    killed, one_at_a_time = [], threading.Lock()

    def kill_who_asks(request):
        """Kill the first executor that reads or writes something, before it gets an answer."""
        with one_at_a_time:
            pod = None if killed else cluster.pod_at(int(request["REMOTE_PORT"]))
            if pod in cluster.names("executor"):
                killed.append(pod)
                cluster.kill(pod)

    store.before(kill_who_asks)
    with (cluster.directory / "submit.log").open("wb") as log:
        command = [spark_home() / "bin" / submit, *arguments]
        variables = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        submitted = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
    try:
        assert submitted.wait(600) == 0, cluster.logs()
    finally:
        submitted.kill()
        submitted.wait()
    assert len(killed) == 1
    (driver,) = cluster.api.objects.chosen("pods", "spark-app-name=load-orders,spark-role=driver")
    assert driver["status"]["phase"] == "Succeeded", cluster.logs()
    made = [one for _, kind, what, one in cluster.api.objects.events if what == "ADDED"]
    with og.open("s3a://lake/shop", storage_options=options) as graph:
        assert graph.snapshot().tables["node:Order"].row_count == 2000
        assert len(graph.commits.list()) == 2

    driver, *executors = (one for one in made if one["kind"] == "Pod")
    assert driver["spec"]["serviceAccountName"] == "spark"
    (container,) = driver["spec"]["containers"]
    assert container["image"] == "images.example/omnigraph-spark:0.1.0"
    program = "local:///usr/local/omnigraph/load.py"
    assert container["args"][-4:] == [program, *arguments[-3:]]
    variables = {one.pop("name"): one for one in container["env"]}
    assert variables["AWS_REGION"] == {"value": "eu-west-1"}
    references = [
        variables[name]["valueFrom"]["secretKeyRef"]
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    ]
    assert references == [{"name": "s3", "key": "key"}, {"name": "s3", "key": "secret"}]
    assert len(executors) >= 3, "another one in place of the killed one"
    for pod in executors:
        (container,) = pod["spec"]["containers"]
        assert container["image"] == "images.example/omnigraph-spark:0.1.0"
        assert container["resources"]["limits"]["memory"] == f"{600 + 2048}Mi"
        assert not any(one["name"].startswith("AWS_") for one in container["env"])
    told = json.dumps([one for one in made if one["metadata"]["name"] != "s3"]) + cluster.logs()
    assert SECRET_KEY not in told

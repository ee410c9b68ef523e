"""The files of `deploy/server`: the entry point and the health check run, and the others say what they must."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from omnigraph import settings
from omnigraph.server.process.flags import parse_options
from tests.server.running import LONG, clean_environment

PLACE = Path(__file__).parents[2] / "deploy" / "server"
KNOWN = {each.variable for each in vars(settings).values() if isinstance(each, settings.Setting)}


@pytest.fixture
def enter(tmp_path):
    """Run the entry point with a program in place of the server, which says how it was called."""
    for name in ("omnigraph-server", "omnigraph"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\necho "$(basename "$0")" "$@" "[$OMNIGRAPH_BIND]"\n')
        program.chmod(0o755)

    def run(*arguments, **environ):
        env = clean_environment(**environ)
        env["PATH"] = f"{tmp_path}:{env['PATH']}"
        return subprocess.run(
            [PLACE / "entrypoint.sh", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=env,
            timeout=LONG,
        )

    return run


class TestEntryPoint:
    @pytest.mark.parametrize("variable", ["OMNIGRAPH_STORE", "OMNIGRAPH_CLUSTER"])
    def test_the_environment_says_what_to_serve(self, enter, variable):
        ended = enter(**{variable: "s3://b/g"})
        assert (ended.returncode, ended.stdout) == (0, "omnigraph-server [0.0.0.0:8080]\n")

    def test_and_where(self, enter):
        ended = enter(OMNIGRAPH_STORE="g", OMNIGRAPH_BIND="127.0.0.1:1")
        assert ended.stdout == "omnigraph-server [127.0.0.1:1]\n"

    @pytest.mark.parametrize("environ", [{}, {"OMNIGRAPH_STORE": "", "OMNIGRAPH_CLUSTER": ""}])
    def test_nothing_to_serve_is_64(self, enter, environ):
        ended = enter(**environ)
        assert (ended.returncode, ended.stdout) == (64, "")
        assert "OMNIGRAPH_STORE" in ended.stderr

    def test_flags_are_those_of_the_server(self, enter):
        ended = enter("--store", "a b", "--workers", "2")
        assert ended.stdout == "omnigraph-server --store a b --workers 2 [0.0.0.0:8080]\n"

    def test_other_words_are_a_command(self, enter):
        assert enter("omnigraph", "init", "x").stdout == "omnigraph init x [0.0.0.0:8080]\n"


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_health_check(status, code):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_port
        if status is not None:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        else:
            server.server_close()
        try:
            # It waits a few seconds for an answer; a machine that stands still so long is asked again.
            assert any(check_health(port) == code for _ in range(10))
        finally:
            if status is not None:
                server.shutdown()


def check_health(port):
    return subprocess.run(
        [sys.executable, "-S", PLACE / "health.py"],
        check=False,
        timeout=LONG,
        env={**os.environ, "OMNIGRAPH_BIND": f"0.0.0.0:{port}"},
    ).returncode


def test_the_image():
    lines = (PLACE / "Dockerfile").read_text("utf-8")
    assert re.search(r"^USER 10001:10001$", lines, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*omnigraph-health\.py", lines, re.MULTILINE)
    assert lines.rstrip().endswith('ENTRYPOINT ["omnigraph-entrypoint"]')
    root = PLACE.parents[1]
    let_in = (PLACE / "Dockerfile.dockerignore").read_text("utf-8")
    for copied in re.findall(r"^COPY (?:--\S+ )?(deploy/\S+)", lines, re.MULTILINE):
        assert (root / copied).is_file()
        assert f"!{copied}" in let_in
    assert os.access(PLACE / "entrypoint.sh", os.X_OK)


def test_compose_and_kubernetes_run_it_read_only_with_known_variables():
    compose = yaml.safe_load((PLACE / "compose.yaml").read_text("utf-8"))["services"]
    server = compose["server"]
    assert (server["read_only"], server["tmpfs"]) == (True, ["/tmp"])
    assert {"store", "bucket"} <= compose.keys()
    own = {name for name in server["environment"] if name.startswith("OMNIGRAPH_")}
    assert own <= KNOWN
    deployment = yaml.safe_load((PLACE / "kubernetes.yaml").read_text("utf-8"))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    given = parse_options(container["args"])
    assert pod["terminationGracePeriodSeconds"] > given.ending.delay + given.ending.timeout
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz"
    names = {each["name"] for each in container["env"] if each["name"].startswith("OMNIGRAPH_")}
    assert names <= KNOWN


def test_the_service_of_a_plain_host():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(PLACE / "omnigraph.service", "utf-8")
    service = unit["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/omnigraph-server")
    given = parse_options(arguments)
    assert int(service["TimeoutStopSec"]) > given.ending.delay + given.ending.timeout
    text = (PLACE / "omnigraph.service").read_text("utf-8")
    assert set(re.findall(r"OMNIGRAPH_[A-Z_]+", text)) <= KNOWN


def test_the_proxy_speaks_the_version_that_streams_need():
    text = (PLACE / "nginx.conf").read_text("utf-8")
    for line in ("proxy_http_version 1.1;", "proxy_buffering off;", "proxy_request_buffering off;"):
        assert line in text

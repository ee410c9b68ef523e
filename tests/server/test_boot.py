"""How a real server starts, what it refuses, and what it says about itself."""

import json
import os
import signal
import socket
import stat
import sys
from pathlib import Path

import httpx2
import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, PolicyDenied
from omnigraph.graph.graph import state_of
from omnigraph.server.hosts import Authority
from omnigraph.server.process.boot import booted
from omnigraph.server.process.boot_data import BootData
from omnigraph.server.process.flags import parse_options
from omnigraph.server.tokens import TokenTable
from tests.server.running import COMMAND, LONG, UNENCRYPTED, run_server

OPEN = ("--unauthenticated", "--bind", "127.0.0.1:0")
TOKENS = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"


def get(server, path, **more):
    return httpx2.get(server.base + path, verify=UNENCRYPTED, trust_env=False, timeout=LONG, **more)


class TestRefusals:
    @pytest.mark.parametrize(
        ("flags", "environ", "code", "words"),
        [
            ((), {}, 1, ["--unauthenticated", "OMNIGRAPH_SERVER_BEARER_TOKEN"]),
            (("--policy", "p.yaml"), {}, 1, ["--policy", "token"]),
            (("--policy", "p.yaml"), {TOKENS: '{"ada": "t"}'}, 1, ["p.yaml"]),
            (("--unauthenticated", "--queries", "none"), {}, 1, ["none is no directory"]),
            (("--unauthenticated", "--workers", "0"), {}, 2, ["--workers"]),
            (("--drain-timeout", "soon"), {}, 2, ["--drain-timeout: soon is no number of seconds"]),
            (("--unauthenticated", "--graph", "a=g"), {}, 2, ["--graph", "--store"]),
            (("--unauthenticated", "--bind", "0.0.0.0:0"), {}, 1, ["--allow-host"]),
            ((), {TOKENS: '{"omnigraph:maintenance": "t-m"}'}, 1, ["omnigraph:"]),
            ((), {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": "none.json"}, 1, ["none.json"]),
        ],
    )
    def test_with_a_store(self, launcher, people, flags, environ, code, words):
        flags = (*flags, "--bind", "127.0.0.1:0") if "--bind" not in flags else flags
        ended = run_server("--store", people, *flags, environ=environ, launcher=launcher)
        assert (ended.returncode, ended.stdout) == (code, "")
        assert all(word in ended.stderr for word in words), ended.stderr
        assert "Traceback" not in ended.stderr

    def test_nothing_to_serve(self, launcher):
        ended = run_server("--bind", "127.0.0.1:0", launcher=launcher)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "--cluster" in ended.stderr

    def test_a_graph_that_is_not_there(self, tmp_path):
        ended = run_server("--store", "nowhere.omni", *OPEN, cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "nowhere.omni" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert list(tmp_path.iterdir()) == []

    def test_one_of_several_graphs_is_not_there(self, launcher, people, tmp_path):
        ended = run_server(
            "--graph",
            f"a={people}",
            "--graph",
            "b=none.omni",
            *OPEN,
            cwd=tmp_path,
            launcher=launcher,
        )
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "none.omni" in ended.stderr

    def test_a_port_that_is_taken(self, launcher, people):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            ended = run_server(
                "--store", people, "--unauthenticated", "--bind", address, launcher=launcher
            )
        assert (ended.returncode, ended.stdout) == (1, "")
        assert address in ended.stderr
        assert "--bind" in ended.stderr

    def test_help_and_version_are_no_servers(self):
        helped, versioned = run_server("--help"), run_server("--version")
        assert (helped.returncode, versioned.returncode) == (0, 0)
        assert "--store" in helped.stdout
        assert og.__version__ in versioned.stdout


class TestStarting:
    def test_it_tells_its_address_once_and_serves(self, people, start):
        server = start("--store", people, "--unauthenticated", fresh=True)
        assert get(server, "/healthz").json()["status"] == "ok"
        assert get(server, "/graphs").json() == {
            "graphs": [{"graph_id": "default", "uri": f"{server.base}/graphs/default"}]
        }
        assert server.stop() == 0
        assert server.printed == [f"OMNIGRAPH_LISTEN_ADDR={server.host}:{server.port}\n"]

    def test_several_graphs_and_names(self, people, start):
        server = start("--graph", f"b={people}", "--graph", f"a={people}", "--unauthenticated")
        found = get(server, "/graphs").json()["graphs"]
        assert [graph["graph_id"] for graph in found] == ["a", "b"]
        assert get(server, "/graphs/b/branches").json()["branches"] == ["main"]
        assert get(server, "/graphs/default/branches").status_code == 404

    def test_variables_stand_in_for_flags(self, people, start):
        environ = {"OMNIGRAPH_STORE": str(people), "OMNIGRAPH_UNAUTHENTICATED": "1"}
        server = start("--graph-id", "people", environ=environ)
        assert get(server, "/graphs/people/branches").json()["branches"] == ["main"]

    def test_a_variable_that_cannot_be_used_costs_no_request(self, people, start):
        server = start(
            "--store", people, "--unauthenticated", environ={"OMNIGRAPH_TRAVERSAL_MODE": "fast"}
        )
        query = {"query": "query q() { match { $p: Person } return { $p.name } }"}
        answer = httpx2.post(
            f"{server.base}/graphs/default/query",
            json=query,
            verify=UNENCRYPTED,
            trust_env=False,
            timeout=LONG,
        )
        assert answer.status_code == 200, answer.text

    def test_a_foreign_host_is_misdirected_and_an_allowed_one_is_not(self, people, start):
        server = start("--store", people, "--unauthenticated", "--allow-host", "graph.example")
        codes = {
            host: get(server, "/healthz", headers={"host": host}).status_code
            for host in ("localhost", "graph.example", "evil.example")
        }
        assert codes == {"localhost": 200, "graph.example": 200, "evil.example": 421}
        origin = {"origin": "http://evil.example"}
        assert get(server, "/healthz", headers=origin).status_code == 403

    def test_a_proxy_is_trusted_where_it_was_said(self, people, start):
        told = {
            "x-forwarded-proto": "https",
            "x-forwarded-host": "localhost",
            "x-forwarded-prefix": "/g",
        }
        trusting = start("--store", people, "--unauthenticated", "--trusted-proxy", "127.0.0.0/8")
        plain = start("--store", people, "--unauthenticated")
        uris = [
            get(server, "/graphs", headers=told).json()["graphs"][0]["uri"]
            for server in (trusting, plain)
        ]
        assert uris == ["https://localhost/g/graphs/default", f"{plain.base}/graphs/default"]

    def test_tokens_are_asked_for_and_never_told(self, people, start, tmp_path):
        secret, other = "t-s3cr3t-ada", "t-s3cr3t-default"
        file = tmp_path / "tokens.json"
        file.write_text(json.dumps({"ada": secret}))
        server = start(
            "--store",
            people,
            environ={
                "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(file),
                "OMNIGRAPH_SERVER_BEARER_TOKEN": other,
                "OMNIGRAPH_LOG": "debug",
            },
            fresh=True,
        )
        path = "/graphs/default/branches"
        codes = [
            get(server, path, headers=headers).status_code
            for headers in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": f"Bearer {secret}"},
                {"authorization": f"bEARER {other}"},
            )
        ]
        assert codes == [401, 401, 200, 200]
        arguments = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert secret.encode() not in arguments
        assert server.stop() == 0
        assert [record.get("actor") for record in server.requests()] == [
            None,
            None,
            "ada",
            "default",
        ]
        assert secret not in server.log.read_text()
        assert other not in server.log.read_text()

    def test_the_log_has_no_query_no_parameter_and_no_row(self, own_people, start):
        """The words are such that no address, time or id has them by chance."""
        with og.open(own_people) as graph:
            graph.load([{"type": "Person", "data": {"name": "Xyzzy", "age": 918273645}}])
        server = start("--store", own_people, "--unauthenticated")
        query = "query plugh($who: String) { match { $p: Person { name: $who } } return { $p.age as age } }"
        url = f"{server.base}/graphs/default/query"
        body = {"query": query, "params": {"who": "Xyzzy"}}
        with httpx2.Client(verify=UNENCRYPTED, trust_env=False, timeout=LONG) as client:
            answer = client.post(url, json=body, headers={"x-request-id": "mine-1"})
            client.post(url, json={"query": "query plover("})
        assert answer.json()["rows"] == [{"age": 918273645}]
        assert server.stop() == 0
        first, second = server.requests()
        assert (first["request_id"], first["method"], first["status"]) == ("mine-1", "POST", 200)
        assert (first["route"], first["graph"], second["status"]) == ("query", "default", 400)
        assert list(first) == [
            *("ts", "level", "event", "request_id", "method", "route", "status", "ms", "graph")
        ]
        text = server.log.read_text()
        for secret in ("Person", "Xyzzy", "plugh", "$who", "918273645", "plover"):
            assert secret not in text, secret

    def test_bad_numbers_are_warnings(self, people, start):
        server = start(
            "--store", people, "--unauthenticated", environ={"OMNIGRAPH_READ_CONCURRENCY": "lots"}
        )
        assert get(server, "/healthz").status_code == 200
        warnings = [each for each in server.records if each["level"] == "warning"]
        assert ["OMNIGRAPH_READ_CONCURRENCY" in each["event"] for each in warnings] == [True]

    def test_the_wheels_script_is_there(self, people):
        script = Path(sys.executable).with_name("omnigraph-server")
        assert script.stat().st_mode & stat.S_IXUSR
        assert COMMAND[-1] == "omnigraph.server.process.main"


class TestState:
    """What requests of a server find, made in this process."""

    @pytest.mark.parametrize("tokens", [None, TokenTable({"ada": "t"})])
    def test_how_graphs_are_opened(self, own_people, tokens):
        options = parse_options(["--store", str(own_people), "--allow-host", "x.org"])
        with booted(options, BootData(tokens=tokens), Authority("127.0.0.1", 1)) as state:
            (served,) = state.graphs.values()
            assert (served.id, served.graph.mode, served.graph.upkeep) == (
                "default",
                "rw",
                "background",
            )
            assert state_of(served.graph).group_commit
            assert served.mode == ("open" if tokens is None else "default_deny")
            assert state.is_open is (tokens is None)
            assert [str(host) for host in state.hosts.allowed] == ["x.org"]
            spool = state.spool_directory
            assert spool.is_dir()
            if tokens is not None:
                ada = served.graph.session("ada")
                assert ada.branches.list() == ["main"]
                with pytest.raises(PolicyDenied):
                    ada.mutate('query a() { insert Person { name: "zoe" } }')
        assert not spool.exists()
        with pytest.raises(BadRequest, match="closed"):
            served.graph.branches.list()


class TestGraphs:
    def test_opening_recovers_what_a_dead_writer_left(self, own_people, start):
        """The writer died after it had changed the table and before others could see it."""
        import subprocess

        from tests.server.running import clean_environment

        program = (
            "import omnigraph as og, sys\n"
            "og.open(sys.argv[1]).mutate('query a() { insert Person { name: \"zoe\" } }')\n"
        )
        died = subprocess.run(
            [sys.executable, "-c", program, str(own_people)],
            check=False,
            env=clean_environment(
                OMNIGRAPH_FAILPOINTS="mutation.after_phase_b_before_phase_c=exit"
            ),
        )
        assert died.returncode == 86
        assert list((own_people / "__recovery").iterdir())
        server = start("--store", own_people, "--unauthenticated")
        assert not [path for path in (own_people / "__recovery").iterdir() if path.is_file()]
        assert get(server, "/healthz").status_code == 200

    def test_files_of_the_machine_are_out_of_reach(self, own_people, start, tmp_path):
        (tmp_path / "secret.txt").write_text("s3cr3t")
        server = start("--store", own_people, "--unauthenticated")
        before = get(server, "/graphs/default/commits").json()
        for data in (str(tmp_path / "secret.txt"), '{"$file": "/etc/passwd"}'):
            answer = httpx2.post(
                f"{server.base}/graphs/default/load",
                json={"data": data},
                verify=UNENCRYPTED,
                trust_env=False,
                timeout=LONG,
            )
            assert answer.status_code == 400
            assert "s3cr3t" not in answer.text
        assert get(server, "/graphs/default/commits").json() == before

    def test_the_spool_directory_is_private_and_goes_with_the_server(self, people, start, tmp_path):
        place = tmp_path / "spools"
        place.mkdir()
        environ = {"TMPDIR": str(place)}
        server = start("--store", people, "--unauthenticated", environ=environ, fresh=True)
        (spool,) = place.glob("omnigraph-spool-*")
        assert stat.S_IMODE(spool.stat().st_mode) == 0o700
        assert server.stop(signal.SIGINT) == 0
        assert list(place.glob("omnigraph-spool-*")) == []
        assert os.listdir(place) == []

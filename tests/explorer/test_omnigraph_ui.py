"""`omnigraph ui` as a process: links, hosts, origins, reading only, and its end."""

import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.explorer.forwarding import ForwardingPage, why_no_browser
from omnigraph.explorer.launch import ReadOnly, port_of
from omnigraph.policy import Action, Question
from tests.explorer.running import start_explorer, terminal
from tests.server.running import LONG, clean_environment
from tests.server.small import ADD, make_graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    place = tmp_path_factory.mktemp("ui") / "g.omni"
    make_graph(place).close()
    return place


@pytest.fixture(scope="module")
def explorer(graph):
    log = graph.parent / "log"
    with start_explorer(graph, "--as", "ines", home=graph.parent, log=log) as running:
        running.told["token"] = running.token()
        running.told["log"] = log
        yield running


def test_it_says_where_for_whom_and_how(explorer):
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ui/#code=[\w-]{22}", explorer.url)
    assert explorer.told["graph_id"] == "default"
    assert explorer.told["actor_id"] == "ines"
    assert explorer.told["mode"] == "read-write"
    assert 'content="code"' in explorer.request("GET", "/ui/").text


def test_the_code_is_used_up_and_the_token_lets_in(explorer):
    assert explorer.sign_in().status_code == 401
    mine = {"authorization": f"Bearer {explorer.told['token']}"}
    answer = explorer.request("GET", "/graphs/default/branches", headers=mine)
    assert answer.json()["branches"] == ["main", "side"]
    assert explorer.request("GET", "/graphs/default/branches").status_code == 401


def test_a_write_is_the_actors(explorer):
    mine = {"authorization": f"Bearer {explorer.told['token']}"}
    body = {"query": ADD, "params": {"name": "written"}}
    answer = explorer.request("POST", "/graphs/default/mutate", json=body, headers=mine)
    assert answer.json()["commit"]["actor_id"] == "ines"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/ui/"),
        ("POST", "/ui/session"),
        ("GET", "/graphs/default/catalog"),
        ("GET", "/healthz"),
    ],
)
def test_foreign_hosts_and_origins_are_refused_on_every_route(explorer, method, path):
    mine = {"authorization": f"Bearer {explorer.told['token']}"}
    body = {"json": {"code": "x"}} if method == "POST" else {}
    for headers, status in (
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
    ):
        answer = explorer.request(method, path, headers={**mine, **headers}, **body)
        assert answer.status_code == status


def test_a_page_of_another_origin_can_post_nothing(explorer):
    plain = {"content-type": "text/plain"}
    mine = {"authorization": f"Bearer {explorer.told['token']}"}
    assert explorer.request("POST", "/ui/session", content="{}", headers=plain).status_code == 415
    answer = explorer.request(
        "POST", "/graphs/default/query", content="{}", headers={**plain, **mine}
    )
    assert answer.status_code == 415


def test_neither_code_nor_token_is_an_argument_of_a_process(explorer):
    listed = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout
    assert explorer.code not in listed
    assert explorer.told["token"] not in listed


def test_neither_code_nor_token_is_in_the_log(explorer):
    mine = {"authorization": f"Bearer {explorer.told['token']}"}
    assert explorer.request("GET", "/graphs/default/status", headers=mine).status_code == 200
    logged = explorer.told["log"].read_text("utf-8")
    assert explorer.code not in logged
    assert explorer.told["token"] not in logged


def test_reading_only_refuses_writes_and_says_why(graph):
    with start_explorer(graph, "--read-only", home=graph.parent) as running:
        assert running.told["mode"] == "read-only"
        mine = {"authorization": f"Bearer {running.token()}"}
        read = running.request("GET", "/graphs/default/catalog", headers=mine)
        assert read.status_code == 200
        body = {"query": ADD, "params": {"name": "refused"}}
        answer = running.request("POST", "/graphs/default/mutate", json=body, headers=mine)
        assert answer.status_code == 403
        assert "reading only" in answer.json()["error"]
        asked = {"checks": [{"action": "change", "branch": "main"}, {"action": "read"}]}
        may = running.request("POST", "/graphs/default/permissions", json=asked, headers=mine)
        assert [each["allowed"] for each in may.json()["results"]] == [False, True]


def test_enter_prints_a_link_with_a_fresh_code(graph):
    with (
        terminal() as (press_enter, stdin),
        start_explorer(graph, home=graph.parent, stdin=stdin) as running,
    ):
        running.press_enter = press_enter
        for _ in range(5):
            assert running.sign_in("wrong" * 4).status_code == 401
        assert running.sign_in().status_code == 401
        fresh = running.fresh_code()
        assert fresh != running.code
        assert running.sign_in(fresh).status_code == 200


def test_a_person_sees_the_link_on_stderr_and_ctrl_c_ends_it_well(graph):
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph", "ui", graph, "--no-open", "--port", "0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=clean_environment(HOME=str(graph.parent)),
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("explorer at http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(LONG) == 0
        assert process.communicate()[0] == ""
    finally:
        process.kill()
        process.communicate()


def test_a_graph_has_the_same_port_every_time():
    assert port_of("/data/g.omni") == port_of("/data/g.omni")
    assert port_of("/data/g.omni") != port_of("/data/h.omni")
    assert all(20_000 <= port_of(f"/data/{name}") < 30_000 for name in range(500))


def test_reading_only_allows_reading_and_exporting():
    allowed = {each for each in Action if ReadOnly().check(Question("ines", each)).allowed}
    assert allowed == {Action.READ, Action.EXPORT}


def test_the_forwarding_page_is_for_its_owner_alone_and_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    page = ForwardingPage("http://127.0.0.1:2/ui/#code=a&b")
    assert stat.S_IMODE(page.path.stat().st_mode) == 0o600
    assert "url=http://127.0.0.1:2/ui/#code=a&amp;b" in page.path.read_text()
    page.remove()
    page.remove()
    assert not page.path.exists()


@pytest.mark.parametrize(
    ("variables", "opens"),
    [
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "w"}, True),
        ({}, False),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "x"}, False),
        ({"DISPLAY": ":0", "WSL_DISTRO_NAME": "Debian"}, False),
    ],
)
def test_a_browser_is_opened_where_there_is_one(monkeypatch, variables, opens):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    assert (why_no_browser() is None) == opens

"""`/ui` as a server answers it: exact headers, whole files, and nothing else."""

import gzip
import re
from dataclasses import replace

import httpx2
import pytest

from omnigraph.explorer import page_files as pages_module
from omnigraph.explorer.page_files import Pages
from omnigraph.server.asgi import create_app
from tests.server.http import server_state
from tests.server.running import LONG, UNENCRYPTED, start_server
from tests.server.small import TOKENS, make_graph

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{}'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types omnigraph-worker"
)
OTHERS = {
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    make_graph(place / "g.omni").close()
    with start_server(
        "--store", place / "g.omni", "--unauthenticated", log=place / "log"
    ) as running:
        yield running


@pytest.fixture
def http(server):
    with httpx2.Client(base_url=server.base, verify=UNENCRYPTED, timeout=LONG) as client:
        yield client


def nonce_of(answer):
    found = re.search(r"'nonce-([^']+)'", answer.headers["content-security-policy"])
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ui", 308),
        ("GET", "/ui/", 200),
        ("HEAD", "/ui/", 200),
        ("POST", "/ui/", 405),
        ("GET", "/ui/nothing", 404),
        ("GET", "/ui/assets/nothing.js", 404),
        ("GET", "/ui/assets/../index.html", 404),
        ("GET", "/ui/assets/%2e%2e/build.json", 404),
        ("POST", "/ui/session", 404),
        ("GET", "/ui/build.json", 404),
    ],
)
def test_every_answer_has_the_headers(http, method, path, status):
    answer = http.send(
        http.build_request(
            method, httpx2.URL(http.base_url.join("/")).copy_with(raw_path=path.encode())
        )
    )
    assert answer.status_code == status
    assert answer.headers["content-security-policy"] == POLICY.format(nonce_of(answer))
    assert {name: answer.headers[name] for name in OTHERS} == OTHERS
    assert "set-cookie" not in answer.headers


def test_the_short_path_leads_to_the_page(http):
    assert http.get("/ui").headers["location"] == "/ui/"


def test_nonces_differ_and_stand_in_the_page(http):
    answers = [http.get("/ui/") for _ in range(3)]
    nonces = [nonce_of(answer) for answer in answers]
    assert len({*nonces}) == 3
    assert all(len(nonce) == 22 for nonce in nonces)  # 16 bytes in base 64
    for nonce, answer in zip(nonces, answers, strict=True):
        assert f'<meta property="csp-nonce" nonce="{nonce}" />' in answer.text
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_the_page_has_no_script_style_or_address_of_its_own(http):
    text = http.get("/ui/").text
    assert "style=" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"https?://", text)


def test_files_are_whole_packed_on_demand_and_kept_for_a_year(http):
    names = re.findall(r"\./(assets/[^\"]+)", http.get("/ui/").text)
    assert {name.rpartition(".")[2] for name in names} >= {"js", "css", "svg"}
    for name in names:
        plain = http.get(f"/ui/{name}", headers={"accept-encoding": "identity"})
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "content-encoding" not in plain.headers
        with http.stream("GET", f"/ui/{name}", headers={"accept-encoding": "br, gzip"}) as packed:
            assert packed.headers["content-encoding"] == "gzip"
            raw = b"".join(packed.iter_raw())
        assert gzip.decompress(raw) == plain.content
        refused = http.get(f"/ui/{name}", headers={"accept-encoding": "gzip;q=0"})
        assert "content-encoding" not in refused.headers
    kinds = {http.get(f"/ui/{name}").headers["content-type"] for name in names}
    assert kinds == {
        "text/javascript; charset=utf-8",
        "text/css; charset=utf-8",
        "image/svg+xml",
    }


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_an_open_server_shows_its_page_to_no_foreign_host_or_origin(http, headers, status):
    assert http.get("/ui/", headers=headers).status_code == status


def test_the_page_needs_no_token_and_says_that_one_is_asked_for(tmp_path):
    make_graph(tmp_path / "g.omni").close()
    environ = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": f'{{"ada": "{TOKENS["ada"]}"}}'}
    with (
        start_server(
            "--store", tmp_path / "g.omni", log=tmp_path / "log", environ=environ
        ) as running,
        httpx2.Client(base_url=running.base, verify=UNENCRYPTED, timeout=LONG) as client,
    ):
        assert '<meta name="omnigraph-access" content="token" />' in client.get("/ui/").text
        assert client.get("/graphs/default/branches").status_code == 401


@pytest.mark.parametrize("off", [("--no-ui",), ()])
def test_it_can_be_left_out_altogether(tmp_path, off):
    make_graph(tmp_path / "g.omni").close()
    environ = {} if off else {"OMNIGRAPH_UI": "0"}
    with (
        start_server(
            "--store",
            tmp_path / "g.omni",
            "--unauthenticated",
            *off,
            log=tmp_path / "log",
            environ=environ,
        ) as running,
        httpx2.Client(base_url=running.base, verify=UNENCRYPTED, timeout=LONG) as client,
    ):
        for path in ("/ui", "/ui/", "/ui/session"):
            answer = client.get(path)
            assert answer.status_code == 404
            assert "content-security-policy" not in answer.headers
        assert client.get("/healthz").status_code == 200


def test_an_installation_without_the_files_answers_404_and_says_so_in_the_log(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(pages_module, "files", lambda _: tmp_path)
    pages = Pages("open")
    for path in (b"/ui/", b"/ui/assets/index.js"):
        with pytest.raises(Exception, match="no such page") as refused:
            pages.answer(path, "GET", b"", "n")
        assert refused.value.status == 404
    assert "./dev ui" in caplog.text


def test_only_omnigraph_ui_minds_hosts_where_there_are_tokens(tmp_path):
    graph = make_graph(tmp_path / "g.omni")
    state = server_state({"default": graph}, tmp_path / "spool", verifier=object())
    assert not state.minds_hosts
    assert replace(state, sign_in=object()).minds_hosts
    assert replace(state, verifier=None).minds_hosts
    create_app(state).engine.lanes.close()
    graph.close()

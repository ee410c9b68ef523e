"""Which token goes to which server."""

import pytest

from omnigraph.cli.operator.credentials import write_tokens
from omnigraph.cli.operator.server_tokens import nearest_server, token_for

SERVERS = {
    "prod": "https://graphs.example.org",
    "team-a": "https://graphs.example.org/team/a",
    "local": "http://localhost:8080",
}


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    for name in ("OMNIGRAPH_BEARER_TOKEN", "OMNIGRAPH_TOKEN_PROD", "OMNIGRAPH_TOKEN_TEAM_A"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://graphs.example.org", "prod"),
        ("https://GRAPHS.example.org:443/graphs/x", "prod"),
        ("https://graphs.example.org/team/a", "team-a"),
        ("https://graphs.example.org/team/a/graphs/x", "team-a"),
        # Whole segments, the same place, the same scheme.
        ("https://graphs.example.org/team/abc", "prod"),
        ("https://graphs.example.org.evil.org/team/a", None),
        ("http://graphs.example.org/team/a", None),
        ("https://graphs.example.org:444", None),
        ("http://localhost:8080/graphs/x", "local"),
        ("http://localhost/graphs/x", None),
    ],
)
def test_the_nearest_server_above_a_url(url, name):
    assert nearest_server(url, SERVERS) == name


def test_a_token_goes_to_its_server_alone(monkeypatch):
    write_tokens({"prod": "kept", "team-a": "its"})
    assert token_for("https://graphs.example.org/graphs/x", SERVERS) == "kept"
    assert token_for("https://graphs.example.org/team/a/graphs/x", SERVERS) == "its"
    assert token_for("https://other.example.org", SERVERS) is None
    monkeypatch.setenv("OMNIGRAPH_TOKEN_TEAM_A", "from the environment")
    assert token_for("https://graphs.example.org/team/a", SERVERS) == "from the environment"
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", "for all")
    assert token_for("https://graphs.example.org", SERVERS) == "kept"
    assert token_for("https://other.example.org", SERVERS) == "for all"
    assert token_for("http://localhost:8080", SERVERS) == "for all"

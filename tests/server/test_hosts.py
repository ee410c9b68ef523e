"""Which hosts and origins an open server answers to, and the address it says it has."""

import pytest

from omnigraph.errors import BadRequest
from omnigraph.server.hosts import (
    Authority,
    HostRules,
    authority_of,
    is_loopback,
    parse_allowed_host,
    parse_proxy,
)

BOUND = Authority("192.0.2.7", 8080)


def scope(host="localhost:8080", client="198.51.100.1", scheme="http", **headers):
    pairs = [] if host is None else [(b"host", host.encode("latin-1"))]
    for name, value in headers.items():
        values = value if isinstance(value, list) else [value]
        key = name.replace("_", "-").encode()
        pairs += [(key, each.encode("latin-1")) for each in values]
    return {"type": "http", "scheme": scheme, "client": (client, 4711), "headers": pairs}


def refused(rules, asked, open_mode=True):
    refusal = rules.check(asked, open_mode)
    return None if refusal is None else (int(refusal.status), refusal.body()["kind"])


class TestHost:
    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "localhost:8080",
            "LOCALHOST:1",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:8080",
            "192.0.2.7",
            "192.0.2.7:8080",
        ],
    )
    def test_own_addresses(self, host):
        assert refused(HostRules(BOUND), scope(host)) is None

    @pytest.mark.parametrize(
        "host",
        [
            None,
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example@localhost",
            "localhost:8080:8080",
            "localhost:99999",
            "localhost/evil",
            "localhost, evil.example",
            "127.1",
            "2130706433",
            "[::1",
            "::1",
            "lo\xe7alhost",
            "localhost\t",
            "x" * 30_000,
        ],
    )
    def test_other_names(self, host):
        expected = None if host == "localhost\t" else (421, "host_not_allowed")
        assert refused(HostRules(BOUND), scope(host)) == expected

    def test_tokens_need_no_host(self):
        assert refused(HostRules(BOUND), scope("evil.example"), open_mode=False) is None

    @pytest.mark.parametrize(
        ("given", "host", "fine"),
        [
            ("graph.example", "graph.example", True),
            ("Graph.Example", "graph.example:444", True),
            ("graph.example", "sub.graph.example", False),
            ("graph.example:444", "graph.example:444", True),
            ("graph.example:444", "graph.example", False),
            ("graph.example:444", "graph.example:445", False),
            ("2001:db8::1", "[2001:db8::1]:80", True),
            ("my_service", "my_service:8080", True),
        ],
    )
    def test_a_name_that_is_allowed(self, given, host, fine):
        rules = HostRules(BOUND, (parse_allowed_host(given),))
        assert (refused(rules, scope(host)) is None) is fine

    @pytest.mark.parametrize("given", ["", "*", "http://x", "a b", "x/y", "x:y", "x:70000"])
    def test_what_cannot_be_allowed(self, given):
        with pytest.raises(BadRequest, match="--allow-host"):
            parse_allowed_host(given)


class TestOrigin:
    @pytest.mark.parametrize(
        ("host", "origin", "fine"),
        [
            ("localhost:8080", "http://localhost:8080", True),
            ("localhost", "http://localhost", True),
            ("localhost:80", "http://localhost", True),
            ("localhost:8080", "http://localhost:3000", False),
            ("localhost:8080", "https://localhost:8080", False),
            ("localhost:8080", "http://127.0.0.1:8080", False),
            ("localhost:8080", "http://evil.example", False),
            ("localhost:8080", "null", False),
            ("localhost:8080", "", False),
            ("localhost:8080", "file://", False),
        ],
    )
    def test_only_pages_of_the_server_itself(self, host, origin, fine):
        expected = None if fine else (403, "foreign_origin")
        assert refused(HostRules(BOUND), scope(host, origin=origin)) == expected

    def test_a_second_origin_counts_too(self):
        asked = scope(origin=["http://localhost:8080", "http://evil.example"])
        assert refused(HostRules(BOUND), asked) == (403, "foreign_origin")

    def test_the_host_is_looked_at_first(self):
        asked = scope("evil.example", origin="http://evil.example")
        assert refused(HostRules(BOUND), asked) == (421, "host_not_allowed")

    def test_tokens_need_no_origin(self):
        asked = scope(origin="http://evil.example")
        assert refused(HostRules(BOUND), asked, open_mode=False) is None


PROXIED = HostRules(
    BOUND, (Authority("graph.example"),), (parse_proxy("10.0.0.0/8"), parse_proxy("2001:db8::/32"))
)
FORWARDED = {
    "x_forwarded_proto": "https",
    "x_forwarded_host": "graph.example",
    "x_forwarded_prefix": "/team/",
}


class TestProxies:
    @pytest.mark.parametrize("client", ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8::9"])
    def test_a_trusted_one_says_the_address(self, client):
        asked = scope("internal:8080", client, **FORWARDED)
        assert PROXIED.base_url(asked) == "https://graph.example/team"

    @pytest.mark.parametrize("client", ["11.1.2.3", "127.0.0.1", "::1", "unix", ""])
    def test_another_one_does_not(self, client):
        asked = scope("internal:8080", client, **FORWARDED)
        assert PROXIED.base_url(asked) == "http://internal:8080"
        assert HostRules(BOUND).base_url(scope("internal:8080", "10.1.2.3", **FORWARDED)) == (
            "http://internal:8080"
        )

    def test_a_page_cannot_say_another_host_than_its_own(self):
        """Its address leads to the proxy, or to a server that trusts its own machine."""
        asked = scope("localhost:8080", "10.1.2.3", x_forwarded_host="evil.example")
        assert refused(PROXIED, asked) == (421, "host_not_allowed")
        asked = scope("evil.example", "10.1.2.3", x_forwarded_host="graph.example")
        assert refused(PROXIED, asked) == (421, "host_not_allowed")

    def test_the_origin_is_that_of_the_address_outside(self):
        for origin, expected in [("https://graph.example", None), ("http://graph.example", 403)]:
            asked = scope("localhost:8080", "10.1.2.3", origin=origin, **FORWARDED)
            found = refused(PROXIED, asked)
            assert (None if found is None else found[0]) == expected

    @pytest.mark.parametrize(
        ("headers", "expected"),
        [
            ({"x_forwarded_proto": "javascript"}, "http://internal"),
            ({"x_forwarded_host": "bad host"}, "http://internal"),
            ({"x_forwarded_host": "evil.example, graph.example"}, "http://graph.example"),
            ({"x_forwarded_host": ["evil.example", "graph.example"]}, "http://graph.example"),
            ({"x_forwarded_prefix": "//evil.example"}, "http://internal"),
            ({"x_forwarded_prefix": "no-slash"}, "http://internal"),
            ({"x_forwarded_prefix": "/a b"}, "http://internal"),
            ({"x_forwarded_prefix": "/"}, "http://internal"),
            ({"x_forwarded_prefix": "/a/b%20c"}, "http://internal/a/b%20c"),
            ({"x_forwarded_proto": "https", "x_forwarded_host": "graph.example:443"}, "https://graph.example"),
        ],
    )  # fmt: skip
    def test_what_no_address_is_made_of(self, headers, expected):
        assert PROXIED.base_url(scope("internal", "10.1.2.3", **headers)) == expected

    @pytest.mark.parametrize("text", ["", "10.0.0.0/33", "proxy.example", "10.0.0"])
    def test_a_network_that_is_none(self, text):
        with pytest.raises(BadRequest, match="--trusted-proxy"):
            parse_proxy(text)


class TestAddresses:
    def test_a_host_that_is_none_does_not_get_into_answers(self):
        for host in ('x"><script>', "a b", None, "x" * 30_000):
            assert HostRules(BOUND).base_url(scope(host)) == "http://192.0.2.7:8080"

    @pytest.mark.parametrize(
        ("address", "expected"),
        [
            ("127.0.0.1", True),
            ("127.9.9.9", True),
            ("::1", True),
            ("::ffff:127.0.0.1", True),
            ("localhost", True),
            ("0.0.0.0", False),
            ("::", False),
            ("10.0.0.1", False),
            ("graph.example", False),
        ],
    )
    def test_loopback(self, address, expected):
        assert is_loopback(address) is expected

    def test_a_socket_of_ipv6_is_written_with_brackets(self):
        assert str(authority_of("::1", 80)) == "[::1]:80"
        assert str(authority_of("127.0.0.1", 0)) == "127.0.0.1:0"


class TestRemembered:
    """Most requests name the server in the same way; what was found out about it is not found out again."""

    def test_the_address_of_a_foreign_host_lets_it_not_in(self):
        rules = HostRules(BOUND)
        asked = scope("evil.example")
        assert rules.base_url(asked) == "http://evil.example"
        assert [refused(rules, asked) for _ in range(2)] == [(421, "host_not_allowed")] * 2

    def test_an_origin_counts_beside_a_host_that_is_known(self):
        rules = HostRules(BOUND)
        assert [refused(rules, scope()) for _ in range(2)] == [None] * 2
        foreign = scope(origin="http://evil.example")
        assert [refused(rules, foreign) for _ in range(2)] == [(403, "foreign_origin")] * 2
        assert refused(rules, scope(origin="http://localhost:8080")) is None

    def test_the_scheme_counts(self):
        rules = HostRules(BOUND)
        assert rules.base_url(scope()) == "http://localhost:8080"
        assert rules.base_url(scope(scheme="https")) == "https://localhost:8080"

    def test_behind_a_proxy_nothing_is_taken_for_known(self):
        rules = HostRules(BOUND, proxies=(parse_proxy("198.51.100.0/24"),))
        assert refused(rules, scope()) is None
        named = scope(x_forwarded_host="evil.example")
        assert refused(rules, named) == (421, "host_not_allowed")
        assert rules.base_url(scope()) == "http://localhost:8080"
        prefixed = scope(x_forwarded_prefix="/og")
        assert rules.base_url(prefixed) == "http://localhost:8080/og"

    def test_however_many_names_clients_think_of(self):
        rules = HostRules(BOUND, allowed=(parse_allowed_host("a.example"),))
        for port in range(1, 2_000):
            assert refused(rules, scope(f"a.example:{port}")) is None
            assert rules.base_url(
                scope(f"a.example:{port}")
            ) == f"http://a.example:{port}".removesuffix(":80")
        assert max(len(rules._let_in), len(rules._urls)) <= 64

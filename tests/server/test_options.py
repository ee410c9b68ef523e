"""The flags of `omnigraph-server` and the variables that stand in for them."""

from pathlib import Path

import pytest

from omnigraph.server.process import flags
from omnigraph.server.process.flags import (
    Misuse,
    Options,
    parse_options,
)
from omnigraph.server.process.serving import DrainTimes


def parse(*arguments: str) -> Options:
    return parse_options(arguments)


class TestSources:
    def test_a_store_is_the_graph_default(self):
        assert parse("--store", "g.omni").graphs == (("default", "g.omni"),)

    def test_it_can_have_another_id(self):
        assert parse("--store=g.omni", "--graph-id", "people").graphs == (("people", "g.omni"),)

    def test_several_graphs(self):
        found = parse("--graph", "a=g.omni", "--graph", "b=s3://bucket/x=y")
        assert found.graphs == (("a", "g.omni"), ("b", "s3://bucket/x=y"))

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            ([], ["--store", "--graph", "--cluster"]),
            (["--store", "g", "--graph", "a=g"], ["--store", "--graph"]),
            (["--store", "g", "--cluster", "."], ["--store", "--cluster"]),
            (["--cluster", ".", "--graph", "a=g"], ["--graph", "--cluster"]),
            (["--graph", "a=g", "--graph-id", "b"], ["--graph-id"]),
            (["--graph-id", "b"], ["--graph-id"]),
            (["--cluster", ".", "--policy", "x"], ["--policy", "--cluster"]),
            (["--cluster", ".", "--queries", "x"], ["--queries", "--cluster"]),
            (["--cluster", ".", "--server-policy", "x"], ["--server-policy", "--cluster"]),
        ],
    )
    def test_none_and_a_mix(self, arguments, named):
        with pytest.raises(Misuse) as caught:
            parse(*arguments)
        assert all(flag in str(caught.value) for flag in named)

    @pytest.mark.parametrize(
        "name", ["", "-a", "a_b", "a b", "ä", "a" * 65, "policies", "healthz", "openapi", "graphs"]
    )
    def test_ids_that_no_graph_may_have(self, name):
        with pytest.raises(Misuse, match="--graph"):
            parse("--graph", f"{name}=g.omni")
        if name:
            with pytest.raises(Misuse, match="--graph-id"):
                parse("--store", "g.omni", f"--graph-id={name}")

    @pytest.mark.parametrize("name", ["a", "0", "A-1", "a" * 64, "Graphs", "graphs2"])
    def test_ids_that_one_may_have(self, name):
        assert parse("--graph", f"{name}=g").graphs == ((name, "g"),)

    @pytest.mark.parametrize("text", ["a", "a=", "a= ", "=g.omni"])
    def test_a_graph_without_id_or_address(self, text):
        with pytest.raises(Misuse, match="--graph"):
            parse("--graph", text)

    def test_an_id_twice(self):
        with pytest.raises(Misuse, match="`a` twice"):
            parse("--graph", "a=g", "--graph", "a=h")


class TestEnvironment:
    def test_the_store(self, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_STORE", "s3://b/g")
        assert parse().graphs == (("default", "s3://b/g"),)
        assert parse("--graph-id", "x").graphs == (("x", "s3://b/g"),)

    def test_flags_win(self, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_STORE", "env.omni")
        monkeypatch.setenv("OMNIGRAPH_BIND", "127.0.0.1:1")
        assert parse("--store", "g").graphs == (("default", "g"),)
        assert parse("--graph", "a=g").graphs == (("a", "g"),)
        assert parse("--bind", "127.0.0.1:2").port == 2

    def test_a_cluster_may_be_in_the_environment(self, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_CLUSTER", "here")
        assert (parse().cluster, parse().graphs) == ("here", ())
        assert parse("--store", "g").cluster is None
        monkeypatch.setenv("OMNIGRAPH_STORE", "g")
        with pytest.raises(Misuse, match="OMNIGRAPH_STORE and OMNIGRAPH_CLUSTER"):
            parse()

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("", False), ("0", False), ("false", False), ("1", True), ("yes", True)],
    )
    def test_without_tokens(self, text, expected, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_UNAUTHENTICATED", text)
        assert parse("--store", "g").unauthenticated is expected
        assert parse("--store", "g", "--unauthenticated").unauthenticated

    def test_workers(self, monkeypatch):
        assert parse("--store", "g").workers == 1
        monkeypatch.setenv("OMNIGRAPH_WORKERS", "2")
        assert parse("--store", "g").workers == 2
        assert parse("--store", "g", "--workers", "3").workers == 3
        monkeypatch.setattr(flags, "usable_cores", lambda: 5)
        assert parse("--store", "g", "--workers", "auto").workers == 5
        for text in ("0", "-1", "257", "1e3", "٣", "many", "9" * 5_000):
            with pytest.raises(Misuse, match="--workers is"):
                parse("--store", "g", f"--workers={text}")


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("127.0.0.1:0", ("127.0.0.1", 0)),
            ("[::1]:8080", ("::1", 8080)),
            ("localhost:65535", ("localhost", 65535)),
        ],
    )
    def test_where_to_listen(self, text, expected):
        found = parse("--store", "g", "--bind", text)
        assert (found.host, found.port) == expected

    def test_by_default_on_the_own_machine(self):
        found = parse("--store", "g")
        assert (found.host, found.port) == ("127.0.0.1", 8080)

    @pytest.mark.parametrize(
        "text",
        ["", "8080", ":8080", "127.0.0.1", "127.0.0.1:", "::1:8080", "h:65536", "h:-1", "h:٣"],
    )
    def test_what_is_no_address(self, text):
        with pytest.raises(Misuse, match="--bind"):
            parse("--store", "g", f"--bind={text}")

    def test_where_metrics_are(self):
        assert parse("--store", "g").metrics is None
        assert parse("--store", "g", "--metrics-bind", "[::1]:0").metrics == ("::1", 0)
        with pytest.raises(Misuse, match="--metrics-bind 9090 is no address"):
            parse("--store", "g", "--metrics-bind", "9090")

    def test_hosts_and_proxies_are_checked(self):
        found = parse("--store", "g", "--allow-host", "x.org", "--trusted-proxy", "10.0.0.0/8")
        assert [str(host) for host in found.allowed_hosts] == ["x.org"]
        assert [str(network) for network in found.proxies] == ["10.0.0.0/8"]
        for flag in ("--allow-host", "--trusted-proxy"):
            with pytest.raises(Misuse, match=flag):
                parse("--store", "g", flag, "http://x")


class TestBindings:
    GRAPHS = ("--graph", "a=x", "--graph", "b=y")

    def test_a_policy_is_for_all_graphs_or_for_one(self):
        options = parse(*self.GRAPHS, "--policy", "all.yaml", "--policy", "b=own.yaml")
        assert options.policies == {"a": Path("all.yaml"), "b": Path("own.yaml")}
        assert parse(*self.GRAPHS, "--policy", "b=own.yaml").policies == {"b": Path("own.yaml")}
        assert parse("--store", "g", "--policy", "d/k=v.yaml").policies == {
            "default": Path("d/k=v.yaml")
        }

    def test_queries_are_for_one_graph(self):
        assert parse("--store", "g", "--queries", "q").queries == {"default": Path("q")}
        options = parse(*self.GRAPHS, "--queries", "a=q", "--queries", "b=r")
        assert options.queries == {"a": Path("q"), "b": Path("r")}
        with pytest.raises(Misuse, match="--queries ID=q"):
            parse(*self.GRAPHS, "--queries", "q")

    @pytest.mark.parametrize("flag", ["--policy", "--queries"])
    def test_what_binds_nothing_is_refused(self, flag):
        with pytest.raises(Misuse, match="`c`, which is not served"):
            parse(*self.GRAPHS, flag, "c=x")
        with pytest.raises(Misuse, match="twice for `a`"):
            parse(*self.GRAPHS, flag, "a=x", flag, "a=y")
        with pytest.raises(Misuse, match="twice without a graph"):
            parse("--store", "g", flag, "x", flag, "y")

    @pytest.mark.parametrize("flag", ["--policy", "--server-policy", "--queries"])
    def test_a_cluster_declares_its_own(self, flag):
        with pytest.raises(Misuse, match=f"{flag} cannot stand beside --cluster"):
            parse("--cluster", "c", flag, "x")


class TestOthers:
    def test_all_graphs_of_a_cluster_may_be_required(self):
        assert parse("--cluster", "here", "--require-all-graphs").require_all
        assert not parse("--cluster", "here").require_all

    def test_mutations_share_commits_unless_that_is_turned_off(self):
        assert parse("--store", "g").group_commit
        assert not parse("--store", "g", "--no-group-commit").group_commit

    @pytest.mark.parametrize("text", ["0", "-1", "two", "", "1.5", "٣"])
    def test_workers_are_a_number(self, text):
        with pytest.raises(Misuse, match="--workers"):
            parse("--store", "g", f"--workers={text}")

    def test_how_a_server_ends(self):
        assert parse("--store", "g").ending == DrainTimes(delay=0, timeout=30, publishing=5)
        found = parse("--store", "g", "--drain-delay", "1.5", "--drain-timeout", "0")
        assert found.ending == DrainTimes(delay=1.5, timeout=0)

    @pytest.mark.parametrize("flag", ["--drain-delay", "--drain-timeout"])
    @pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon", ""])
    def test_times_are_numbers(self, flag, text):
        with pytest.raises(Misuse, match=flag):
            parse("--store", "g", f"{flag}={text}")

    @pytest.mark.parametrize(
        ("word", "hint"), [("--stor", "--store"), ("--unauthentificated", "--unauthenticated")]
    )
    def test_an_unknown_flag_is_refused_with_the_nearest(self, word, hint):
        with pytest.raises(Misuse, match=f"{word}.*{hint}"):
            parse("--store", "g", word)

    def test_a_token_is_no_flag(self):
        """Arguments of a process are for all to see."""
        with pytest.raises(Misuse, match="--token"):
            parse("--store", "g", "--token", "secret")

"""The operator's own files: config.yaml, credentials, and the commands that show them."""

import os
import stat

import pytest

from omnigraph.cli.operator.config import Alias
from omnigraph.cli.operator.file_commands import bind_params

SERVER = "servers: { prod: { url: https://graphs.example.org/base/ } }\n"
SNAPSHOT_OF_SERVER = ("snapshot", "--server", "prod", "--graph", "g")
ALIAS = "aliases: {{ a: {{ server: s, query: q, {} }} }}\n"


@pytest.fixture
def config(place):
    """Write the file."""

    def write(text):
        (place / "home").mkdir(exist_ok=True)
        (place / "home" / "config.yaml").write_text(text, "utf-8")

    return write


class TestConfig:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[a]\n", "the file must be a mapping"),
            ("defaults: [a]\n", "`defaults` must be a mapping"),
            ("operator: { actor: 7 }\n", "`operator.actor` must be a text"),
            ("operator: { actor: ' ' }\n", "`operator.actor` must be a text"),
            ("profiles: [a]\n", "`profiles` must be a mapping"),
            ("defaults: { output: xml }\n", "must be one of json, jsonl, csv, kv, table"),
            ("defaults: { table_max_column_width: 0 }\n", "a whole number, 1 or more"),
            ("defaults: { table_max_column_width: true }\n", "a whole number, 1 or more"),
            ("defaults: { table_cell_layout: fold }\n", "must be one of truncate, wrap"),
            ("defaults: { store: g, server: prod }\n", "`defaults.server`; drop one"),
            ("defaults: { store: g, default_graph: x }\n", "`defaults.default_graph`; drop one"),
            ("defaults: {\n", "not YAML"),
        ],
    )
    def test_what_cannot_be_used_is_refused_by_file_and_key(self, omnigraph, config, text, said):
        config(text)
        result = omnigraph("profile", "list", "--json")
        assert (result.exit, result.json["kind"]) == (1, "bad_request")
        assert said in result.stderr
        assert "home/config.yaml" in result.stderr

    @pytest.mark.parametrize(
        ("text", "argv", "said"),
        [
            ("servers: { prod: {} }\n", SNAPSHOT_OF_SERVER, "`servers.prod` needs `url`"),
            ("servers: { 1a: { url: http://x } }\n", ("snapshot", "--server", "1a"), "is no name"),
            ("clusters: { c: 1 }\n", ("optimize", "--cluster", "c"), "must be a mapping"),
            ("profiles: { p: x }\n", ("profile", "show", "p"), "`profiles.p` must be a mapping"),
            ("profiles: { p: { store: 1 } }\n", ("snapshot", "--profile", "p"), "must be a text"),
            ("profiles: { 7: { store: g } }\n", ("snapshot", "--profile", "7"), "is no name"),
            ("aliases: { a: { server: s } }\n", ("alias", "a"), "`aliases.a` needs `query`"),
            (ALIAS.format("args: x"), ("alias", "a"), "must be a list of texts"),
            (ALIAS.format("params: [x]"), ("alias", "a"), "must be a mapping"),
        ],
    )
    def test_an_entry_that_cannot_be_used_stops_only_who_uses_it(
        self, omnigraph, config, text, argv, said
    ):
        config(text)
        used = omnigraph(*argv, "--json")
        assert (used.exit, used.json["kind"]) == (1, "bad_request")
        assert said in used.json["error"]
        assert "home/config.yaml" in used.json["error"]
        listed = omnigraph("profile", "list", "--json")
        assert listed.exit == 0
        faulty = [one for one in listed.json["profiles"] if not one["valid"]]
        assert [one["error"] for one in faulty] == [used.json["error"]] * ("profiles" in text)

    def test_a_faulty_profile_does_not_stop_a_command_with_an_address(
        self, omnigraph, graph, config
    ):
        config("profiles: { bad name: { store: g }, ok: { store: g.omni } }\n")
        assert omnigraph("snapshot", graph).exit == 0
        assert omnigraph("snapshot", "--profile", "ok").exit == 0
        listed = omnigraph("profile", "list", "--json").json["profiles"]
        assert [(one["name"], one["valid"]) for one in listed] == [
            ("bad name", False),
            ("ok", True),
        ]

    def test_unknown_keys_warn_at_every_level(self, omnigraph, config):
        config("flavour: mint\ndefaults: { colour: red }\nprofiles: { p: { store: g, x: 1 } }\n")
        result = omnigraph("profile", "list", "--json")
        assert result.exit == 0
        warned = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
        named = ("flavour", "defaults.colour", "profiles.p.x")
        assert len(warned) == len(named)
        assert all(any(f"`{key}`" in line for line in warned) for key in named)

    def test_a_broken_file_stops_even_a_command_with_an_address(self, omnigraph, graph, config):
        config("a: &x 1\n")
        assert omnigraph("snapshot", graph).exit == 1
        assert omnigraph("version").exit == 0

    @pytest.mark.skipif(os.geteuid() == 0, reason="everything is readable for root")
    def test_a_directory_that_may_not_be_looked_into(self, omnigraph, place, config):
        config(SERVER)
        (place / "home").chmod(0)
        result = omnigraph("profile", "list")
        (place / "home").chmod(0o700)
        assert result.exit == 1
        assert "cannot read" in result.stderr

    def test_a_home_that_is_no_directory_holds_nothing(self, omnigraph, place):
        (place / "home").touch()
        assert omnigraph("profile", "list", "--json").json == {"profiles": []}
        assert omnigraph("login", "prod", "--token", "t").exit == 1


class TestActor:
    def actor(self, omnigraph, graph, *flags):
        done = omnigraph("branch", "create", "b", "--uri", graph, "--json", *flags)
        return done.json.get("actor_id")

    def test_the_file_says_who_writes_unless_a_flag_does(self, omnigraph, graph, config):
        config("operator: { actor: act-file }\n")
        assert self.actor(omnigraph, graph) == "act-file"
        omnigraph("branch", "delete", "b", "--uri", graph)
        assert self.actor(omnigraph, graph, "--as", "act-flag") == "act-flag"

    def test_an_actor_of_the_product_is_refused_in_the_file_too(self, omnigraph, graph, config):
        config("operator: { actor: omnigraph:recovery }\n")
        result = omnigraph("branch", "create", "b", "--uri", graph)
        assert result.exit == 1
        assert "operator.actor" in result.stderr
        assert omnigraph("branch", "list", "--uri", graph).stdout == "main\n"


class TestCredentials:
    def test_tokens_are_kept_for_their_owner_alone(self, omnigraph, place, config):
        config(SERVER)
        assert omnigraph("login", "prod", "--json", stdin="tok-1\nrest\n").json == {
            "name": "prod",
            "declared": True,
        }
        result = omnigraph("login", "other", "--token", " tok=;#2 ")
        assert result.exit == 0
        assert "declares no server `other`" in result.stderr
        kept = place / "home" / "credentials"
        assert kept.read_text("utf-8") == "[other]\ntoken = tok=;#2\n\n[prod]\ntoken = tok-1\n\n"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        # Written again, and by nothing but a rename.
        assert omnigraph("logout", "other", "--json").json == {"name": "other", "removed": True}
        assert omnigraph("logout", "other", "--json").json == {"name": "other", "removed": False}
        assert kept.read_text("utf-8") == "[prod]\ntoken = tok-1\n\n"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert sorted(os.listdir(place / "home")) == ["config.yaml", "credentials"]

    @pytest.mark.parametrize("argv", [("login", "prod", "--token", "t"), ("logout", "prod")])
    def test_a_file_that_others_can_read_is_refused_and_left(self, omnigraph, place, argv):
        (place / "home").mkdir()
        kept = place / "home" / "credentials"
        kept.write_text("[prod]\ntoken = secret-1\n", "utf-8")
        kept.chmod(0o640)
        result = omnigraph(*argv)
        assert result.exit == 1
        assert "chmod 600" in result.stderr
        assert kept.read_text("utf-8") == "[prod]\ntoken = secret-1\n"

    @pytest.mark.parametrize("text", ["secret-1\n", "[prod]\nsecret-1\n", "[a]\n[a]\n", "\xff"])
    def test_a_broken_file_is_not_quoted(self, omnigraph, place, text):
        (place / "home").mkdir()
        kept = place / "home" / "credentials"
        kept.write_bytes(text.encode("latin-1"))
        kept.chmod(0o600)
        result = omnigraph("login", "prod", "--token", "t")
        assert result.exit == 1
        assert "secret" not in result.stderr
        assert kept.read_bytes() == text.encode("latin-1")

    @pytest.mark.parametrize(
        "argv",
        [
            ("login", "prod", "--token", " "),
            ("login", "prod", "--token", "a\nb"),
            ("login", "prod", "--token", "a b"),
            ("login", "prod", "--token", "größe"),
            ("login", "1prod", "--token", "t"),
            ("login", "pr]od", "--token", "t"),
            ("login", "prod"),
        ],
    )
    def test_what_is_no_token_or_no_name_is_refused(self, omnigraph, place, argv):
        assert omnigraph(*argv).exit == 1
        assert not (place / "home" / "credentials").exists()


PROFILES = (
    SERVER
    + """\
clusters: { team: { root: "s3://bucket/team" } }
profiles:
  both: { server: prod, store: g.omni }
  far: { cluster: team, default_graph: shop }
  lost: { server: nowhere }
  near: { store: g.omni }
  none: {}
  shop: { server: prod, default_graph: shop }
  wrong: { store: g.omni, default_graph: shop }
"""
)


class TestProfiles:
    def test_the_list_says_what_each_is_and_what_is_wrong(self, omnigraph, config):
        config(PROFILES)
        listed = omnigraph("profile", "list", "--json", env={"OMNIGRAPH_PROFILE": "near"}).json
        items = {item["name"]: item for item in listed["profiles"]}
        assert list(items) == ["both", "far", "lost", "near", "none", "shop", "wrong"]
        assert items["near"] == {
            "name": "near",
            "binding": "store: g.omni",
            "scope_kind": "store",
            "target": "g.omni",
            "valid": True,
            "error": None,
            "default_graph": None,
            "active": True,
        }
        assert [name for name, item in items.items() if item["active"]] == ["near"]
        assert {name for name, item in items.items() if item["valid"]} == {"far", "near", "shop"}
        assert "server and store" in items["both"]["error"]
        assert "prod" in items["lost"]["error"]
        assert omnigraph("profile", "list").exit == 0

    @pytest.mark.parametrize(
        ("name", "kind", "target", "endpoint", "graph"),
        [
            ("near", "store", "g.omni", "g.omni", None),
            ("far", "cluster", "team", "s3://bucket/team", "shop"),
            ("shop", "server", "prod", "https://graphs.example.org/base", "shop"),
        ],
    )
    def test_one_is_shown(self, omnigraph, config, name, kind, target, endpoint, graph):
        config(PROFILES + "defaults: { output: csv }\n")
        expected = {
            "name": name,
            "scope_kind": kind,
            "target": target,
            "endpoint": endpoint,
            "default_graph": graph,
            "output_format": "csv",
        }
        assert omnigraph("profile", "show", name, "--json").json == expected
        env = {"OMNIGRAPH_PROFILE": name}
        assert omnigraph("profile", "show", "--json", env=env).json == expected

    def test_without_a_profile_the_defaults_are_shown(self, omnigraph, config):
        shown = omnigraph("profile", "show", "--json").json
        assert (shown["name"], shown["target"]) == ("(defaults)", None)
        config(SERVER + "defaults: { server: prod, default_graph: shop }\n")
        shown = omnigraph("profile", "show", "--json").json
        assert (shown["target"], shown["default_graph"]) == ("prod", "shop")

    def test_an_unknown_one_lists_the_known(self, omnigraph, config):
        config(PROFILES)
        result = omnigraph("profile", "show", "ghost")
        assert result.exit == 1
        assert "both, far, lost, near" in result.stderr


class TestAlias:
    ALIASES = (
        SERVER + "aliases: { recent: { server: prod, graph: shop, query: q, args: [limit] } }\n"
    )

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (("ghost",), "config.yaml has the aliases recent"),
            (("recent", "1", "2"), "takes limit"),
            (("recent", "--store", "g.omni"), "--store cannot be used with alias (local command)"),
            (("recent", "--params", "[1]"), "object"),
            (
                ("recent", "5"),
                "cannot reach https://graphs.example.org/base: ",
            ),
        ],
    )
    def test_what_is_refused(self, omnigraph, config, argv, said):
        config(self.ALIASES)
        result = omnigraph("alias", *argv)
        assert (result.exit, result.stdout) == (1, "")
        assert said in result.stderr

    def test_later_parameters_win(self):
        alias = Alias("a", "s", "q", args=("x", "y"), params={"x": 0, "z": 0})
        assert bind_params(alias, ["1", "one"], None) == {"x": 1, "y": "one", "z": 0}
        assert bind_params(alias, ["[1]"], {"x": 2, "w": 3}) == {"x": 2, "z": 0, "w": 3}

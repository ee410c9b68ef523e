"""Bundles: every fault of a file is found at once, with its line; what is right is read as it is written."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest
from omnigraph.policy.bundle import SCOPE_KEYS, PolicyRule, read_bundle
from omnigraph.policy.checker import Action

TEAM = """\
version: 1
groups:
  readers: [rita, wim]
  writers: [wim]
protected_branches: [main, " release "]
rules:
  - id: r
    allow: { actors: { group: readers }, actions: [read], branch_scope: any }
  - id: w
    allow: { actors: { group: writers }, actions: [change, export], branch_scope: unprotected }
"""


@pytest.fixture
def read(tmp_path):
    """Read a text as the file of a bundle."""

    def reading(text, kind=None):
        path = tmp_path / "team.yaml"
        path.write_text(text, "utf-8")
        return read_bundle(path, kind)

    return reading


def faults(read, text, kind=None):
    """The faults of a bundle as (line, path) and message."""
    with pytest.raises(BadRequest) as raised:
        read(text, kind)
    return {(one["line"], one["path"]): one["message"] for one in raised.value.details["faults"]}


def test_a_bundle_is_read(read):
    bundle = read(TEAM, "graph")
    assert bundle.kind == "graph"
    assert bundle.groups == {"readers": {"rita", "wim"}, "writers": {"wim"}}
    assert bundle.protected == {"main", "release"}
    assert bundle.rules == (
        PolicyRule("r", "readers", (Action.READ,), "any"),
        PolicyRule("w", "writers", (Action.CHANGE, Action.EXPORT), "unprotected"),
    )
    assert bundle.groups_of("wim") == {"readers", "writers"}
    assert bundle.groups_of("Wim") == set()
    assert bundle.actors == {"rita", "wim"}


ONE_RULE = """\
version: 1
groups: {{ g: [ann] }}
rules:
  - id: r
    allow: {{ actors: {{ group: g }}, {} }}
"""


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("version: 2\ngroups: {}\nrules: []\n", (1, "version"), "give 1"),
        ("version: true\ngroups: {}\nrules: []\n", (1, "version"), "give 1"),
        ("groups: {}\nrules: []\n", (1, ""), "`version` is missing"),
        ("version: 1\nrules: []\n", (1, ""), "`groups` is missing"),
        ("version: 1\ngroups: {}\n", (1, ""), "`rules` is missing"),
        ("- 1\n", (1, ""), "this is a list"),
        ("version: 1\ngroups: {}\nrules: []\nrule: []\n", (4, "rule"), "did you mean `rules`"),
        ("version: 1\ngroups: [a]\nrules: []\n", (2, "groups"), "this is a list"),
        ("version: 1\ngroups: { a: [] }\nrules: []\n", (2, "groups.a"), "the group is empty"),
        ("version: 1\ngroups: { a: ann }\nrules: []\n", (2, "groups.a"), "give a list of actors"),
        ("version: 1\ngroups: { a: ['  '] }\nrules: []\n", (2, "groups.a[0]"), "blank"),
        ("version: 1\ngroups: { a: [5] }\nrules: []\n", (2, "groups.a[0]"), "a number"),
        ("version: 1\ngroups: { a: [b, b] }\nrules: []\n", (2, "groups.a[1]"), "there twice"),
        ("version: 1\ngroups: { a: ['omnigraph:x'] }\nrules: []\n", (2, "groups.a"), "the product itself"),
        ("version: 1\ngroups: { ' ': [b] }\nrules: []\n", (2, "groups"), "not a name"),
        ("version: 1\ngroups: {}\nrules: {}\n", (3, "rules"), "give a list of rules"),
        ("version: 1\ngroups: {}\nrules: [ x ]\n", (3, "rules[0]"), "this is a text"),
        ("version: 1\ngroups: {}\nrules:\n  - id: r\n", (4, "rules[0]"), "`allow` is missing"),
        ("version: 1\ngroups: {}\nrules: []\nprotected_branches: main\n", (4, "protected_branches"), "list of branches"),
        (ONE_RULE.format("actions: []"), (5, "rules[0].allow.actions"), "allows nothing"),
        (ONE_RULE.format("actions: [reed]"), (5, "rules[0].allow.actions[0]"), "did you mean `read`"),
        (ONE_RULE.format("actions: [admin]"), (5, "rules[0].allow.actions[0]"), "not known"),
        (ONE_RULE.format("actions: [read], branch_scop: any"), (5, "rules[0].allow.branch_scop"), "did you mean `branch_scope`"),
        (ONE_RULE.format("actions: [read], branch_scope: all"), (5, "rules[0].allow.branch_scope"), "it is one of any"),
        (ONE_RULE.format("actions: [read], branch_scope: any, target_branch_scope: any"), (5, "rules[0].allow"), "never both"),
        (ONE_RULE.format("actions: [read, graph_list]"), (5, "rules[0].allow.actions"), "write two bundles"),
        (ONE_RULE.format("actions: [read]").replace("group: g", "group: h"), (5, "rules[0].allow.actors.group"), "it is one of g"),
        (ONE_RULE.format("actions: [read]").replace("group: g", "actor: g"), (5, "rules[0].allow.actors.actor"), "no such key"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_line(read, text, place, message):
    assert message in faults(read, text)[place]


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("key", ["branch_scope", "target_branch_scope"])
def test_a_scope_must_fit_the_action(read, action, key):
    text = ONE_RULE.format(f"actions: [{action}], {key}: protected")
    if SCOPE_KEYS[action] == key:
        assert read(text).rules[0].scope == "protected"
    else:
        assert (
            f"does not fit the action `{action}`" in faults(read, text)[5, f"rules[0].allow.{key}"]
        )


def test_all_faults_are_listed_in_the_order_of_the_file(read):
    text = """\
version: 1
groups: { a: [] }
rules:
  - id: r
    allow: { actors: { group: b }, actions: [reed] }
  - id: r
    allow: { actors: { group: a }, actions: [read] }
  - id: r
    allow: { actors: { group: a }, actions: [export] }
"""
    found = list(faults(read, text))
    assert [line for line, _ in found] == [2, 5, 5, 8]
    with pytest.raises(BadRequest, match=r"team\.yaml has 4 faults:\n  line 2, groups\.a: .*"):
        read(text)


def test_two_rules_have_two_ids(read):
    text = TEAM.replace("id: w", "id: r")
    assert "another rule `r`" in faults(read, text)[9, "rules[1]"]


def test_a_bundle_is_of_the_kind_it_is_bound_as(read):
    server = ONE_RULE.format("actions: [graph_list]")
    assert read(server, "server").kind == "server"
    assert "bound to a graph" in faults(read, server, "graph")[1, ""]
    assert "bound to a server" in faults(read, TEAM, "server")[1, ""]
    mixed = TEAM + "  - { id: l, allow: { actors: { group: readers }, actions: [graph_list] } }\n"
    assert list(faults(read, mixed)) == [(11, "rules[2].allow.actions")]


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\ngroups: { a: &x [ann], b: *x }\nrules: []\n",
        "version: 1\ngroups: { a: !!set {ann} }\nrules: []\n",
        "version: 1\nversion: 1\ngroups: {}\nrules: []\n",
        "version: 1\ngroups: {}\nrules: []\n" + "#" * (1 << 20),
        "version: [",
    ],
    ids=["anchor", "tag", "twice", "long", "cut"],
)
def test_what_two_readers_could_read_differently_is_refused(read, text):
    with pytest.raises(BadRequest, match=r"team\.yaml"):
        read(text)

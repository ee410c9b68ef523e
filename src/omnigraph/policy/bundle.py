"""A bundle: who may do what, written down by the people who decide it.

    version: 1
    groups: { writers: [ann, bob] }
    protected_branches: [main]
    rules:
      - id: writers-beside-main
        allow: { actors: { group: writers }, actions: [change], branch_scope: unprotected }

lets Ann and Bob change every branch but `main`. What no rule allows is denied. A bundle is about a graph,
or about a server and the list of its graphs; never about both. Everything wrong with a file is found at
once, each fault with its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from omnigraph.errors import BadRequest
from omnigraph.manifest.actors import check_actor
from omnigraph.manifest.branch_names import trim_branch_name
from omnigraph.policy.checker import Action
from omnigraph.yaml_nodes import Node, parse_nodes, read_nodes

BundleKind = Literal["graph", "server"]
ScopeKey = Literal["branch_scope", "target_branch_scope"]
BranchScope = Literal["any", "protected", "unprotected"]

SCOPE_KEYS: Final[Mapping[Action, ScopeKey | None]] = {
    Action.READ: "branch_scope",
    Action.EXPORT: "branch_scope",
    Action.CHANGE: "branch_scope",
    Action.TAG_CREATE: "branch_scope",
    Action.TAG_DELETE: "branch_scope",
    Action.SCHEMA_APPLY: "target_branch_scope",
    Action.BRANCH_CREATE: "target_branch_scope",
    Action.BRANCH_DELETE: "target_branch_scope",
    Action.BRANCH_MERGE: "target_branch_scope",
    Action.INVOKE_QUERY: None,
    Action.PURGE: None,
    Action.GRAPH_LIST: None,
}
"""Which branch of a question a rule about an action may look at."""
SERVER_ACTIONS: Final = frozenset({Action.GRAPH_LIST})
SCOPES: Final = ("any", "protected", "unprotected")
VERSION: Final = 1
assert set(SCOPE_KEYS) == set(Action), "every action says which scope its rules may have"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Actions that the members of a group may do, on branches that the scope names; without one on all."""

    id: str
    group: str
    actions: tuple[Action, ...]
    scope: BranchScope = "any"


@dataclass(frozen=True, slots=True)
class Bundle:
    """The groups of actors, the branches that are protected, and the rules."""

    kind: BundleKind | None
    groups: Mapping[str, frozenset[str]]
    protected: frozenset[str]
    rules: tuple[PolicyRule, ...]

    def groups_of(self, actor: str) -> frozenset[str]:
        """Return the groups that have this actor."""
        return frozenset(name for name, actors in self.groups.items() if actor in actors)

    @property
    def actors(self) -> frozenset[str]:
        """Everyone who is in a group."""
        return frozenset().union(*self.groups.values())


def read_bundle(path: Path, kind: BundleKind | None = None) -> Bundle:
    """Read a bundle, which must be of this kind if one is given; refuse it with all its faults."""
    return _bundle(read_nodes(path), kind)


def parse_bundle(text: str, path: Path, kind: BundleKind | None = None) -> Bundle:
    """Read a bundle from its text, as ``read_bundle`` does; ``path`` is what messages call it."""
    return _bundle(parse_nodes(text, path), kind)


def _bundle(file: Node, kind: BundleKind | None) -> Bundle:
    bundle = _Reading(file).read()
    if kind is not None and bundle.kind not in {None, kind}:
        other = "lists the graphs of a server" if kind == "graph" else "acts on graphs"
        file.fault(
            f"its rules are about what {other}, and it is bound to a {kind}; give another bundle"
        )
    file.faults.refuse()
    return bundle


class _Reading:
    """Turns the nodes of a file into a bundle, collecting faults."""

    def __init__(self, file: Node) -> None:
        self.file = file
        self.groups: dict[str, frozenset[str]] = {}
        self.kinds: set[BundleKind] = set()

    def read(self) -> Bundle:
        """Return the bundle; what is wrong is left out and added to the faults."""
        fields = self.file.fields(
            ("version", "groups", "protected_branches", "rules"),
            required=("version", "groups", "rules"),
        )
        version = fields.get("version")
        if version is not None and (type(version.value) is not int or version.value != VERSION):
            version.fault(f"this is version {version.value!r}; give {VERSION}")
        if "groups" in fields:
            self.groups = {
                name.strip(): frozenset(self._actors(node))
                for name, node in fields["groups"].mapping().items()
            }
        protected = fields.get("protected_branches")
        branches = [] if protected is None else self._branches(protected)
        rules = self._rules(fields["rules"]) if "rules" in fields else []
        kind = next(iter(self.kinds)) if len(self.kinds) == 1 else None
        return Bundle(kind, self.groups, frozenset(branches), tuple(rules))

    def _actors(self, node: Node) -> list[str]:
        actors = node.texts("actors")
        if isinstance(node.value, list) and not node.value:
            node.fault("the group is empty; name an actor, or drop the group")
        for actor in actors:
            try:
                check_actor(actor, "an actor")
            except BadRequest as error:
                node.fault(error.message)
        return actors

    def _branches(self, node: Node) -> list[str]:
        names = []
        for text in node.texts("branches"):
            try:
                names.append(trim_branch_name(text))
            except BadRequest as error:
                node.fault(error.message)
        return names

    def _rules(self, node: Node) -> list[PolicyRule]:
        rules: dict[str, PolicyRule] = {}
        for element in node.elements("rules"):
            rule = self._rule(element)
            if rule is None:
                continue
            if rule.id in rules:
                element.fault(f"there is another rule `{rule.id}`; give each an id of its own")
            rules[rule.id] = rule
        return list(rules.values())

    def _rule(self, node: Node) -> PolicyRule | None:
        fields = node.fields(("id", "allow"), required=("id", "allow"))
        name = fields["id"].text() if "id" in fields else None
        if "allow" not in fields:
            return None
        allow = fields["allow"].fields(
            ("actors", "actions", "branch_scope", "target_branch_scope"),
            required=("actors", "actions"),
        )
        group = self._group(allow["actors"]) if "actors" in allow else None
        actions = self._actions(allow["actions"]) if "actions" in allow else []
        scope = self._scope(fields["allow"], allow, actions)
        if name is None or group is None or not actions:
            return None
        return PolicyRule(name, group, tuple(actions), scope)

    def _group(self, node: Node) -> str | None:
        fields = node.fields(("group",), required=("group",))
        if "group" not in fields:
            return None
        return fields["group"].word(tuple(self.groups))

    def _actions(self, node: Node) -> list[Action]:
        known = tuple(map(str, SCOPE_KEYS))
        words = [element.word(known) for element in node.elements("actions")]
        actions = [Action(word) for word in dict.fromkeys(words) if word is not None]
        if isinstance(node.value, list) and not node.value:
            node.fault("the rule allows nothing; name an action, or drop the rule")
        kinds: set[BundleKind] = {
            "server" if action in SERVER_ACTIONS else "graph" for action in actions
        }
        # Said where the second kind comes in, once.
        if len(self.kinds) < len(self.kinds | kinds) > 1:
            node.fault(
                "`graph_list` is about a server and all other actions are about a graph; write two bundles"
            )
        self.kinds |= kinds
        return actions

    def _scope(self, rule: Node, allow: Mapping[str, Node], actions: list[Action]) -> BranchScope:
        given = [key for key in ("branch_scope", "target_branch_scope") if key in allow]
        if len(given) > 1:
            rule.fault("a rule has branch_scope or target_branch_scope, never both; drop one")
        for key in given:
            for action in actions:
                if SCOPE_KEYS[action] != key:
                    fits = SCOPE_KEYS[action]
                    way = f"it takes {fits}" if fits else "it takes no scope"
                    allow[key].fault(
                        f"{key} does not fit the action `{action}`: {way}; write another rule"
                    )
        words = [allow[key].word(SCOPES) for key in given]
        return cast("BranchScope", words[0]) if words and words[0] is not None else "any"

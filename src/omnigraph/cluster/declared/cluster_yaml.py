"""Read cluster.yaml: what it declares, as values, and everything that is wrong with it, each with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from omnigraph.cluster.declared.diagnostics import Code, Diagnostics, Refused
from omnigraph.cluster.declared.directory import CONFIG_FILE, Directory, OutsidePath
from omnigraph.cluster.declared.resources import CLUSTER_SCOPE
from omnigraph.errors import BadRequest
from omnigraph.service.graph_urls import GRAPH_ID_RULE, is_graph_id
from omnigraph.storage.blob_policy import blob_policy
from omnigraph.storage.uris import Root
from omnigraph.yaml_files import read_yaml_text
from omnigraph.yaml_nodes import Faults, Node, Steps, parse_nodes, shown_path

VERSION: Final = 1
RESERVED_KEYS: Final = (
    "apply",
    "env_file",
    "pipelines",
    "embeddings",
    "ui",
    "aliases",
    "bindings",
)
PROVIDER_KINDS: Final = ("openai-compatible", "openai", "gemini", "mock")
NAME_RULE: Final = "letters, digits, `_` and `-`, the first a letter or `_`"
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_-]*")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KEYS: Final = ("version", "metadata", "storage", "providers", "graphs", "policies")


@dataclass(frozen=True, slots=True)
class DeclaredQuery:
    """A query that the map form picks by name."""

    node: Node
    file: str
    expose: bool = True
    tool_name: str | None = None


@dataclass(frozen=True, slots=True)
class DeclaredGraph:
    """A graph: where its schema and queries are, and what it may use."""

    node: Node
    schema: Node | None = None
    paths: tuple[Node, ...] = ()
    """Files and directories of queries, of which every declaration counts."""
    picked: Mapping[str, DeclaredQuery] = field(default_factory=dict)
    provider: str | None = None
    external_blobs: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DeclaredPolicy:
    """A bundle: its file, and the scopes it decides about, sorted."""

    node: Node
    file: Node | None
    applies_to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """What cluster.yaml declares, as far as it could be read."""

    directory: Directory
    root: Root
    name: str | None = None
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    graphs: Mapping[str, DeclaredGraph] = field(default_factory=dict)
    policies: Mapping[str, DeclaredPolicy] = field(default_factory=dict)


@dataclass(slots=True)
class _Places(Faults):
    """Faults of the file as diagnostics; those of the reader itself say that the file is wrong."""

    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def add(self, steps: Steps, message: str) -> None:
        self.say(Code.INVALID_CLUSTER_YAML, steps, message)

    def say(self, code: Code, steps: Steps, message: str, *, warns: bool = False) -> None:
        tell = self.diagnostics.warn if warns else self.diagnostics.error
        tell(code, shown_path(steps), message, self.line_of(steps))


def say(node: Node, code: Code, message: str, *, warns: bool = False) -> None:
    """Add a diagnostic about a value of cluster.yaml."""
    assert isinstance(node.faults, _Places)
    node.faults.say(code, node.steps, message, warns=warns)


def read_root(config_dir: str, diagnostics: Diagnostics) -> Root:
    """Return where a cluster stores everything, whatever else is wrong with its file."""
    file = _file(Path(config_dir), diagnostics)
    fields = file.value if isinstance(file.value, dict) else {}
    return _root(file.at("storage") if "storage" in fields else None, Path(config_dir))


def read_config(config_dir: str, diagnostics: Diagnostics) -> Config:
    """Return what the file of a directory declares; ``Refused`` if there is none, or it is no YAML."""
    path = Path(config_dir)
    return _Reading(_file(path, diagnostics), Directory(path)).read()


def _file(directory: Path, diagnostics: Diagnostics) -> Node:
    if not directory.is_dir():
        diagnostics.error(
            Code.CONFIG_DIR_NOT_FOUND,
            str(directory),
            "there is no such directory; pass --config DIR",
        )
        raise Refused
    path = directory / CONFIG_FILE
    try:
        text = read_yaml_text(path)
    except BadRequest as error:
        diagnostics.error(Code.CLUSTER_CONFIG_READ_ERROR, CONFIG_FILE, error.message)
        raise Refused from None
    try:
        file = parse_nodes(text, path)
    except BadRequest as error:
        twice = bool(error.details.get("duplicate"))
        code = Code.DUPLICATE_YAML_KEY if twice else Code.INVALID_CLUSTER_YAML
        diagnostics.error(code, CONFIG_FILE, error.message, error.details.get("line"))
        raise Refused from None
    return Node(file.value, (), _Places(path, text, diagnostics=diagnostics))


def _root(node: Node | None, directory: Path) -> Root:
    if node is None:
        return Root.parse(directory)
    text = node.text()
    if text is not None and "://" not in text and not Path(text).is_absolute():
        text = str(directory / text)
    try:
        if text is not None:
            return Root.parse(text)
    except BadRequest as error:
        say(node, Code.INVALID_STORAGE_ROOT, error.message)
    raise Refused


class _Reading:
    """Turns the nodes of the file into values, saying what is wrong on the way."""

    def __init__(self, file: Node, directory: Directory) -> None:
        self.file = file
        self.directory = directory

    def read(self) -> Config:
        """Return the config; what is wrong is left out."""
        members = self.file.mapping()
        for key in RESERVED_KEYS:
            if key in members:
                say(
                    members[key],
                    Code.FUTURE_PHASE_FIELD,
                    f"`{key}` is kept for a later release; drop it",
                )
        known = [key for key in members if key not in RESERVED_KEYS]
        fields = Node({key: members[key].value for key in known}, (), self.file.faults).fields(
            _KEYS, required=("version",)
        )
        if "version" in fields:
            self._version(fields["version"])
        root = _root(fields.get("storage"), self.directory.path)
        providers = self._providers(fields["providers"]) if "providers" in fields else {}
        graphs = self._graphs(fields["graphs"]) if "graphs" in fields else {}
        policies = self._policies(fields["policies"]) if "policies" in fields else {}
        self._references(providers, graphs, policies)
        name = self._name(fields["metadata"]) if "metadata" in fields else None
        return Config(self.directory, root, name, providers, graphs, policies)

    def _version(self, node: Node) -> None:
        if type(node.value) is not int or node.value != VERSION:
            say(
                node,
                Code.UNSUPPORTED_CLUSTER_CONFIG_VERSION,
                f"this is version {node.value!r}; give {VERSION}",
            )

    def _name(self, node: Node) -> str | None:
        fields = node.fields(("name",))
        if "name" not in fields:
            return None
        if not isinstance(fields["name"].value, str) or not fields["name"].value.strip():
            say(fields["name"], Code.EMPTY_METADATA_NAME, "the name is empty; give one, or drop it")
            return None
        return fields["name"].text()

    def _providers(self, node: Node) -> dict[str, Mapping[str, Any]]:
        fields = node.fields(("embedding",))
        if "embedding" not in fields:
            return {}
        found = {}
        for name, member in fields["embedding"].mapping().items():
            if self._is_named(member, name):
                found[name] = self._provider(member)
        return found

    def _provider(self, node: Node) -> Mapping[str, Any]:
        fields = node.fields(("kind", "base_url", "model", "api_key"))
        kind = fields["kind"].value if "kind" in fields else None
        if kind not in PROVIDER_KINDS:
            say(
                fields.get("kind", node),
                Code.INVALID_EMBEDDING_PROVIDER,
                f"a provider has a kind, one of {', '.join(PROVIDER_KINDS)}; give one",
            )
        for key in ("base_url", "model"):
            if key in fields and not (
                isinstance(fields[key].value, str) and fields[key].value.strip()
            ):
                say(fields[key], Code.INVALID_EMBEDDING_PROVIDER, "this is no text; give one")
        if "api_key" in fields:
            key_text = fields["api_key"].value
            if not isinstance(key_text, str) or _VARIABLE.fullmatch(key_text) is None:
                say(
                    fields["api_key"],
                    Code.EMBEDDING_API_KEY_INLINE,
                    'a key never stands in the file; name the variable that holds it: "${NAME}"',
                )
        elif kind in PROVIDER_KINDS and kind != "mock":
            say(
                node,
                Code.EMBEDDING_API_KEY_REQUIRED,
                f'a provider of kind {kind} needs a key; add api_key: "${{NAME}}"',
            )
        return {key: one.value for key, one in fields.items()}

    def _graphs(self, node: Node) -> dict[str, DeclaredGraph]:
        found = {}
        for name, member in node.mapping().items():
            if not is_graph_id(name):
                say(
                    member,
                    Code.INVALID_RESOURCE_ID,
                    f"`{name}` cannot be the id of a graph; one has {GRAPH_ID_RULE}",
                )
            else:
                found[name] = self._graph(member)
        folded: dict[str, str] = {}
        for name in found:
            other = folded.setdefault(name.lower(), name)
            if other != name:
                # Their directories would be one where case does not count.
                say(
                    node.at(name),
                    Code.INVALID_RESOURCE_ID,
                    f"`{name}` and `{other}` differ in case alone; rename one",
                )
        return found

    def _graph(self, node: Node) -> DeclaredGraph:
        fields = node.fields(
            ("schema", "queries", "embedding_provider", "external_blobs"), required=("schema",)
        )
        paths: tuple[Node, ...] = ()
        picked: dict[str, DeclaredQuery] = {}
        if (queries := fields.get("queries")) is not None:
            if isinstance(queries.value, dict):
                picked = self._picked(queries)
            elif isinstance(queries.value, list):
                paths = tuple(filter(self._is_path, queries.elements("files and directories")))
            elif self._is_path(queries):
                paths = (queries,)
        schema = fields.get("schema")
        provider = fields["embedding_provider"].text() if "embedding_provider" in fields else None
        blobs = fields.get("external_blobs")
        return DeclaredGraph(
            node,
            schema if schema is not None and self._is_path(schema) else None,
            paths,
            picked,
            provider,
            None if blobs is None else self._blobs(blobs),
        )

    def _picked(self, node: Node) -> dict[str, DeclaredQuery]:
        found = {}
        for name, member in node.mapping().items():
            if not self._is_named(member, name):
                continue
            fields = member.fields(("file", "expose", "tool_name"), required=("file",))
            expose = fields["expose"].value if "expose" in fields else True
            if not isinstance(expose, bool):
                fields["expose"].fault("this is neither true nor false; give one of them")
                expose = True
            tool = fields["tool_name"].text() if "tool_name" in fields else None
            if tool is not None:
                self._is_named(fields["tool_name"], tool)
            if "file" in fields and self._is_path(fields["file"]):
                found[name] = DeclaredQuery(fields["file"], str(fields["file"].value), expose, tool)
        return found

    def _blobs(self, node: Node) -> Mapping[str, Any] | None:
        if not isinstance(node.value, dict) or set(node.value) != {"allow"}:
            say(
                node,
                Code.INVALID_EXTERNAL_BLOB_POLICY,
                "external_blobs has one key, `allow`, with a list of addresses; write it so",
            )
            return None
        bases = node.at("allow")
        if not isinstance(bases.value, list) or not all(
            isinstance(one, str) for one in bases.value
        ):
            say(bases, Code.INVALID_EXTERNAL_BLOB_POLICY, "this is no list of addresses; give one")
            return None
        for base in bases.elements("addresses"):
            if base.value.lower().startswith("file:"):
                say(
                    base,
                    Code.INVALID_EXTERNAL_BLOB_BASE,
                    "files of the server are no external blobs; name a place in a store",
                )
                return None
        try:
            allowed = blob_policy(bases.value, local_files=False).bases
        except BadRequest as error:
            say(bases, Code.INVALID_EXTERNAL_BLOB_BASE, error.message)
            return None
        return {"allow": sorted(allowed)}

    def _policies(self, node: Node) -> dict[str, DeclaredPolicy]:
        found = {}
        for name, member in node.mapping().items():
            if not self._is_named(member, name):
                continue
            fields = member.fields(("file", "applies_to"), required=("file",))
            file = fields.get("file")
            scopes: list[str] = []
            if "applies_to" not in fields or fields["applies_to"].value == []:
                say(
                    member,
                    Code.POLICY_MISSING_APPLIES_TO,
                    "the bundle decides about nothing; add applies_to: [cluster], or ids of graphs",
                )
            else:
                scopes = sorted(fields["applies_to"].texts("scopes"))
            if CLUSTER_SCOPE in scopes and len(scopes) > 1:
                say(
                    member,
                    Code.POLICY_MIXED_BINDING_KINDS,
                    "a bundle is about the server or about graphs, never both; write two",
                )
            usable = file if file is not None and self._is_path(file) else None
            found[name] = DeclaredPolicy(member, usable, tuple(scopes))
        return found

    def _references(
        self,
        providers: Mapping[str, object],
        graphs: Mapping[str, DeclaredGraph],
        policies: Mapping[str, DeclaredPolicy],
    ) -> None:
        """Say which names lead nowhere, or to something of another kind."""
        for graph in graphs.values():
            name = graph.provider
            if name is not None and name not in providers:
                wrong = name in graphs or name in policies
                say(
                    graph.node.at("embedding_provider"),
                    Code.WRONG_KIND_REFERENCE
                    if wrong
                    else Code.DANGLING_EMBEDDING_PROVIDER_REFERENCE,
                    f"`{name}` is {'no provider' if wrong else 'not declared'}; name one of "
                    "providers.embedding",
                )
        bound: dict[str, str] = {}
        for name, policy in policies.items():
            for scope in policy.applies_to:
                if scope != CLUSTER_SCOPE and scope not in graphs:
                    wrong = scope in providers or scope in policies
                    say(
                        policy.node.at("applies_to"),
                        Code.WRONG_KIND_REFERENCE if wrong else Code.DANGLING_GRAPH_REFERENCE,
                        f"`{scope}` is {'no graph' if wrong else 'not declared'}; name a graph, or "
                        "`cluster`",
                    )
                other = bound.setdefault(scope, name)
                if other != name:
                    say(
                        policy.node,
                        Code.DUPLICATE_POLICY_BINDING,
                        f"`{other}` decides about `{scope}` already; keep one of the two",
                    )

    def _is_named(self, node: Node, name: str) -> bool:
        if _NAME.fullmatch(name):
            return True
        say(node, Code.INVALID_RESOURCE_ID, f"`{name}` is no name; one has {NAME_RULE}")
        return False

    def _is_path(self, node: Node) -> bool:
        text = node.text()
        if text is None:
            return False
        try:
            self.directory.place(text)
        except OutsidePath as error:
            say(node, Code.INVALID_RESOURCE_PATH, f"the path {text} cannot be used: {error}")
            return False
        return True


def variable_of(api_key: str) -> str | None:
    """Return the name of the variable that holds a key."""
    found = _VARIABLE.fullmatch(api_key)
    return None if found is None else found[1]

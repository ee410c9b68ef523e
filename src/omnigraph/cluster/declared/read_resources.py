"""From cluster.yaml and the files it names to resources: schemas compiled, queries checked, bundles read."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from omnigraph.cluster.declared.cluster_yaml import (
    Config,
    DeclaredGraph,
    DeclaredPolicy,
    read_config,
    say,
)
from omnigraph.cluster.declared.diagnostics import Code, Diagnostics, Refused
from omnigraph.cluster.declared.directory import OutsidePath, UnfitFile
from omnigraph.cluster.declared.resources import (
    CLUSTER_SCOPE,
    Desired,
    Resource,
    digest_bytes,
    digest_json,
    graph_address,
    graph_digest,
    policy_address,
    provider_address,
    query_address,
    schema_address,
)
from omnigraph.errors import BadRequest, CatalogError, OmniGraphError
from omnigraph.yaml_nodes import Node

if TYPE_CHECKING:
    from omnigraph.lang.query.syntax import ast
    from omnigraph.lang.schema.catalog import Catalog
    from omnigraph.policy.bundle import BundleKind


@dataclass(frozen=True, slots=True)
class Declared:
    """A directory that was read: its config, and its resources as far as they could be made."""

    config: Config
    desired: Desired


def read_declared(
    config_dir: str, diagnostics: Diagnostics, reserved: Container[str] = ()
) -> Declared:
    """Read a directory with everything in it. ``reserved`` are names of tools that no query may take."""
    config = read_config(config_dir, diagnostics)
    return Declared(config, _Resources(config, reserved).read())


def require_declared(
    config_dir: str, diagnostics: Diagnostics, reserved: Container[str] = ()
) -> Declared:
    """Read a directory for a command that acts on it; ``Refused`` if anything is wrong with it."""
    declared = read_declared(config_dir, diagnostics, reserved)
    if not diagnostics.is_ok:
        raise Refused
    return declared


@dataclass(frozen=True, slots=True)
class _Query:
    """A declaration that a graph stores."""

    node: Node
    file: str
    content: bytes
    text: str
    declared: ast.Query
    beside: tuple[ast.Query, ...]
    expose: bool = True
    tool_name: str | None = None


class _Resources:
    def __init__(self, config: Config, reserved: Container[str]) -> None:
        self.config = config
        self.reserved = reserved
        self.resources: dict[str, Resource] = {}
        self.depends: dict[str, tuple[str, ...]] = {}
        self.parsed: dict[str, tuple[ast.Query, ...] | None] = {}

    def read(self) -> Desired:
        for name, profile in self.config.providers.items():
            self._add(
                Resource(
                    provider_address(name),
                    digest_json(profile),
                    facts={"embedding_profile": dict(profile)},
                )
            )
        for name, graph in self.config.graphs.items():
            self._graph(name, graph)
        for name, policy in self.config.policies.items():
            self._policy(name, policy)
        return Desired(self.config.name, self.resources, self.depends)

    def _add(self, resource: Resource, *depends: str) -> None:
        self.resources[resource.address] = resource
        self.depends[resource.address] = tuple(sorted(depends))

    def _content(self, node: Node, file: str, missing: Code, unfit: Code) -> bytes | None:
        """Return the bytes of a file; None if it cannot be used, which was said."""
        try:
            return self.config.directory.read(file)
        except OutsidePath as error:
            say(node, Code.INVALID_RESOURCE_PATH, f"the path {file} cannot be used: {error}")
        except UnfitFile as error:
            say(node, unfit, f"{file}: {error}")
        except OSError as error:
            say(node, missing, f"cannot read {file}: {error.strerror}; put the file there")
        return None

    def _graph(self, name: str, graph: DeclaredGraph) -> None:
        schema = self._schema(name, graph)
        queries = self._queries(name, graph, schema)
        facts: dict[str, Any] = {}
        below = [schema_address(name)]
        if graph.provider is not None:
            facts["embedding_provider"] = graph.provider
            below.append(provider_address(graph.provider))
        if graph.external_blobs is not None:
            facts["external_blob_policy"] = graph.external_blobs
        digests = {}
        for query in queries.values():
            named = query.declared.name
            assert named is not None
            digests[named] = digest_bytes(query.content)
            exposure: dict[str, Any] = {}
            if not query.expose:
                exposure["expose"] = False
            if query.tool_name is not None:
                exposure["tool_name"] = query.tool_name
            address = query_address(name, named)
            below.append(address)
            self._add(
                Resource(address, digests[named], query.content, query.file, exposure),
                schema_address(name),
            )
        known = self.resources.get(schema_address(name))
        digest = graph_digest(
            None if known is None else known.digest, digests, graph.provider, graph.external_blobs
        )
        self._add(Resource(graph_address(name), digest, facts=facts), *below)

    def _schema(self, name: str, graph: DeclaredGraph) -> Catalog | None:
        from omnigraph.lang.schema import compile_schema

        if graph.schema is None:
            return None
        file = str(graph.schema.value)
        content = self._content(
            graph.schema, file, Code.SCHEMA_FILE_MISSING, Code.SCHEMA_PARSE_ERROR
        )
        if content is None:
            return None
        self._add(Resource(schema_address(name), digest_bytes(content), content, file))
        try:
            catalog = compile_schema(content.decode(), file).catalog
        except OmniGraphError as error:
            code = (
                Code.SCHEMA_CATALOG_ERROR
                if isinstance(error, CatalogError)
                else Code.SCHEMA_PARSE_ERROR
            )
            say(graph.schema, code, _told(error, file))
            return None
        types = (*catalog.nodes.values(), *catalog.edges.values())
        blobs = any(one.blob_properties for one in types)
        if blobs and graph.external_blobs is None:
            say(
                graph.node,
                Code.EXTERNAL_BLOB_INGRESS_DEFAULT_DENY,
                "the schema has blobs, and none may lie outside the graph; name where they may with "
                "external_blobs",
                warns=True,
            )
        return catalog

    def _queries(
        self, name: str, graph: DeclaredGraph, catalog: Catalog | None
    ) -> dict[str, _Query]:
        found: dict[str, _Query] = {}
        for query in (*self._of_paths(graph), *self._of_names(graph)):
            named = query.declared.name
            assert named is not None
            if named in found:
                say(
                    query.node,
                    Code.DUPLICATE_QUERY_NAME,
                    f"query `{named}` is declared twice, in {found[named].file} and {query.file}; "
                    "rename one",
                )
            else:
                found[named] = query
        self._tools(found)
        if catalog is not None:
            for query in found.values():
                self._check(query, catalog)
        elif found:
            say(
                graph.node,
                Code.QUERY_TYPECHECK_SKIPPED,
                f"the queries of `{name}` were not checked, since its schema cannot be read",
                warns=True,
            )
        return found

    def _of_paths(self, graph: DeclaredGraph) -> Iterator[_Query]:
        for node in graph.paths:
            path = str(node.value)
            for file in self._files(node, path):
                content, declared = self._declared(node, file)
                for query in declared:
                    assert content is not None
                    yield _Query(node, file, content, content.decode(), query, declared)

    def _files(self, node: Node, path: str) -> list[str]:
        place = self.config.directory.place(path)
        if not place.is_dir():
            return [path]
        try:
            names = sorted(entry.name for entry in os.scandir(place) if entry.name.endswith(".gq"))
        except OSError as error:
            say(
                node,
                Code.QUERY_DIR_UNREADABLE,
                f"cannot list {path}: {error.strerror}; make it readable",
            )
            return []
        if not names:
            say(node, Code.QUERY_DIR_EMPTY, f"{path} has no .gq files", warns=True)
        return [str(PurePosixPath(path) / name) for name in names]

    def _of_names(self, graph: DeclaredGraph) -> Iterator[_Query]:
        for name, picked in graph.picked.items():
            content, declared = self._declared(picked.node, picked.file)
            if content is None:
                continue
            for query in declared:
                if query.name == name:
                    yield _Query(
                        picked.node,
                        picked.file,
                        content,
                        text=content.decode(),
                        declared=query,
                        beside=declared,
                        expose=picked.expose,
                        tool_name=picked.tool_name,
                    )
                    break
            else:
                if self.parsed.get(picked.file) is not None:
                    there = ", ".join(str(query.name) for query in declared) or "none"
                    say(
                        picked.node,
                        Code.QUERY_KEY_MISMATCH,
                        f"{picked.file} declares no query `{name}` (it has {there}); name one of them",
                    )

    def _declared(self, node: Node, file: str) -> tuple[bytes | None, tuple[ast.Query, ...]]:
        """Return the declarations of a file, which is parsed once; none if it cannot be, which was said."""
        from omnigraph.lang.query.syntax.parser import parse

        content = self._content(node, file, Code.QUERY_FILE_MISSING, Code.QUERY_PARSE_ERROR)
        if content is None:
            return None, ()
        if file not in self.parsed:
            self.parsed[file] = None
            try:
                queries = tuple(parse(content.decode(), file).queries)
            except OmniGraphError as error:
                say(node, Code.QUERY_PARSE_ERROR, _told(error, file))
                return content, ()
            if any(query.name is None for query in queries):
                say(
                    node,
                    Code.QUERY_PARSE_ERROR,
                    f"{file} holds a query without a name, which cannot be stored; name it",
                )
                return content, ()
            self.parsed[file] = queries
        return content, self.parsed[file] or ()

    def _tools(self, queries: dict[str, _Query]) -> None:
        taken: dict[str, str] = {}
        for name, query in queries.items():
            tool = query.tool_name or name
            if not query.expose:
                continue
            if tool in self.reserved:
                say(
                    query.node,
                    Code.RESERVED_TOOL_NAME,
                    f"query `{name}` has the tool name `{tool}`, which is a tool of omnigraph; give "
                    "another tool_name",
                )
            elif (other := taken.setdefault(tool, name)) != name:
                say(
                    query.node,
                    Code.DUPLICATE_TOOL_NAME,
                    f"queries `{other}` and `{name}` share the tool name `{tool}`; rename one",
                )

    def _check(self, query: _Query, catalog: Catalog) -> None:
        from omnigraph.lang.query.check.check import check
        from omnigraph.lang.source import Source

        try:
            check(query.declared, catalog, Source(query.text, query.file), query.beside)
        except OmniGraphError as error:
            say(
                query.node,
                Code.QUERY_TYPECHECK_ERROR,
                f"query `{query.declared.name}`: {_told(error, query.file)}",
            )

    def _policy(self, name: str, policy: DeclaredPolicy) -> None:
        from omnigraph.policy.bundle import parse_bundle

        if policy.file is None:
            return
        file = str(policy.file.value)
        content = self._content(policy.file, file, Code.POLICY_FILE_MISSING, Code.POLICY_INVALID)
        if content is None:
            return
        kind: BundleKind = "server" if CLUSTER_SCOPE in policy.applies_to else "graph"
        try:
            parse_bundle(content.decode("utf-8-sig"), Path(file), kind)
        except BadRequest as error:
            say(policy.file, Code.POLICY_INVALID, error.message)
        scopes = [scope for scope in policy.applies_to if scope in self.config.graphs]
        self._add(
            Resource(
                policy_address(name),
                digest_bytes(content),
                content,
                file,
                {"applies_to": list(policy.applies_to)},
            ),
            *map(graph_address, scopes),
        )


def _told(error: OmniGraphError, file: str) -> str:
    """Return the text of an error, with its file and line."""
    span = getattr(error, "span", None)
    return f"{file}: {error}" if span is None else f"{file}, line {span.line}: {error}"

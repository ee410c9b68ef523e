"""What a server reads once, when it starts: whose the tokens are, the policies, and the stored queries.

Workers get it from their parent, so that one that is started later cannot differ from the others, whatever
became of the files meanwhile. Of tokens there are digests alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from omnigraph.cluster.served import Serving, read_serving
from omnigraph.errors import BadRequest
from omnigraph.lang.query.registry import Registry, StoredSource
from omnigraph.policy.bundle import Bundle, read_bundle
from omnigraph.server.process.flags import Options
from omnigraph.server.tokens import TokenTable
from omnigraph.service.stored import read_directory

logger = logging.getLogger(__name__)

TOKENS_HELP: Final = "set OMNIGRAPH_SERVER_BEARER_TOKEN or OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootData:
    """Tokens, the bundle of each graph that has one, the bundle of the server, and the sources of queries."""

    tokens: TokenTable | None = None
    bundles: Mapping[str, Bundle] = field(default_factory=dict)
    server_bundle: Bundle | None = None
    queries: Mapping[str, tuple[StoredSource, ...]] = field(default_factory=dict)
    cluster: Serving | None = None
    """What was applied of the cluster that is served."""

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        return self.tokens is None


def check_access(options: Options, tokens: TokenTable | None, decides: str | None = None) -> None:
    """Refuse a server that nobody could use, and one that everybody could without anybody saying so.

    ``decides`` is what decides about actors, if that is no flag.
    """
    decides = decides or options.decides
    if tokens is None and decides is not None:
        raise BadRequest(
            f"{decides} decides about actors, and without tokens there are none; {TOKENS_HELP}"
        )
    if tokens is None and not options.unauthenticated:
        raise BadRequest(
            "there are no tokens, so everybody could read and write everything; "
            f"{TOKENS_HELP}, or say --unauthenticated"
        )
    if tokens is not None and options.unauthenticated:
        logger.warning("there are tokens, so --unauthenticated changes nothing")


def read_boot_data(options: Options, tokens: TokenTable | None) -> BootData:
    """Read the files that the flags name, or the cluster; refuse them with everything that is wrong."""
    if options.cluster is not None:
        return _read_cluster(options.cluster, tokens)
    # One file for several graphs is read once.
    paths = () if tokens is None else dict.fromkeys(options.policies.values())
    read = {path: read_bundle(path, "graph") for path in paths}
    server = options.server_policy
    return BootData(
        tokens=tokens,
        bundles={name: read[path] for name, path in options.policies.items() if path in read},
        server_bundle=None if server is None else read_bundle(server, "server"),
        queries={name: _sources(path) for name, path in options.queries.items()},
    )


def _read_cluster(cluster: str, tokens: TokenTable | None) -> BootData:
    serving = read_serving(cluster)
    return BootData(
        tokens=tokens,
        bundles={one.id: one.bundle for one in serving.graphs if one.bundle is not None},
        server_bundle=serving.server_bundle,
        queries={one.id: one.queries for one in serving.graphs if one.queries},
        cluster=serving,
    )


def registry_of(sources: tuple[StoredSource, ...]) -> Registry:
    """Return the stored queries of a graph, made of their sources."""
    return Registry.load(sources, _tool_names())


def _sources(directory: Path) -> tuple[StoredSource, ...]:
    found = read_directory(directory, _tool_names())
    return tuple(entry.stored for entry in found.queries.values())


def _tool_names() -> frozenset[str]:
    from omnigraph.mcp.tools import BUILT_IN_NAMES

    return frozenset(BUILT_IN_NAMES)

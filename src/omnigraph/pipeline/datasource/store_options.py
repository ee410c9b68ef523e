"""The options of the data source that say how a store is reached: `s3.endpoint`, `s3.region` and others."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.storage.store_kinds.known import STORE_KINDS, kind_of
from omnigraph.storage.store_kinds.store_kind import StoreOptions

# Spark hands the options of a table over once more under names that begin with this.
_OF_A_TABLE = "option."


def split_store_options(
    options: Mapping[str, str], registered: Mapping[str, StoreOptions] | None = None
) -> tuple[dict[str, str], StoreOptions | None]:
    """Return the options without those of the graph's store, and how that is reached.

    ``registered`` is how the process that registered the source reaches stores, by their scheme;
    options win over that.
    """
    addresses = [options[name] for name in options if name.lower() in ("graph", "path")]
    kind = next(filter(None, map(kind_of, addresses)), STORE_KINDS[0])
    prefix = f"{kind.scheme}."
    rest: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, value in options.items():
        bare = name.lower().removeprefix(_OF_A_TABLE)
        if bare.startswith(prefix):
            given[bare.removeprefix(prefix)] = value
        else:
            rest[name] = value
    store = kind.parse_options(given, f"option `{prefix}{{}}`".format) if given else None
    under = (registered or {}).get(kind.scheme)
    if store is None or under is None:
        return rest, store or under
    return rest, store.over(under)

"""The options of the data source that say how S3 is reached: `s3.endpoint`, `s3.region` and others."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.storage.s3_options import S3Options

PREFIX = "s3."
# Spark hands the options of a table over once more under names that begin with this.
_OF_A_TABLE = "option."


def split_store_options(
    options: Mapping[str, str], registered: S3Options | None = None
) -> tuple[dict[str, str], S3Options | None]:
    """Return the options without those of S3, and how S3 is reached.

    ``registered`` is how the process that registered the source reaches it; options win over that.
    """
    rest: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, value in options.items():
        bare = name.lower().removeprefix(_OF_A_TABLE)
        if bare.startswith(PREFIX):
            given[bare.removeprefix(PREFIX)] = value
        else:
            rest[name] = value
    store = S3Options.parse(given, f"option `{PREFIX}{{}}`".format) if given else None
    if store is None or registered is None:
        return rest, store or registered
    return rest, store.over(registered)

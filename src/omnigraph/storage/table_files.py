"""The files of tables as one listing shows them: bytes and versions of each branch of each table.

Lance keeps a branch of a table in ``tree/<branch>`` below it, the versions of either in ``_versions``, and
what a branch is in ``_refs/branches``. So a listing says what opening every version would say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from omnigraph.storage import layout
from omnigraph.storage.tables.table import version_at

_REF: Final = re.compile(r"_refs/branches/([^/]+)\.json")
_TREE: Final = "tree/"


@dataclass(slots=True)
class LineageFiles:
    """The files of one branch of a table; ``versions`` has the size of each version's manifest."""

    bytes: int = 0
    versions: dict[int, int] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        """The number of the newest version; 0 if there is none."""
        return max(self.versions, default=0)


TableFiles = dict[str | None, LineageFiles]
"""The files of a table by its branches; None is the main lineage."""


def table_files(sizes: Mapping[str, int]) -> dict[str, TableFiles]:
    """Return what lies at the place of each table, of which ``sizes`` names all files."""
    places: dict[str, dict[str, int]] = {}
    for name, size in sizes.items():
        first, _, rest = name.partition("/")
        if first == layout.MANIFEST:
            place, path = first, rest
        else:
            second, _, path = rest.partition("/")
            place = f"{first}/{second}"
        places.setdefault(place, {})[path] = size
    return {place: _by_branch(paths) for place, paths in places.items()}


def _by_branch(paths: Mapping[str, int]) -> TableFiles:
    """Divide the files of a table; those of a branch that is gone count as the main lineage's."""
    refs = (_REF.fullmatch(path) for path in paths)
    branches = {unquote(found[1]) for found in refs if found is not None}
    tables: TableFiles = {None: LineageFiles()}
    tables.update({name: LineageFiles() for name in sorted(branches)})
    for path, size in paths.items():
        branch = _branch_of(path, branches)
        found = tables[branch]
        found.bytes += size
        inner = path if branch is None else path.removeprefix(f"{_TREE}{branch}/")
        version = version_at(inner)
        if version is not None:
            found.versions[version] = size
    return tables


def _branch_of(path: str, branches: set[str]) -> str | None:
    """Return the branch whose directory a file is in. No branch's name is the beginning of another's."""
    if not path.startswith(_TREE):
        return None
    segments = path.removeprefix(_TREE).split("/")
    names = ("/".join(segments[:count]) for count in range(1, len(segments)))
    return next((name for name in names if name in branches), None)

"""The address of a table: which dataset, which branch of it, which version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class TableRef:
    """Where a table is: its root address, a branch (None = main), a version (None = newest).

    ``branch_id`` is the Lance identifier of the branch. With it only that branch is opened, because
    the name may mean another one by now. Store options contain credentials: they are neither
    compared nor shown.
    """

    uri: str
    version: int | None = None
    branch: str | None = None
    branch_id: str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", self.uri.rstrip("/"))
        if self.storage_options is not None:
            object.__setattr__(self, "storage_options", dict(self.storage_options))

    @property
    def dataset_uri(self) -> str:
        """The address Lance opens: the table itself, or the directory of its branch."""
        return self.uri if self.branch is None else f"{self.uri}/tree/{self.branch}"

    def at(self, version: int | None) -> TableRef:
        """The same table and branch at another version."""
        return replace(self, version=version)

    def on(
        self, branch: str | None, version: int | None = None, branch_id: str | None = None
    ) -> TableRef:
        """The same table on another branch."""
        return replace(self, branch=branch, version=version, branch_id=branch_id)

    def __str__(self) -> str:
        branch = "" if self.branch is None else f" on {self.branch}"
        version = "" if self.version is None else f" at version {self.version}"
        return f"{self.uri}{branch}{version}"

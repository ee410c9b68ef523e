"""What describes a kind of object store, so that the rest of the product need not know which kind it is.

A kind says how its addresses begin, which options lead to it, what opens it, by what a conditional
write recognises a version, and what of its answers must not be shown. Everything else is the same for
all kinds: an address is `scheme://bucket/key`, objects are listed, read and written through obstore,
and tables are opened by Lance, which takes the same options.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class StoreOptions(Protocol):
    """How a store is reached: a value that can be pickled, and shows no credentials."""

    def over(self, environment: Any, /) -> StoreOptions:
        """Return these options, and those of the environment, of the same kind, that are not given here."""

    def to_mapping(self) -> dict[str, str]:
        """Return what is given as ``StoreKind.parse_options`` takes it."""

    def for_lance(self, bucket: str, /) -> dict[str, str]:
        """Return the options as Lance and obstore take them for a bucket."""


class Limits(NamedTuple):
    """How long one request may take, in seconds, and how often it is sent again."""

    timeout: float = 30.0
    retries: int = 4


class StoreKind(ABC):
    """A kind of object store."""

    scheme: ClassVar[str]
    """How an address begins, and `scheme.` an option of Spark's data source."""
    other_schemes: ClassVar[tuple[str, ...]] = ()
    """How an address may begin as well."""
    version_field: ClassVar[Literal["e_tag", "version"]] = "e_tag"
    """What obstore tells versions of an object apart by, in conditional writes."""

    def example(self, rest: str) -> str:
        """Return an address for messages."""
        return f"{self.scheme}://bucket/{rest}"

    @abstractmethod
    def is_bucket(self, name: str) -> bool:
        """Whether a bucket can have this name."""

    @abstractmethod
    def parse_options(
        self,
        given: Mapping[str, object] | None,
        named: Callable[[str], str] = "storage option `{}`".format,
    ) -> StoreOptions | None:
        """Check what a caller gives; None for nothing. ``named`` is what an option is called in messages."""

    @abstractmethod
    def environment_options(self, environ: Mapping[str, str]) -> StoreOptions:
        """Read the options that the variables of an environment say."""

    @abstractmethod
    def reached(
        self, given: StoreOptions | None, environ: Mapping[str, str] | None = None
    ) -> StoreOptions:
        """Return how a store is reached from here: what was given, and the environment as it is now.

        Options that were given for a store of another kind do not count.
        """

    @abstractmethod
    def open(
        self, bucket: str, prefix: str, options: Mapping[str, str], limits: Limits
    ) -> ObjectStore:
        """Open a store with options as Lance takes them; obstore's errors are the caller's to translate."""

    @abstractmethod
    def without_body(self, message: str) -> str:
        """Return a message without what an answer of the store repeats of the request, such as tokens."""

    @abstractmethod
    def missing_bucket(self, message: str) -> str | None:
        """Return what to say if a message means that there is no such bucket; None for any other."""

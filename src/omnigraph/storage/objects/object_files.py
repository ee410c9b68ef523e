"""Files in S3 that are written piece by piece: a new object appears when it is complete."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.storage.objects.store_errors import translate
from omnigraph.storage.objects.stores import s3_backend
from omnigraph.storage.store_answers import shown_cause
from omnigraph.storage.uris import Root

if TYPE_CHECKING:
    from omnigraph.storage.s3_options import S3Options

PART_BYTES = 8 << 20
"""The bytes of a part, at least: S3 takes 10,000 of them, so the largest object has 80 GB."""


class ObjectFile:
    """One object that is being written. Until ``end``, readers see the object before it, if there is one."""

    def __init__(self, address: str, options: S3Options | None = None) -> None:
        root = Root.parse(address, options)
        if not root.path or address.endswith("/"):
            raise BadRequest(f'"{address}" names no object; write s3://bucket/key')
        self.address = root.canonical
        self._bucket = Root("s3", root.bucket, "", options)
        self._key = root.path
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(complete=kind is None)

    def write(self, piece: bytes | memoryview) -> None:
        """Write a piece."""
        try:
            self._opened().write(memoryview(piece).cast("B"))  # obstore takes no other buffers
        except Exception as error:  # noqa: BLE001 - it is raised as ours
            raise self._failed(error) from shown_cause(error)

    def end(self, *, complete: bool) -> None:
        """Make the object visible, or drop what was written of it."""
        try:
            if complete:
                self._opened().close()
            elif self._file is not None:
                # Leaving the block with an error takes the parts back that are in the store already.
                self._file.__exit__(KeyboardInterrupt, None, None)
        except Exception as error:  # noqa: BLE001 - it is raised as ours
            if complete:
                raise self._failed(error) from shown_cause(error)

    def _opened(self) -> Any:
        if self._file is None:
            import obstore

            store = s3_backend(self._bucket)
            self._file = obstore.open_writer(store, self._key, buffer_size=PART_BYTES)
        return self._file

    def _failed(self, error: Exception) -> OmniGraphError:
        if isinstance(error, OmniGraphError):
            return error
        return translate(error, "write", self._key, f"s3://{self._bucket.bucket}")

"""The rules about blobs of a load: which addresses are allowed, and which files can be taken in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.formats.typed_batch import place_of
from omnigraph.pipeline.rows.bad_records import Bad
from omnigraph.storage.blob_policy import BlobPolicy
from omnigraph.types import Unfit
from omnigraph.validate.change_set import ORDER


def check_blobs(
    entity: Entity, batch: pa.RecordBatch, policy: BlobPolicy, folders: Mapping[int, str]
) -> tuple[pa.RecordBatch, list[Bad]]:
    """The rows with the files to take in found and measured, and what is wrong with their blobs.

    ``folders`` are the directories of the sources that are files on this machine.
    """
    bad: list[Bad] = []
    for name in entity.blob_properties:
        at = batch.schema.get_field_index(name)
        column = batch.column(at)
        uris, positions = (pc.struct_field(column, part) for part in ("uri", "position"))
        files: dict[int, dict[str, Any]] = {}
        for row in pc.indices_nonzero(uris.is_valid()).to_pylist():
            is_file, uri = positions[row].is_valid, uris[row].as_py()
            place = place_of(batch.column(ORDER)[row].as_py())
            try:
                if is_file:
                    files[row] = _taken_in(policy, uri, folders.get(place[0]))
                elif (address := policy.allowed_address(uri)) != uri:
                    files[row] = {"uri": address}
            except Unfit as unfit:
                reason = f"{entity.name}.{name}: {unfit}"
                bad.append(Bad(*place, reason, None if is_file else "blob", name))
        if files:
            found = pa.array(list(_with(column, files)), column.type)
            batch = batch.set_column(at, batch.schema.field(at), found)
    return batch, bad


def _taken_in(policy: BlobPolicy, path: str, beside: str | None) -> dict[str, Any]:
    source = policy.find_source(path, beside)
    if not source.size:
        return {"data": b""}  # Lance takes in no empty range
    return {"uri": source.uri, "position": 0, "size": source.size}


def _with(column: pa.Array, files: dict[int, dict[str, Any]]) -> Iterator[Any]:
    for row, value in enumerate(column):
        yield files[row] if row in files else value.as_py()

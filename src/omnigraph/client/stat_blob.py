"""A blob described by the headers of its answer, as `blob stat` describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omnigraph.client.core import DONE, SNAPSHOT_ID, Core, Document, PreparedCall
from omnigraph.errors import ExternalBlob, OmniGraphError
from omnigraph.service import wire


def stat_document(core: Core, named: wire.BlobParameters) -> PreparedCall:
    """Return the request for what is known of a blob; nothing of it is read."""

    def finish(headers: Mapping[str, str], _: Document) -> Document:
        size, etag = headers.get("content-length", ""), headers.get("etag")
        if not size.isdecimal() or etag is None or headers.get(SNAPSHOT_ID.lower()) is None:
            raise core.foreign(DONE, "no headers of a blob")
        facts = {"kind": "managed", "size": int(size), "etag": etag.strip('"')}
        return _document(named, facts, headers)

    def rescue(headers: Mapping[str, str], error: OmniGraphError) -> Document:
        if not isinstance(error, ExternalBlob) or not isinstance(error.details.get("uri"), str):
            raise error
        return _document(named, {"kind": "external", "uri": error.details["uri"]}, headers)

    asked = core.prepare("blob", named)
    return replace(asked, method="HEAD", finish=finish, rescue=rescue, headers_only=True)


def _document(named: wire.BlobParameters, facts: Document, headers: Mapping[str, str]) -> Document:
    snapshot = headers.get(SNAPSHOT_ID.lower())
    target = {name: value for name, value in named.target.items() if value is not None}
    if "snapshot" not in target and "tag" not in target:
        target.setdefault("branch", "main")
    selector = {name: getattr(named, name) for name in ("kind", "type", "id", "property")}
    return {"selector": selector, **facts, "target": {**target, "resolved_snapshot": snapshot}}

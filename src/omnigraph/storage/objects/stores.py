"""Opens the object store of a graph root: a local directory or an S3 prefix."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from obstore import exceptions
from obstore.store import S3Store

from omnigraph.storage.objects.local_objects import LocalObjectStore
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import translate
from omnigraph.storage.s3_options import sdk_credentials
from omnigraph.storage.store_answers import shown_cause
from omnigraph.storage.uris import Root


def open_store(
    root: Root,
    *,
    request_timeout: float = 30.0,
    request_retries: int = 4,
    given: Mapping[str, str] | None = None,
) -> ObjectStore:
    """Open the store of a root. The limits apply to each request to S3; a disk has none.

    ``given`` as for ``s3_backend``.
    """
    if root.is_local:
        return LocalObjectStore(root.path)
    return ObjectStore(s3_backend(root, request_timeout, request_retries, given), root.canonical)


def s3_backend(
    root: Root,
    request_timeout: float = 30.0,
    request_retries: int = 4,
    given: Mapping[str, str] | None = None,
) -> S3Store:
    """Open obstore's S3 store for a root.

    Endpoint and credentials are those of the root, or ``given`` by a process that has them.
    """
    options = root.lance_options() if given is None else dict(given)
    allow_http = options.pop("allow_http", "false") == "true"
    if "aws_endpoint" in options:
        # obstore reads the environment too, where this variable would win over the option.
        options["aws_endpoint_url_s3"] = options["aws_endpoint"]
    has_keys = "aws_access_key_id" in options
    try:
        return S3Store(
            root.bucket,
            prefix=root.path or None,
            config=options,  # type: ignore[arg-type]  # any string option of object_store is fine
            credential_provider=None if has_keys else sdk_credentials(),  # type: ignore[arg-type]
            client_options={
                "allow_http": allow_http,
                "timeout": timedelta(seconds=request_timeout),
                "connect_timeout": timedelta(seconds=min(5.0, request_timeout)),
            },
            retry_config={
                "max_retries": request_retries,
                "retry_timeout": timedelta(seconds=request_timeout),
            },
        )
    except (ValueError, exceptions.BaseError) as error:
        raise translate(error, "open", root.path, f"s3://{root.bucket}") from shown_cause(error)

"""S3, and the stores that speak its protocol.

Where no keys are given, credentials are found as the SDKs of AWS do: profiles, credential files, web
identity, roles of machines. Lance does that by itself; obstore knows no files, so it gets what botocore, the
core of the Python SDK, finds. Both renew credentials that expire.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import BadRequest, StorageError
from omnigraph.storage.store_kinds.s3_options import S3Options
from omnigraph.storage.store_kinds.store_kind import Limits, StoreKind, StoreOptions

if TYPE_CHECKING:
    from obstore.store import S3Store

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
# An answer may hold the key or the token that the request was signed with (`<Token-0>…`), and Lance and
# obstore put it into the texts of their exceptions.
_BODY = re.compile(r"(?:<\?xml[^>]*>\s*)?<Error\b.*?(?:</Error>|\Z)", re.DOTALL)
_SAID = re.compile(r"<(Code|Message)>(.*?)</\1>", re.DOTALL)


class S3(StoreKind):
    """S3: addresses, options, and what opens it."""

    scheme = "s3"
    other_schemes = ("s3a",)  # what Hadoop and Spark call it

    def is_bucket(self, name: str) -> bool:
        """Whether a bucket can have this name."""
        return _BUCKET.fullmatch(name) is not None

    def parse_options(
        self,
        given: Mapping[str, object] | None,
        named: Callable[[str], str] = "storage option `{}`".format,
    ) -> S3Options | None:
        """Check what a caller gives; None for nothing."""
        return S3Options.parse(given, named)

    def environment_options(self, environ: Mapping[str, str]) -> S3Options:
        """Read the `AWS_*` variables."""
        return S3Options.of_environment(environ)

    def reached(
        self, given: StoreOptions | None, environ: Mapping[str, str] | None = None
    ) -> S3Options:
        """Return how S3 is reached from here; the region may also stand in the configuration file of AWS."""
        options = S3Options.of_environment(os.environ if environ is None else environ)
        if isinstance(given, S3Options):
            options = given.over(options)
        if options.region is None and environ is None:
            return replace(options, region=_sdk_region())
        return options

    def open(self, bucket: str, prefix: str, options: Mapping[str, str], limits: Limits) -> S3Store:
        """Open a bucket or a part of it with obstore."""
        from obstore.store import S3Store

        config = dict(options)
        allow_http = config.pop("allow_http", "false") == "true"
        if "aws_endpoint" in config:
            # obstore reads the environment too, where this variable would win over the option.
            config["aws_endpoint_url_s3"] = config["aws_endpoint"]
        has_keys = "aws_access_key_id" in config
        return S3Store(
            bucket,
            prefix=prefix or None,
            config=config,  # type: ignore[arg-type]  # any string option of object_store is fine
            credential_provider=None if has_keys else _sdk_credentials(),  # type: ignore[arg-type]
            client_options={
                "allow_http": allow_http,
                "timeout": timedelta(seconds=limits.timeout),
                "connect_timeout": timedelta(seconds=min(5.0, limits.timeout)),
            },
            retry_config={
                "max_retries": limits.retries,
                "retry_timeout": timedelta(seconds=limits.timeout),
            },
        )

    def without_body(self, message: str) -> str:
        """Return a message in which the body of an answer is its code and its sentence."""
        return _BODY.sub(_said, message)

    def missing_bucket(self, message: str) -> str | None:
        """Return what to say if a message means that there is no such bucket; None for any other."""
        if "NoSuchBucket" not in message:
            return None
        return "there is no such bucket; create it, or correct the address or the endpoint"


def _said(body: re.Match[str]) -> str:
    return ": ".join(part.strip() for _, part in _SAID.findall(body[0])) or "no reason was given"


_ASKED_AGAIN_AFTER: Final = timedelta(minutes=5)
# What the SDK looks at: another value is another place to look.
_SDK_VARIABLES: Final = (
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "HOME",
)


class _SdkCredentials:
    """The credentials that botocore finds, as obstore asks for them; botocore renews what expires."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __call__(self) -> dict[str, Any]:
        """Return credentials, and until when obstore may use them without asking again."""
        frozen = self._found.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _ASKED_AGAIN_AFTER,
        }


def _sdk_credentials() -> _SdkCredentials:
    """Return the credentials of this process, as the SDKs of AWS find them; refused if there are none."""
    return _credentials(_places())


def _sdk_region() -> str | None:
    """Return the region that the configuration file of the SDKs says; None if there is none."""
    configured = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    if not os.environ.get("AWS_PROFILE") and not configured.exists():
        return None
    return _region(_places())


def _places() -> tuple[str | None, ...]:
    return tuple(os.environ.get(name) for name in _SDK_VARIABLES)


@functools.lru_cache(maxsize=8)
def _credentials(_places: tuple[str | None, ...]) -> _SdkCredentials:
    found = _asked(lambda session: session.get_credentials())
    if found is None:
        raise StorageError(
            "there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a "
            "profile with AWS_PROFILE, or give storage_options"
        )
    return _SdkCredentials(found)


@functools.lru_cache(maxsize=8)
def _region(_places: tuple[str | None, ...]) -> str | None:
    region: str | None = _asked(lambda session: session.get_config_variable("region"))
    return region


def _asked(ask: Callable[[Any], Any]) -> Any:
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        return ask(Session())
    except BotoCoreError as error:
        raise BadRequest(
            f"the AWS configuration cannot be used: {error}; see AWS_PROFILE, ~/.aws/config and "
            "~/.aws/credentials"
        ) from error

"""How an S3 store is reached: endpoint, region, credentials and flags, of a handle or the environment.

What a caller gives for one handle wins over the environment, option by option; credentials are one
option: keys of the caller never go with a session token of the environment. Credentials are in no
message and no ``repr``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from omnigraph.errors import BadRequest
from omnigraph.spelling import did_you_mean

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})
_FLAGS: Final = ("path_style", "allow_http")
# Other spellings: the names of variables, and those that Lance and obstore take.
_SPELLINGS: Final = {
    "endpoint_url": "endpoint",
    "endpoint_url_s3": "endpoint",
    "default_region": "region",
    "token": "session_token",
    "s3_force_path_style": "path_style",
    "force_path_style": "path_style",
}
_VIRTUAL_HOSTED = "virtual_hosted_style_request"
_VARIABLES: Final = {
    "region": "AWS_REGION",
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "path_style": "AWS_S3_FORCE_PATH_STYLE",
    "allow_http": "AWS_ALLOW_HTTP",
}


@dataclass(frozen=True, slots=True)
class S3Options:
    """Options of S3; None is not given. ``endpoint_from`` is what the endpoint is called in messages."""

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    path_style: bool | None = None
    allow_http: bool | None = None
    endpoint_from: str = field(default="endpoint", repr=False, compare=False)

    @classmethod
    def parse(
        cls,
        given: Mapping[str, object] | None,
        named: Callable[[str], str] = "storage option `{}`".format,
    ) -> S3Options | None:
        """Check what a caller gives; None for nothing. ``named`` is what an option is called in messages.

        The names are those of the fields, of the `AWS_*` variables, or the ones that Lance takes
        (`aws_access_key_id`); case and hyphens do not matter.
        """
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise BadRequest(
                "storage_options is a mapping of options of S3, such as "
                '{"endpoint": "https://store.example", "region": "eu-west-1"}'
            )
        values: dict[str, str] = {}
        for spelling, value in given.items():
            if value is None:
                continue
            name, text = _option(spelling, value, named)
            if values.setdefault(name, text) != text:
                raise BadRequest(f"the {named(name)} is given twice; give it once")
        return _checked(values, named, named("endpoint"))

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> S3Options:
        """Read the variables of an environment; an empty one is not set."""
        found = {name: environ.get(variable, "").strip() for name, variable in _VARIABLES.items()}
        variable = "AWS_ENDPOINT_URL_S3"
        if not environ.get(variable, "").strip():
            variable = "AWS_ENDPOINT_URL"
        found["endpoint"] = environ.get(variable, "").strip()
        found["region"] = found["region"] or environ.get("AWS_DEFAULT_REGION", "").strip()
        names = {**_VARIABLES, "endpoint": variable}
        return _checked(
            {name: text for name, text in found.items() if text}, names.__getitem__, variable
        )

    def over(self, environment: S3Options) -> S3Options:
        """Return these options, and those of the environment that are not given here."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        own = {name: value for name, value in own.items() if value is not None}
        if self.endpoint is None:
            del own["endpoint_from"]
        if self.access_key_id is not None:
            if self.session_token is None and environment.session_token is not None:
                # Lance and obstore read the environment too, and would send its token with these keys.
                raise BadRequest(
                    "storage_options has keys and no session_token, while AWS_SESSION_TOKEN is set and "
                    "would be sent with them; unset it, or give session_token too"
                )
            environment = replace(
                environment, access_key_id=None, secret_access_key=None, session_token=None
            )
        return replace(environment, **own)

    def to_mapping(self) -> dict[str, str]:
        """Return what is given as ``parse`` takes it."""
        found = {name: getattr(self, name) for name in OPTION_NAMES}
        return {name: str(value) for name, value in found.items() if value is not None}

    def for_lance(self, bucket: str) -> dict[str, str]:
        """Return the options as Lance and obstore take them for a bucket."""
        options = {
            "aws_region": self.region,
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": self.secret_access_key,
            "aws_session_token": self.session_token,
        }
        if self.endpoint is not None:
            options["aws_endpoint"] = self._endpoint(bucket)
        if self.path_style is not None:
            options["aws_virtual_hosted_style_request"] = "false" if self.path_style else "true"
        if self.allow_http is not None:
            options["allow_http"] = "true" if self.allow_http else "false"
        return {key: value for key, value in options.items() if value is not None}

    def _endpoint(self, bucket: str) -> str:
        assert self.endpoint is not None
        parts = urlsplit(self.endpoint)
        if parts.scheme == "http" and not self.allow_http:
            is_variable = self.endpoint_from.startswith("AWS_")
            how = "set AWS_ALLOW_HTTP=true" if is_variable else "give allow_http=true"
            raise BadRequest(
                f'{self.endpoint_from} is "{self.endpoint}", which is not encrypted; {how} to allow '
                "it, or use https"
            )
        if self.path_style is False and not parts.netloc.startswith(f"{bucket}."):
            # Lance and obstore put the bucket into the host name only for Amazon's own endpoints.
            parts = parts._replace(netloc=f"{bucket}.{parts.netloc}")
        return urlunsplit(parts).rstrip("/")


OPTION_NAMES: Final = tuple(one.name for one in fields(S3Options) if one.name != "endpoint_from")
"""The options of S3 by the names that the documentation uses."""


def _option(spelling: object, value: object, named: Callable[[str], str]) -> tuple[str, str]:
    """Return the name and the text of one option as it was given."""
    if not isinstance(spelling, str):
        raise BadRequest(f"storage options are named by texts, not by a {type(spelling).__name__}")
    plain = spelling.strip().lower().replace("-", "_").removeprefix("aws_")
    name = _SPELLINGS.get(plain, plain)
    if not isinstance(value, str | bool):
        raise BadRequest(
            f"the {named(spelling)} is a {type(value).__name__}; give a text, or true or false"
        )
    text = value.strip() if isinstance(value, str) else str(value).lower()
    if not text:
        raise BadRequest(f"the {named(spelling)} is empty; leave it out, or give a value")
    if name == _VIRTUAL_HOSTED:
        return "path_style", str(not _flag(named(spelling), text)).lower()
    if name not in OPTION_NAMES:
        hint = did_you_mean(name, OPTION_NAMES) or f"there are {', '.join(OPTION_NAMES)}"
        raise BadRequest(f"there is no {named(spelling)}; {hint}", option=spelling)
    return name, text


def _checked(
    values: Mapping[str, str], named: Callable[[str], str], endpoint_from: str
) -> S3Options:
    if ("access_key_id" in values) != ("secret_access_key" in values):
        first, second = named("access_key_id"), named("secret_access_key")
        raise BadRequest(f"only one of {first} and {second} is set; set both or neither")
    flags = {name: _flag(named(name), values[name]) for name in _FLAGS if name in values}
    if "endpoint" in values:
        _check_endpoint(named("endpoint"), values["endpoint"])
    texts = {name: text for name, text in values.items() if name not in _FLAGS}
    return S3Options(**texts, **flags, endpoint_from=endpoint_from)  # type: ignore[arg-type]


def _flag(name: str, text: str) -> bool:
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise BadRequest(f'{name} is "{text}"; set it to true or false, or unset it')


def _check_endpoint(name: str, endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        has_credentials = parts.username is not None or parts.password is not None
    except ValueError:
        raise BadRequest(
            f"{name} is no URL; write it as https://host or http://host:port"
        ) from None
    if has_credentials:
        raise BadRequest(f"{name} has credentials in it; give them as keys of their own")
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise BadRequest(f'{name} is "{endpoint}"; write it as https://host or http://host:port')

"""Under which names a server answers, and the address at which a caller knows it.

A web page can make the browser of its visitor send requests to any address that visitor reaches, also by
a name of its own that it lets point there. Without tokens that would be enough. So an open server answers
only to names that no other site can have (its own address, the loopback names, those that it was
given), and to no page of another origin.

Behind a proxy the caller knows another address. What the proxy says about it counts only if it comes
from where the operator said that proxies are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

from omnigraph.errors import BadRequest
from omnigraph.server.refusals import Refusal

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Names that every machine has for itself."""

Scope = Mapping[str, Any]
"""The scope of a request, as ASGI has it."""
Network = IPv4Network | IPv6Network
Named = tuple[str, tuple[tuple[bytes, bytes], ...]]
"""The scheme of a request, and its headers `Host` and `Origin`."""

_AUTHORITY: Final = re.compile(
    r"(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])\.?(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+")
_PORTS: Final = {"http": 80, "https": 443}
_LONGEST: Final = 255
_REMEMBERED: Final = 64
"""How many ways to name this server are remembered: clients choose them."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A host as a `Host` header names it: a name or address, and a port unless it is the usual one."""

    name: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Authority | None:
        """Return the host that a text names, in small letters and without a dot at its end."""
        found = _AUTHORITY.fullmatch(text) if len(text) <= _LONGEST else None
        if found is None:
            return None
        port = None if found["port"] is None else int(found["port"])
        return None if port is not None and port > 65_535 else cls(found["name"].lower(), port)

    def __str__(self) -> str:
        return self.name if self.port is None else f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class HostRules:
    """What a server was told about its names when it was started.

    ``bound`` is the address it listens on, ``allowed`` are further names, each for all ports unless it
    has one, ``proxies`` the networks whose `X-Forwarded-*` headers count.
    """

    bound: Authority
    allowed: tuple[Authority, ...] = ()
    proxies: tuple[Network, ...] = field(default=())
    _let_in: set[Named] = field(default_factory=set, init=False, compare=False, repr=False)
    _urls: dict[Named, str] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What was found out about the hosts and origins that most requests name; without proxies these say all."""

    def check(self, scope: Scope, open_mode: bool) -> Refusal | None:
        """Return why a request is refused for its `Host` or `Origin`, or None; tokens need neither."""
        if not open_mode:
            return None
        named_so = _named(scope)
        if named_so in self._let_in:
            return None
        # Both: a page under a foreign name may set any other header than `Host`.
        named = [_header(scope, b"host") or ""]
        if (forwarded := self._forwarded(scope, b"x-forwarded-host")) is not None:
            named.append(forwarded)
        for text in named:
            if not self._answers_to(Authority.parse(text)):
                return Refusal(
                    421,
                    "host_not_allowed",
                    f"this server does not answer to the host {_shown(text)}; use the address it listens "
                    "on, or start it with --allow-host",
                )
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if any(origin.decode("latin-1").lower() != self._origin(scope) for origin in origins):
            return Refusal(
                403,
                "foreign_origin",
                "the request comes from a page of another origin; a server without tokens answers to "
                "none, so start it with tokens",
            )
        if not self.proxies and len(self._let_in) < _REMEMBERED:
            self._let_in.add(named_so)
        return None

    def base_url(self, scope: Scope) -> str:
        """Return the address under which the caller knows this server, without a slash at its end."""
        named_so = _named(scope)
        url = self._urls.get(named_so)
        if url is None:
            url = f"{self._origin(scope)}{self._prefix(scope)}"
            if not self.proxies and len(self._urls) < _REMEMBERED:
                self._urls[named_so] = url
        return url

    def _answers_to(self, host: Authority | None) -> bool:
        if host is None:
            return False
        if host.name in LOOPBACK_NAMES or host.name == self.bound.name:
            return True
        return any(
            known.name == host.name and known.port in {None, host.port} for known in self.allowed
        )

    def _origin(self, scope: Scope) -> str:
        """The scheme and host of a request, as browsers write the origin of a page."""
        scheme = self._forwarded(scope, b"x-forwarded-proto")
        if scheme not in _PORTS:
            scheme = str(scope.get("scheme", "http"))
        named = (self._forwarded(scope, b"x-forwarded-host"), _header(scope, b"host"))
        hosts = (None if text is None else Authority.parse(text) for text in named)
        host = next((each for each in hosts if each is not None), self.bound)
        return f"{scheme}://{host.name if host.port == _PORTS.get(scheme) else host}"

    def _prefix(self, scope: Scope) -> str:
        given = (self._forwarded(scope, b"x-forwarded-prefix") or "").rstrip("/")
        return given if _PREFIX.fullmatch(given) else ""

    def _forwarded(self, scope: Scope, name: bytes) -> str | None:
        """Return what a trusted proxy says; of several words the last, which the nearest one said."""
        client = scope.get("client")
        if not self.proxies or not client or not _lies_in(client[0], self.proxies):
            return None
        said = _header(scope, name)
        return None if said is None else said.rpartition(",")[2].strip() or None


def parse_allowed_host(text: str) -> Authority:
    """Return a name that an operator allows; ``BadRequest`` if it cannot be the name of a host."""
    bare = f"[{text}]" if ":" in text and _is_ipv6(text) else text
    host = Authority.parse(bare)
    if host is None:
        raise BadRequest(
            f"--allow-host {text} is no host; give a name such as graph.example.com, with a port if "
            "only that one counts"
        )
    return host


def parse_proxy(text: str) -> Network:
    """Return the network of trusted proxies; ``BadRequest`` if the text is none."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise BadRequest(
            f"--trusted-proxy {text} is no network; give a CIDR such as 10.0.0.0/8"
        ) from None


def is_loopback(address: str) -> bool:
    """Whether an address is reached from its own machine alone."""
    try:
        return _plain(ip_address(address)).is_loopback
    except ValueError:
        return address == "localhost"


def authority_of(address: str, port: int) -> Authority:
    """Return an address of a socket as headers write it."""
    return Authority(f"[{address}]" if _is_ipv6(address) else address, port)


def _is_ipv6(text: str) -> bool:
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False


def _lies_in(address: str, networks: Iterable[Network]) -> bool:
    try:
        place = _plain(ip_address(address))
    except ValueError:
        return False
    return any(place in network for network in networks if network.version == place.version)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An address of IPv4 that came through a socket of IPv6 is one of IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _named(scope: Scope) -> Named:
    pairs = [pair for pair in scope["headers"] if pair[0] == b"host" or pair[0] == b"origin"]
    return str(scope.get("scheme", "http")), tuple(pairs)


def _header(scope: Scope, name: bytes) -> str | None:
    """The value of a header; several are one list."""
    values: Sequence[bytes] = [value for key, value in scope["headers"] if key == name]
    return b",".join(values).decode("latin-1").strip() if values else None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")

"""What every error of the product has in common: its message, its JSON body, and the way back from one.

The classes themselves are in ``errors``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from omnigraph.spans import Span, underline

_BY_KIND: dict[str, type[OmniGraphError]] = {}
"""The classes by the ``kind`` of their bodies. A class that only narrows another one has none of its own."""
_KIND_OF_CODE = {
    "unauthorized": "unauthenticated",
    "forbidden": "policy_denied",
    "bad_request": "bad_request",
    "not_found": "not_found",
    "conflict": "conflict",
    "too_many_requests": "too_many_requests",
}
_KIND_OF_STATUS = {
    400: "bad_request",
    401: "unauthenticated",
    403: "policy_denied",
    404: "not_found",
    409: "conflict",
    410: "gone",
    413: "resource_limit",
    429: "too_many_requests",
}
_ANY_ANSWER = "api"


class OmniGraphError(Exception):
    """Base of every error the product raises on purpose.

    Attributes of the classes: ``code`` is the stable name of the error, ``label`` a prefix of the text,
    ``wire_detail`` the key of the details in a JSON body, ``fields`` the details that must be
    given.
    """

    code: str = "internal"
    label: str | None = None
    http_status: int = 500
    wire_code: str | None = "internal"
    wire_detail: ClassVar[str | None] = None
    exit_code: ClassVar[int] = 1
    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in vars(cls):
            _BY_KIND.setdefault(cls.code, cls)

    def __init__(self, message: str, **details: Any) -> None:
        missing = [name for name in self.fields if name not in details]
        if missing:
            raise TypeError(f"{type(self).__name__} needs the details {', '.join(missing)}")
        self.message = shortened(_printable(message))
        self.details: dict[str, Any] = {name: _told(fact) for name, fact in details.items()}
        super().__init__(f"{self.label}: {self.message}" if self.label else self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the shown text and the attributes; details that never arrived are not asked for again."""
        return _rebuild, (type(self), str(self)), self.__dict__

    def advise(self, text: str) -> None:
        """Add a next step to the message."""
        self.message = shortened(f"{self.message}; {text}")
        self.args = (f"{self.label}: {self.message}" if self.label else self.message,)

    def body(self) -> dict[str, Any]:
        """Return the JSON body of this error for HTTP, and for ``--json`` on the command line."""
        body: dict[str, Any] = {"error": str(self), "kind": self.code}
        if self.wire_code is not None:
            body["code"] = self.wire_code
        if self.wire_detail is not None and (detail := self._wire_fields()):
            body[self.wire_detail] = detail
        return body

    @staticmethod
    def from_body(body: object, status: int) -> OmniGraphError:
        """Return the error that a server answered: ``body`` is its JSON body, ``status`` that of HTTP.

        The class is chosen by ``kind``, then ``code``, then the status; what none of them names is an
        ``ApiError``. Details that the body does not have are absent.
        """
        members: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
        told, kind, code = (_text(members.get(name)) for name in ("error", "kind", "code"))
        known = kind in _BY_KIND
        nearest = kind if known else _nearest_kind(code, status)
        chosen = _BY_KIND[nearest or _ANY_ANSWER]
        text = f"the server answered {status}" if told is None else _printable(told)
        error = chosen.__new__(chosen, text)
        if chosen.label is not None and not text.startswith(f"{chosen.label}: "):
            error.label = None
        error.message = text if error.label is None else text.removeprefix(f"{error.label}: ")
        error.details = {}
        error.read_body(members)
        if not known:
            error.http_status = status
        if nearest is not None and not known:
            # A newer server may tell more kinds apart; a program can still see which one it was.
            error.code, error.wire_code = kind or error.code, code
        return error

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Take the details out of a body; a member of another form than ours is left alone."""
        if self.wire_detail is not None and isinstance(detail := body.get(self.wire_detail), dict):
            self.details |= detail

    def diagnostic(self) -> dict[str, Any]:
        """Return what an editor shows beside the message: the kind of error and its place, if known."""
        return {"kind": self.code}

    def _wire_fields(self) -> Any:
        return dict(self.details)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _nearest_kind(code: str | None, status: int) -> str | None:
    """Return the kind whose class stands for an unknown one; None if there is none."""
    return _KIND_OF_STATUS.get(status) if code is None else _KIND_OF_CODE.get(code)


def _rebuild(kind: type[OmniGraphError], text: str) -> OmniGraphError:
    return kind.__new__(kind, text)


_WORD = 1_000
_SHOWN_OF_WORD = 200
_MESSAGE = 4_000
_SHOWN_AT_END = 1_000
_LONGEST_FACT = 4_096
_LONG_WORDS = re.compile(rf"\S{{{_WORD + 1},}}")


def shortened(message: str) -> str:
    """Cut what a message quotes, which may be of any length: names, values, lines.

    A very long word (paths are shorter) is cut to its beginning, a message that is still too long in its
    middle, because its end says what to do. Whatever quotes a value by itself, as ``types.shown`` does, cuts it
    sooner.
    """
    if len(message) <= _WORD:
        return message
    message = _LONG_WORDS.sub(lambda word: f"{word[0][:_SHOWN_OF_WORD]}…", message)
    if len(message) <= _MESSAGE:
        return message
    return f"{message[: _MESSAGE - _SHOWN_AT_END]} … {message[-_SHOWN_AT_END:]}"


def _told(fact: Any) -> Any:
    """Cut a text that somebody sent as a name: no name, address or cursor of ours is that long."""
    return shortened(fact) if isinstance(fact, str) and len(fact) > _LONGEST_FACT else fact


def _printable(message: str) -> str:
    """Return the message with lone surrogates escaped: quoted names may have them, UTF-8 may not."""
    return message if message.isascii() else message.encode(errors="backslashreplace").decode()


class SourceError(OmniGraphError):
    """An error in schema or query text. ``render()`` shows the line with the fault underlined."""

    http_status = 400
    wire_code = "bad_request"

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        source: str | None = None,
        filename: str | None = None,
        hint: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.span = span
        self.source = source
        self.filename = filename
        self.hint = None if hint is None else shortened(hint)
        self._note_snippet()

    def advise(self, text: str) -> None:
        """Add a next step to the hint."""
        self.hint = shortened(text if self.hint is None else f"{self.hint}; {text}")
        self.__notes__ = []
        self._note_snippet()

    def shown_in(self, source: str, filename: str | None = None) -> Self:
        """Return this error with the text that it is about, so that it shows the fault underlined.

        An error that came from a server has its place in the text, and not the text.
        """
        if self.source is None:
            self.source, self.filename = source, filename
            self._note_snippet()
        return self

    def body(self) -> dict[str, Any]:
        """Return the JSON body, with the place in the source, the broken rule, and the hint."""
        body = super().body()
        if self.hint is not None:
            body["hint"] = self.hint
        for name in ("rule", "query"):
            if self.details.get(name) is not None:
                body[name] = self.details[name]
        if self.span is not None:
            body["span"] = self.span.to_json()
        return body

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Take the place, the hint, the rule and the name of the query out of a body."""
        super().read_body(body)
        self.span = _span_of(body.get("span"))
        self.source = self.filename = None
        self.hint = _text(body.get("hint"))
        self.details |= {name: body[name] for name in ("rule", "query") if name in body}

    def diagnostic(self) -> dict[str, Any]:
        """Return the kind of error with the rule it breaks, a hint, and the place in the source."""
        span = None if self.span is None else self.span.to_json()
        facts = {"rule": self.details.get("rule"), "hint": self.hint, "span": span}
        known = {name: value for name, value in facts.items() if value is not None}
        return {**super().diagnostic(), **known}

    def render(self) -> str:
        """Return the message, the place, the source line with an underline, and a hint."""
        return "\n".join([str(self), *self._snippet()])

    def _note_snippet(self) -> None:
        if self.span is not None and self.source is not None:
            self.add_note("\n".join(self._snippet()))

    def _snippet(self) -> Iterator[str]:
        if self.span is not None and self.source is not None:
            yield from underline(self.source, self.span, self.filename)
        if self.hint is not None:
            yield f"  = hint: {self.hint}"


def _span_of(place: object) -> Span | None:
    """Return the place that a body names; None if it is not one."""
    if not isinstance(place, dict):
        return None
    numbers = [place.get(name) for name in ("start", "end", "line", "column")]
    if any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
        return None
    return Span(*(number for number in numbers if isinstance(number, int)))

"""What an S3 store says is wrong, without what it repeats of the request.

The body of such an answer may hold the key or the token that the request was signed with
(`<Token-0>…`), and Lance and obstore put it into the texts of their exceptions.
"""

from __future__ import annotations

import re

_BODY = re.compile(r"(?:<\?xml[^>]*>\s*)?<Error\b.*?(?:</Error>|\Z)", re.DOTALL)
_SAID = re.compile(r"<(Code|Message)>(.*?)</\1>", re.DOTALL)


def without_body(text: str) -> str:
    """Return a message in which the body of an answer is its code and its sentence."""
    return _BODY.sub(_said, text)


def _said(body: re.Match[str]) -> str:
    return ": ".join(part.strip() for _, part in _SAID.findall(body[0])) or "no reason was given"


def missing_bucket(error: BaseException) -> str | None:
    """Return what to say if a store answers that there is no such bucket; None for any other failure."""
    if "NoSuchBucket" not in str(error):
        return None
    return "there is no such bucket; create it, or correct the address or the endpoint"


def shown_cause(error: BaseException) -> BaseException | None:
    """Return an exception as the cause of ours; None if its text must not be shown."""
    return None if _BODY.search(str(error)) else error

"""Answers of S3 that repeat a request: the message says what is wrong, and no more."""

from __future__ import annotations

import traceback

import pytest
from obstore import exceptions

from omnigraph.errors import OmniGraphError
from omnigraph.storage.objects.store_errors import translate
from omnigraph.storage.store_kinds.known import shown_cause, without_body
from omnigraph.storage.tables.table_errors import lance_errors

SECRET = "FwoGZXIvYXdzEBYaD"
BODY = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InvalidToken</Code><Message>The provided token '
    f"is malformed.</Message>\n<Token-0>{SECRET}</Token-0><HostId>x</HostId></Error>"
)
SAID = "InvalidToken: The provided token is malformed."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            f"status code: 400 Bad Request: {BODY}; again",
            f"status code: 400 Bad Request: {SAID}; again",
        ),
        (f"cut off: {BODY[: BODY.index('</Token-0>')]}", f"cut off: {SAID}"),
        (f"no words: <Error><Token-0>{SECRET}", "no words: no reason was given"),
        ("an Error of <Errors> another kind", "an Error of <Errors> another kind"),
    ],
)
def test_of_a_body_only_its_code_and_sentence_are_left(text, shown):
    assert without_body(text) == shown


def test_neither_messages_nor_tracebacks_show_what_a_store_repeats():
    failure = OSError(f"LanceError(IO): Generic S3 error: 400 Bad Request: {BODY}, /x/y.rs:1:2")
    with pytest.raises(OmniGraphError, match="malformed") as caught, lance_errors("opening g"):
        raise failure
    shown = [*traceback.format_exception(caught.value), str(caught.value.details)]
    listed = translate(exceptions.GenericError(str(failure)), "list", "a", "s3://b")
    shown += [str(listed), str(listed.details)]
    assert not [text for text in shown if SECRET in text]
    assert shown_cause(failure) is None
    other = OSError("disk full")
    assert shown_cause(other) is other

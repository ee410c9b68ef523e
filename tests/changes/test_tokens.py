"""Cursors and page tokens: what they carry comes back, and nothing else is accepted."""

import re
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.changes import cursors
from omnigraph.changes.cursors import (
    MAX_LENGTH,
    ChangePlace,
    CommitToken,
    CursorToken,
    DiffToken,
    FeedToken,
    TokenScope,
    filter_digest,
    read_token,
    write_token,
)
from omnigraph.errors import CursorRejected

GRAPH = "6f1c2a52-0a53-4c0e-9a0e-3b2f7f1c2d11"
SCOPE = TokenScope("01ARZ3NDEKTSV4RRFFQ69G5FAV", "review/may", "0b9f", filter_digest([]))
CURSOR = CursorToken(SCOPE, "01ARZ3NDEKTSV4RRFFQ69G5FB0")
PLACE = ChangePlace.of("node", "Ship", "S1")
TOKENS = [
    CURSOR,
    FeedToken(SCOPE, CURSOR.after, "01ARZ3NDEKTSV4RRFFQ69G5FB1", SCOPE.filter, PLACE),
    CommitToken(CURSOR.after, SCOPE.filter, PLACE),
    DiffToken(CURSOR.after, "01ARZ3NDEKTSV4RRFFQ69G5FB1", SCOPE.filter, PLACE),
]
KINDS = st.sampled_from(TOKENS)


@given(st.text(), st.text(max_size=200), KINDS)
def test_a_token_comes_back_whatever_the_ids_are(id, branch, token):
    place = ChangePlace.of("edge", "CallsAt", id)
    if isinstance(token, CursorToken):
        token = CursorToken(TokenScope(SCOPE.root, branch, "", SCOPE.filter), CURSOR.after)
    else:
        token = replace(token, place=place)
    text = write_token(GRAPH, token)
    assert read_token(GRAPH, text, type(token)) == token
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)


@given(st.text(alphabet='\x00\\"é😀a', min_size=100, max_size=3000))
def test_a_token_stays_short_and_finds_its_place(id):
    place = ChangePlace.of("node", "Ship", id)
    text = write_token(GRAPH, FeedToken(SCOPE, CURSOR.after, CURSOR.after, SCOPE.filter, place))
    assert len(text) <= MAX_LENGTH
    assert place.is_at("node", "Ship", id)
    assert not place.is_at("node", "Ship", id + "x")
    assert not place.is_at("edge", "Ship", id)
    assert id.startswith(place.id)


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.kind)
def test_every_changed_character_is_noticed(token):
    text = write_token(GRAPH, token)
    alphabet = string.ascii_letters + string.digits + "-_=+/. "
    for at, old in enumerate(text):
        for new in alphabet:
            if new != old:
                with pytest.raises(CursorRejected):
                    read_token(GRAPH, text[:at] + new + text[at + 1 :], type(token))
    for wrong in ("", text[:-1], text[1:], text + "A", text + "=", text + "\n", " " + text):
        with pytest.raises(CursorRejected, match=r"^change cursor rejected: "):
            read_token(GRAPH, wrong, type(token))


def test_tokens_are_bound_to_their_graph_and_kind():
    for token in TOKENS:
        text = write_token(GRAPH, token)
        with pytest.raises(CursorRejected, match="another graph"):
            read_token(GRAPH[::-1], text, type(token))
        for other in TOKENS:
            if other is not token:
                with pytest.raises(CursorRejected, match="is needed here"):
                    read_token(GRAPH, text, type(other))


@pytest.mark.parametrize("wrong", [None, 7, b"bytes", ["x"], "x" * 5000, "é"])
def test_what_is_no_token(wrong):
    with pytest.raises(CursorRejected):
        read_token(GRAPH, wrong, CursorToken)


FORGED = [
    b"",
    b"[]",
    b"{}",
    b"null",
    b'["nobody"]',
    b'[["cursor"]]',
    b'["cursor",["r","main","","f"]]',
    b'["cursor",["r","main","","f"],"a","b"]',
    b'["cursor",["r","main","","f"],7]',
    b'["cursor",null,"a"]',
    b'["cursor", ["r","main","","f"], "a"]',
    b'["cursor",["r","main","","\\ud800"],"a"]',
    b"[" * 2000,
    b"\xff",
]


@pytest.mark.parametrize("body", FORGED)
def test_what_we_never_wrote_is_refused_although_its_check_sum_is_right(body):
    text = cursors._encode(cursors._check(GRAPH, body) + body)
    with pytest.raises(CursorRejected, match="damaged"):
        read_token(GRAPH, text, CursorToken)

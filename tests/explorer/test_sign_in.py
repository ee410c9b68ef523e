"""The code of `omnigraph ui`: good once, for two minutes, and never after five wrong ones."""

import pytest

from omnigraph.errors import BadRequest, Unauthenticated
from omnigraph.explorer.sign_in import SignIn, Visitor
from omnigraph.server.refusals import Refusal

JSON = b"application/json"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sign_in(clock):
    return SignIn(Visitor("ines", "default", "read-write"), clock)


def sent(code):
    return b'{"code": "%b"}' % code.encode()


def test_a_code_is_exchanged_for_the_token(sign_in):
    answer = sign_in.exchange(JSON, sent(sign_in.new_code()))
    assert {name: answer[name] for name in ("actor_id", "graph_id", "mode")} == {
        "actor_id": "ines",
        "graph_id": "default",
        "mode": "read-write",
    }
    assert sign_in.verify(answer["token"]) == "ines"
    assert sign_in.verify("another") is None


def test_a_code_works_once(sign_in):
    code = sign_in.new_code()
    sign_in.exchange(JSON, sent(code))
    with pytest.raises(Unauthenticated, match="Enter"):
        sign_in.exchange(JSON, sent(code))


@pytest.mark.parametrize(("seconds", "works"), [(120, True), (120.1, False)])
def test_a_code_is_good_for_two_minutes(sign_in, clock, seconds, works):
    code = sign_in.new_code()
    clock.now += seconds
    if works:
        assert sign_in.exchange(JSON, sent(code))["token"]
    else:
        with pytest.raises(Unauthenticated):
            sign_in.exchange(JSON, sent(code))


@pytest.mark.parametrize(("wrong", "works"), [(4, True), (5, False)])
def test_five_wrong_codes_void_the_right_one_until_there_is_a_new_one(sign_in, wrong, works):
    code = sign_in.new_code()
    for _ in range(wrong):
        with pytest.raises(Unauthenticated):
            sign_in.exchange(JSON, sent("x" * 22))
    if works:
        assert sign_in.exchange(JSON, sent(code))["token"]
        return
    with pytest.raises(Unauthenticated):
        sign_in.exchange(JSON, sent(code))
    assert sign_in.exchange(JSON, sent(sign_in.new_code()))["token"]


def test_a_new_code_replaces_the_one_before(sign_in):
    before, after = sign_in.new_code(), sign_in.new_code()
    with pytest.raises(Unauthenticated):
        sign_in.exchange(JSON, sent(before))
    assert sign_in.exchange(JSON, sent(after))["token"]


def test_without_a_code_nothing_is_taken(sign_in):
    for text in ("", "\0"):
        with pytest.raises((Unauthenticated, BadRequest)):
            sign_in.exchange(JSON, sent(text))


def test_a_code_has_128_bits_and_differs_every_time(sign_in):
    codes = {sign_in.new_code() for _ in range(50)}
    assert len(codes) == 50
    assert {len(code) for code in codes} == {22}  # 16 bytes in base 64


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"code": 1}', b'{"kode": ""}', b"\xff", b"[" * 9000]
)
def test_other_bodies_are_refused(sign_in, body):
    with pytest.raises(BadRequest):
        sign_in.exchange(JSON, body)


@pytest.mark.parametrize("media_type", [b"text/plain", b"", b"application/x-www-form-urlencoded"])
def test_another_media_type_is_refused_before_the_code_is_looked_at(sign_in, media_type):
    code = sign_in.new_code()
    with pytest.raises(Refusal) as refused:
        sign_in.exchange(media_type, sent(code))
    assert refused.value.status == 415
    assert sign_in.exchange(b"application/json; charset=utf-8", sent(code))["token"]


def test_nothing_of_it_is_shown(sign_in):
    code = sign_in.new_code()
    token = sign_in.exchange(JSON, sent(code))["token"]
    assert code not in repr(sign_in)
    assert token not in repr(sign_in)


def test_whoever_shows_the_code_is_told_that_it_was_used(sign_in):
    told = []
    sign_in.used = lambda: told.append("used")
    code = sign_in.new_code()
    with pytest.raises(Unauthenticated):
        sign_in.exchange(JSON, sent("wrong"))
    assert told == []
    sign_in.exchange(JSON, sent(code))
    assert told == ["used"]

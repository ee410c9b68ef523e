"""Tokens: what a table accepts, what it keeps, and one comparison for whoever asks."""

import hashlib
import hmac
import json
import pickle
import traceback

import pytest

from omnigraph.errors import BadRequest
from omnigraph.server.tokens import TokenTable, presented_token, tokens_from_environment

ALONE = "OMNIGRAPH_SERVER_BEARER_TOKEN"
FILE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
JSON = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"


class TestSources:
    def test_without_any_there_is_no_table(self):
        assert tokens_from_environment() is None

    @pytest.mark.parametrize("text", ["", "   "])
    def test_an_empty_variable_counts_as_unset(self, text, monkeypatch):
        for variable in (ALONE, FILE, JSON):
            monkeypatch.setenv(variable, text)
        assert tokens_from_environment() is None

    def test_an_object_without_actors_is_no_table(self, monkeypatch):
        monkeypatch.setenv(JSON, "{}")
        assert tokens_from_environment() is None

    def test_a_token_alone_is_that_of_the_default_actor(self, monkeypatch):
        monkeypatch.setenv(ALONE, " t-0 ")
        assert tokens_from_environment().verify("t-0") == "default"

    def test_it_stands_beside_those_of_the_others(self, monkeypatch):
        monkeypatch.setenv(ALONE, "t-0")
        monkeypatch.setenv(JSON, json.dumps({" ada ": " t-ada\n", "bob@x.org": "t-bob"}))
        table = tokens_from_environment()
        assert [table.verify(token) for token in ("t-0", "t-ada", "t-bob", " t-ada ", "t", "")] == [
            "default",
            "ada",
            "bob@x.org",
            None,
            None,
            None,
        ]
        assert len(table) == 3

    def test_a_file_wins_over_the_text(self, monkeypatch, tmp_path):
        path = tmp_path / "tokens.json"
        path.write_text('{"ada": "from-file"}')
        monkeypatch.setenv(FILE, str(path))
        monkeypatch.setenv(JSON, '{"ada": "from-text"}')
        table = tokens_from_environment()
        assert (table.verify("from-file"), table.verify("from-text")) == ("ada", None)

    def test_the_file_is_read_once(self, monkeypatch, tmp_path):
        path = tmp_path / "tokens.json"
        path.write_text('{"ada": "first"}')
        monkeypatch.setenv(FILE, str(path))
        table = tokens_from_environment()
        path.write_text('{"ada": "second"}')
        assert (table.verify("first"), table.verify("second")) == ("ada", None)


SECRET = "s3cr3t-of-ada"

FAULTS = {
    "no JSON": f'{{"ada": {SECRET}}}',
    "an array": f'["{SECRET}"]',
    "a text": f'"{SECRET}"',
    "null": "null",
    "nested without end": "[" * 100_000,
    "a blank actor": f'{{" ": "{SECRET}"}}',
    "an actor twice": f'{{"ada": "{SECRET}", "ada": "other"}}',
    "an actor twice, once with blanks": f'{{"ada": "{SECRET}", " ada": "other"}}',
    "a blank token": '{"ada": "  "}',
    "a token twice": f'{{"ada": "{SECRET}", "bob": " {SECRET} "}}',
    "a number for a token": '{"ada": 17}',
    "an object for a token": f'{{"ada": {{"token": "{SECRET}"}}}}',
    "a reserved actor": f'{{"omnigraph:maintenance": "{SECRET}"}}',
    "a token over two lines": f'{{"ada": "{SECRET}\\nx"}}',
    "a token with a blank": f'{{"ada": "{SECRET} x"}}',
    "half a character": f'{{"ada": "{SECRET}\\ud800"}}',
}


class TestFaults:
    @pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
    def test_a_faulty_table_is_refused_and_no_token_told(self, text, monkeypatch):
        monkeypatch.setenv(JSON, text)
        with pytest.raises(BadRequest) as caught:
            tokens_from_environment()
        told = "".join(traceback.format_exception(caught.value, chain=True))
        assert SECRET not in f"{caught.value}{caught.value.details}{told}"

    @pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
    def test_as_a_file_it_is_named(self, text, monkeypatch, tmp_path):
        path = tmp_path / "tokens.json"
        path.write_text(text)
        monkeypatch.setenv(FILE, str(path))
        with pytest.raises(BadRequest) as caught:
            tokens_from_environment()
        assert SECRET not in str(caught.value)

    def test_a_file_that_is_not_there_or_unreadable(self, monkeypatch, tmp_path):
        for place in (tmp_path / "none.json", tmp_path):
            monkeypatch.setenv(FILE, str(place))
            with pytest.raises(BadRequest, match=f"{place}.*{FILE}"):
                tokens_from_environment()

    def test_a_file_that_is_no_text(self, monkeypatch, tmp_path):
        path = tmp_path / "tokens.json"
        path.write_bytes(b'{"ada": "\xff"}')
        monkeypatch.setenv(FILE, str(path))
        with pytest.raises(BadRequest, match="UTF-8"):
            tokens_from_environment()

    def test_the_default_actor_twice(self, monkeypatch):
        monkeypatch.setenv(ALONE, "t-0")
        monkeypatch.setenv(JSON, '{"default": "t-1"}')
        with pytest.raises(BadRequest, match="`default` has two tokens"):
            tokens_from_environment()

    def test_the_token_alone_given_to_another_too(self, monkeypatch):
        monkeypatch.setenv(ALONE, "t-0")
        monkeypatch.setenv(JSON, '{"ada": "t-0"}')
        with pytest.raises(BadRequest, match="`default` and `ada`"):
            tokens_from_environment()


class TestTable:
    def test_it_holds_digests_only(self):
        table = TokenTable({"ada": SECRET})
        kept = repr(table) + str(table) + repr(table._actors)
        assert SECRET not in kept
        assert SECRET.encode() not in pickle.dumps(table._actors)
        assert hashlib.sha256(SECRET.encode()).digest() in table._actors

    @pytest.mark.parametrize("token", [SECRET, "unknown", "", "\udcff", "é", "x" * 100_000])
    def test_one_comparison_a_request_known_or_not(self, token, monkeypatch):
        compared = []
        real = hmac.compare_digest

        def counting(one, other):
            compared.append((len(one), len(other)))
            return real(one, other)

        table = TokenTable({"ada": SECRET, "bob": "other"})
        monkeypatch.setattr(hmac, "compare_digest", counting)
        assert table.verify(token) == ("ada" if token == SECRET else None)
        assert compared == [(32, 32)]

    def test_the_digest_of_the_dummy_is_nobodys(self):
        # Somebody who found a text with this digest would still have no actor.
        assert TokenTable({}).verify("") is None


class TestHeader:
    @pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER", b"bEaReR"])
    def test_the_scheme_is_read_in_any_case(self, scheme):
        assert presented_token([(b"authorization", scheme + b" t-ada ")]) == "t-ada"

    @pytest.mark.parametrize(
        "headers",
        [
            [],
            [(b"x-authorization", b"Bearer t")],
            [(b"authorization", b"")],
            [(b"authorization", b"Bearer")],
            [(b"authorization", b"Bearer   ")],
            [(b"authorization", b"Basic dDp0")],
            [(b"authorization", b"t-ada")],
            [(b"authorization", b"Bearer t-ada"), (b"authorization", b"Bearer t-ada")],
            [(b"authorization", b"Basic x"), (b"authorization", b"Bearer t-ada")],
        ],
    )
    def test_none_another_scheme_and_two_are_no_token(self, headers):
        assert presented_token(headers) is None

    def test_bytes_that_are_no_text_are_a_token_that_nobody_has(self):
        token = presented_token([(b"authorization", b"Bearer \xff\xfe")])
        assert token is not None
        assert TokenTable({"ada": SECRET}).verify(token) is None

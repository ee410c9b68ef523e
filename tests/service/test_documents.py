"""Documents that come in pieces."""

import json

import pytest

from omnigraph.service.documents import Streamed, ascii_json

WHOLE = {"a": {"b": [1, "é"]}, "items": [{"n": 1}, {"n": "日本 \U0001f600"}], "z": None}
TEXTS = [json.dumps(item, ensure_ascii=False) for item in WHOLE["items"]]


def streamed(*pieces, tail=None):
    return Streamed({"a": WHOLE["a"]}, "items", pieces, {"z": None} if tail is None else tail)


@pytest.mark.parametrize("pieces", [[TEXTS], [TEXTS[:1], [], TEXTS[1:]], [[], TEXTS]])
@pytest.mark.parametrize("pretty", [False, True])
def test_the_text_does_not_depend_on_the_pieces(pieces, pretty):
    text = "".join(streamed(*pieces).json_text(pretty=pretty))
    assert json.loads(text) == WHOLE == streamed(*pieces).collected()
    assert list(json.loads(text)) == list(WHOLE)
    assert text == "".join(streamed(TEXTS).json_text(pretty=pretty))


def test_a_pretty_text_has_an_item_on_each_line():
    text = "".join(Streamed({"n": 2}, "items", [["1", "2"]], {"z": []}).json_text(pretty=True))
    assert text == '{\n  "n": 2,\n  "items": [\n    1,\n    2\n  ],\n  "z": []\n}'
    assert "".join(Streamed({}, "items", []).json_text(pretty=True)) == '{\n  "items": []\n}'
    assert "".join(Streamed({}, "items", [[]]).json_text()) == '{"items":[]}'


def test_a_tail_may_be_known_at_the_end_only():
    seen = []

    def pieces():
        for number in range(3):
            seen.append(number)
            yield [str(number)]

    document = Streamed({}, "items", pieces(), lambda: {"last": seen[-1]})
    assert json.loads("".join(document.json_text())) == {"items": [0, 1, 2], "last": 2}


def test_json_in_ascii_is_the_same_json():
    text = "".join(streamed(TEXTS).json_text())
    assert not text.isascii()
    assert ascii_json(text).isascii()
    assert json.loads(ascii_json(text)) == WHOLE

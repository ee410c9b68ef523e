"""The formats of `query --format`."""

import csv
import io
import json

import pytest

import omnigraph as og
from omnigraph.cli.formats import Format, TableStyle, render
from omnigraph.manifest.snapshot import Target
from omnigraph.service.query import read_output
from omnigraph.types import Scalar
from tests.made_results import PEOPLE, one, result, typed


def text_of(answer, format, **options):
    return "".join(render(read_output(answer), format, **options))


def table_of(answer):
    return text_of(answer, Format.TABLE)


def test_json_is_the_document():
    text = text_of(one(Scalar.U64, 2**60), Format.JSON)
    assert json.loads(text) == read_output(one(Scalar.U64, 2**60)).collected()
    assert text.endswith("\n}\n")


def test_jsonl_is_a_line_about_the_result_and_one_per_row():
    head, *rows = text_of(result(PEOPLE), Format.JSONL).splitlines()
    assert json.loads(head) == {
        "kind": "metadata",
        "query_name": "q",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 2,
    }
    assert [json.loads(row) for row in rows] == result(PEOPLE).rows


def test_json_can_be_plain_ascii():
    answer = one(Scalar.STRING, "é")
    assert "é" in text_of(answer, Format.JSONL)
    assert text_of(answer, Format.JSONL, ascii_only=True).isascii()
    assert text_of(answer, Format.JSON, ascii_only=True).isascii()


def test_objects_are_json_in_a_cell(tmp_path):
    schema = "node Person { name: String @key  age: I64? }"
    with og.init(tmp_path / "g", schema) as graph:
        graph.load([{"type": "Person", "data": {"name": "ada", "age": 2**60}}])
        answer = graph.query("match { $p: Person } return { $p { * }, collect($p.age) as ages }")
    shown = '{"name":"ada","age":"1152921504606846976"}'
    head, row = csv.reader(io.StringIO(text_of(answer, Format.CSV), newline=""))
    assert (head, row) == (["p", "ages"], [shown, '["1152921504606846976"]'])
    assert text_of(answer, Format.JSONL).splitlines()[1].startswith('{"p":' + shown)
    table = table_of(answer)
    assert shown in table
    assert "via (anonymous)" in table


def test_csv_quotes_what_it_must():
    answer = result(
        [
            ("a,b", *typed(Scalar.STRING, "plain", 'say "hi"', "two\nlines", "x,y", None)),
            ("n", *typed(Scalar.BOOL, True, False, None, True, True)),
            ("l", *typed(Scalar.STRING, ["a"], [], None, ["x", "y"], [None], is_list=True)),
        ]
    )
    assert text_of(answer, Format.CSV) == (
        '"a,b",n,l\n'
        'plain,true,"[""a""]"\n'
        '"say ""hi""",false,[]\n'
        '"two\nlines",null,null\n'
        '"x,y",true,"[""x"",""y""]"\n'
        "null,true,[null]\n"
    )


def test_csv_of_an_empty_text_is_still_a_row():
    assert text_of(one(Scalar.STRING, ""), Format.CSV) == 'x\n""\n'


def test_csv_of_many_rows_has_one_heading():
    answer = one(Scalar.I32, *range(20_000))
    assert text_of(answer, Format.CSV).split() == ["x", *map(str, range(20_000))]


def test_kv():
    assert text_of(result(PEOPLE), Format.KV) == (
        "2 rows from branch main via q\nrow 1\nname: Ada\nage: 36\nrow 2\nname: Bob\nage: null\n"
    )


def test_kv_without_rows():
    answer = result([("x", *typed(Scalar.I32))], Target.of(snapshot="01X"))
    assert text_of(answer, Format.KV) == "0 rows from snapshot 01X via q\n(no rows)\n"


def test_a_table():
    assert text_of(result(PEOPLE, Target.of("dev", version=2)), Format.TABLE) == (
        "2 rows from branch dev at version 2 via q\n"
        "name | age\n"
        "-----+-----\n"
        "Ada  | 36\n"
        "Bob  | null\n"
    )


def test_a_table_without_rows_shows_its_columns():
    answer = result([("x", *typed(Scalar.I32)), ("yy", *typed(Scalar.I32))])
    assert text_of(answer, Format.TABLE) == "0 rows from branch main via q\nx | yy\n--+---\n"


def test_cells_stay_on_one_line_and_cannot_steer_a_terminal():
    answer = one(Scalar.STRING, "a\nb\t\x1b[31m\x9b\u202ered")
    line = text_of(answer, Format.TABLE).splitlines()[3]
    assert line == r"a\nb\t\x1b[31m\x9b\u202ered"
    assert line in text_of(answer, Format.KV)


def test_wide_characters_keep_the_columns_straight():
    answer = result([("n", *typed(Scalar.STRING, "日本", "abc")), ("m", *typed(Scalar.I32, 1, 2))])
    assert table_of(answer).splitlines()[3:] == ["日本 | 1", "abc  | 2"]


def test_joined_characters_and_spaces_are_left_alone():
    text = "👩\u200d🔬 a\u00a0b"
    assert text in table_of(one(Scalar.STRING, text))


def test_long_cells_are_cut():
    line = table_of(one(Scalar.STRING, "x" * 81)).splitlines()[3]
    assert line == "x" * 79 + "…"
    assert table_of(one(Scalar.STRING, "x" * 80)).splitlines()[3] == "x" * 80


@pytest.mark.parametrize("text", ["a\rb", "a\nb", 'a"b', "a,b", ""])
def test_csv_can_be_read_back_whatever_a_text_holds(text):
    written = text_of(one(Scalar.STRING, text, "next"), Format.CSV)
    assert list(csv.reader(io.StringIO(written, newline=""))) == [["x"], [text], ["next"]]


def test_cells_can_be_wrapped_instead():
    answer = [("a", *typed(Scalar.STRING, "abcdefgh", "日本語")), ("n", *typed(Scalar.I32, 1, 2))]
    style = TableStyle(column=4, wraps=True)
    assert text_of(result(answer), Format.TABLE, style=style).splitlines()[1:] == [
        "a    | n",
        "-----+--",
        "abcd | 1",
        "efgh |",
        "日本 | 2",
        "語   |",
    ]
    cut = text_of(result(answer), Format.TABLE, style=TableStyle(column=4))
    assert cut.splitlines()[3:] == ["abc… | 1", "日…  | 2"]

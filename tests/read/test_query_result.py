"""Query results: plain values, frames, renderings."""

import json
import math
import sys

import pyarrow as pa
import pytest

from omnigraph.errors import BadRequest
from omnigraph.manifest.snapshot import Target
from omnigraph.read.output.render import fitted, table_text
from omnigraph.types import Scalar
from tests.made_results import COMMIT, PEOPLE, one, result, typed


class TestValues:
    @pytest.mark.parametrize(
        ("scalar", "stored", "plain"),
        [
            (Scalar.STRING, "é\n", "é\n"),
            (Scalar.BOOL, True, True),
            (Scalar.I64, 2**63 - 1, 2**63 - 1),
            (Scalar.U64, 2**64 - 1, 2**64 - 1),
            (Scalar.F64, math.nan, "NaN"),
            (Scalar.F64, -math.inf, "-Infinity"),
            (Scalar.F32, 0.5, 0.5),
            (Scalar.DATE, 0, "1970-01-01"),
            (Scalar.DATETIME, 1, "1970-01-01T00:00:00.001Z"),
        ],
    )
    def test_rows_are_plain_json_and_nulls_keep_their_key(self, scalar, stored, plain):
        answer = one(scalar, stored, None)
        assert answer.rows == [{"x": plain}, {"x": None}]
        json.dumps(answer.rows, allow_nan=False)

    def test_lists_and_vectors(self):
        answer = one(Scalar.I32, [1, 2], [], is_list=True)
        assert [row["x"] for row in answer] == [[1, 2], []]
        vector = one(Scalar.F32, [1.0, math.inf], dim=2)
        assert vector.rows == [{"x": [1.0, None]}]

    def test_rows_are_made_once(self):
        answer = result(PEOPLE)
        assert answer.rows is answer.rows
        assert list(answer) == answer.rows
        assert len(answer) == answer.row_count == 2

    def test_an_empty_result_keeps_columns_and_types(self):
        answer = result([(name, kind, []) for name, kind, _ in PEOPLE])
        assert answer.rows == []
        assert answer.columns == ["name", "age"]
        assert answer.to_arrow().schema.types == [pa.utf8(), pa.int64()]
        assert str(answer.to_pandas()["age"].dtype) == "Int64"
        assert str(answer.to_polars()["age"].dtype) == "Int64"

    def test_the_envelope(self):
        answer = result(PEOPLE, Target.of(snapshot="01X"), "people")
        assert answer.to_json() == {
            "query_name": "people",
            "target": {"branch": None, "snapshot": "01X"},
            "row_count": 2,
            "columns": ["name", "age"],
            "rows": [{"name": "Ada", "age": 36}, {"name": "Bob", "age": None}],
            "graph_commit_id": COMMIT,
        }
        past = result(PEOPLE, Target.of("dev", version=3))
        assert past.to_json()["target"] == {"branch": "dev", "snapshot": None, "version": 3}

    def test_javascript_safe_integers(self):
        answer = one(Scalar.I64, 2**53 - 1, 2**53, -(2**53))
        values = [row["x"] for row in answer.to_json(js_safe=True)["rows"]]
        assert values == [2**53 - 1, str(2**53), str(-(2**53))]
        assert answer.to_json()["rows"][1]["x"] == 2**53


class TestFrames:
    def test_pandas_keeps_integers_beside_missing_values(self):
        frame = one(Scalar.I64, 2**53 + 1, None).to_pandas()
        assert frame["x"].iloc[0] == 2**53 + 1
        assert frame["x"].isna().tolist() == [False, True]

    def test_polars(self):
        assert result(PEOPLE).to_polars().rows() == [("Ada", 36), ("Bob", None)]

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_a_missing_library_is_named_with_the_way_out(self, library, monkeypatch):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(BadRequest, match=f"pip install {library}"):
            getattr(result(PEOPLE), f"to_{library}")()


class TestRenderings:
    def test_wide_characters_keep_the_columns_straight(self):
        answer = result(
            [("n", *typed(Scalar.STRING, "日本", "abc")), ("m", *typed(Scalar.I32, 1, 2))]
        )
        assert table_text(answer).splitlines()[3:] == ["日本 | 1", "abc  | 2"]

    def test_joined_characters_and_spaces_are_left_alone(self):
        text = "👩\u200d🔬 a\u00a0b"
        assert text in table_text(one(Scalar.STRING, text))

    def test_long_cells_are_cut(self):
        line = table_text(one(Scalar.STRING, "x" * 81)).splitlines()[3]
        assert line == "x" * 79 + "…"
        assert table_text(one(Scalar.STRING, "x" * 80)).splitlines()[3] == "x" * 80

    def test_the_widest_columns_give_way_to_the_screen(self):
        assert fitted([4, 50, 30], 60) == [4, 25, 25]
        assert fitted([4, 50, 30], None) == [4, 50, 30]
        assert fitted([4, 50], 200) == [4, 50]
        assert fitted([4, 50, 50], 10) == [4, 8, 8]

    def test_repr_shows_the_first_rows_and_counts_the_rest(self):
        shown = repr(one(Scalar.I32, *range(25)))
        lines = shown.splitlines()
        assert lines[0] == "25 rows from branch main via q"
        assert lines[3:] == [*map(str, range(10)), "… 15 more"]
        assert "more" not in repr(one(Scalar.I32, *range(10)))

    def test_html_is_escaped(self):
        shown = result([("<b>", *typed(Scalar.STRING, "<script>"))])._repr_html_()
        assert "<th>&lt;b&gt;</th>" in shown
        assert "<td>&lt;script&gt;</td>" in shown
        assert "<script>" not in shown

"""Query results: plain values, frames, renderings."""

import json
import math
import sys

import pyarrow as pa
import pytest

from omnigraph.display.text import fitted
from omnigraph.errors import BadRequest
from omnigraph.manifest.snapshot import Target
from omnigraph.types import Scalar
from tests.display.html_tables import HtmlTable
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
            "as_of": None,
            "row_count": 2,
            "columns": ["name", "age"],
            "schema": [
                {"name": "name", "type": "string", "nullable": True},
                {"name": "age", "type": "bigint", "nullable": True},
            ],
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


class TestRows:
    def test_a_row_by_its_number(self):
        answer = result(PEOPLE)
        assert answer[0] == {"name": "Ada", "age": 36}
        assert answer[-1] == answer[1] == {"name": "Bob", "age": None}
        assert answer[:1] == [answer[0]]
        assert answer[5:] == []

    @pytest.mark.parametrize(
        "part", [slice(2, 5), slice(-3, None), slice(5, 2), slice(None, None, -2), slice(None)]
    )
    def test_a_slice_is_that_of_the_rows(self, part):
        answer = one(Scalar.I32, *range(9))
        assert answer[part] == answer.rows[part]

    @pytest.mark.parametrize("place", [2, -3])
    def test_a_row_that_is_not_there(self, place):
        with pytest.raises(IndexError, match=f"no row {place}; the result has 2 rows"):
            result(PEOPLE)[place]

    @pytest.mark.parametrize("key", ["name", 1.0, True, None])
    def test_anything_else_names_no_row(self, key):
        with pytest.raises(BadRequest, match="no number of a row"):
            result(PEOPLE)[key]

    def test_the_only_row_and_the_only_value(self):
        answer = one(Scalar.DATE, 0)
        assert answer.one() == {"x": "1970-01-01"}
        assert answer.scalar() == "1970-01-01"
        assert one(Scalar.I64, None).scalar() is None

    @pytest.mark.parametrize(("values", "said"), [((), "no rows"), ((1, 2), "2 rows")])
    def test_one_refuses_any_other_number_of_rows(self, values, said):
        for asked in ("one", "scalar"):
            with pytest.raises(BadRequest, match=f"`q` returned {said}") as caught:
                getattr(one(Scalar.I64, *values), asked)()
            assert caught.value.details["row_count"] == len(values)

    def test_a_scalar_is_one_column(self):
        pair = result([("x", *typed(Scalar.I64, 1)), ("y", *typed(Scalar.I64, 2))])
        assert pair.one() == {"x": 1, "y": 2}
        with pytest.raises(BadRequest, match="1 row with 2 columns"):
            pair.scalar()


class TestFrames:
    def test_other_libraries_read_it_as_an_arrow_stream(self):
        import duckdb
        import polars as pl

        answer = result(PEOPLE)
        assert pa.table(answer).equals(answer.to_arrow())
        assert pl.DataFrame(answer).rows() == [("Ada", 36), ("Bob", None)]
        assert duckdb.sql("select max(age) from answer").fetchall() == [(36,)]
        wanted = pa.schema([("name", pa.large_utf8()), ("age", pa.int64())])
        stream = pa.RecordBatchReader.from_stream(answer, wanted)
        assert stream.read_all().schema == wanted

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

    def test_repr_fits_the_screen(self, monkeypatch):
        monkeypatch.setenv("COLUMNS", "40")
        answer = result([(f"c{n}", *typed(Scalar.STRING, "x" * 30)) for n in range(20)])
        *lines, left_out = repr(answer).splitlines()
        assert max(map(len, lines)) <= 40
        assert left_out.startswith("17 columns not shown: c3, c4,")

    def test_html_shows_the_same_rows_and_is_escaped(self):
        names = typed(Scalar.STRING, *["<script>"] * 12)
        vectors = typed(Scalar.F32, *[[0.5] * 900] * 12, dim=900)
        shown = HtmlTable(result([("<b>", *names), ("v", *vectors)])._repr_html_())
        assert shown.lines == ["12 rows from branch main via q", "… 2 more"]
        assert shown.rows[0] == ["<b>", "v"]
        assert len(shown.rows) == 11
        assert {row[0] for row in shown.rows[1:]} == {"<script>"}
        assert all(row[1].startswith("[0.5,0.5,") and len(row[1]) <= 200 for row in shown.rows[1:])

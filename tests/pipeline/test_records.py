"""What a line of JSON means as a record, and what is wrong with one that is none."""

import pickle
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.pipeline.formats import json_lines
from omnigraph.pipeline.formats.json_lines import read_block
from omnigraph.pipeline.formats.typed_batch import batch_schema
from omnigraph.storage.tables.blobs.blob_columns import as_blobs
from tests.pipeline.read_helpers import CATALOG, block_of, read, reasons, rows


class TestShapes:
    def test_a_node(self):
        parsed = read('{"type":"Person","data":{"name":"ada","age":36}}')
        assert rows(parsed, "node:Person") == [
            {"0id": None, "name": "ada", "age": 36, "email": None}
        ]
        assert parsed.bad.num_rows == 0

    def test_an_edge(self):
        parsed = read('{"edge":"Knows","from":"ada","to":"bo","data":{"since":"2020-02-29"}}')
        assert rows(parsed, "edge:Knows") == [
            {"0id": None, "src": "ada", "dst": "bo", "since": date(2020, 2, 29)}
        ]

    @pytest.mark.parametrize("name", ["Knows", "knows", "KNOWS"])
    def test_an_edge_is_found_whatever_its_case(self, name):
        parsed = read({"edge": name, "from": "a", "to": "b"})
        assert rows(parsed, "edge:Knows")

    @pytest.mark.parametrize("data", ["", ',"data":null', ',"data":{}'])
    def test_data_may_be_missing_null_or_empty(self, data):
        parsed = read(f'{{"edge":"Knows","from":"a","to":"b"{data}}}')
        assert rows(parsed, "edge:Knows") == [{"0id": None, "src": "a", "dst": "b", "since": None}]

    def test_the_ends_of_an_edge_may_be_integers_where_the_key_is_one(self):
        parsed = read(
            {"edge": "Next", "from": 7, "to": -3},
            {"edge": "Next", "from": "7", "to": "-3"},
            {"edge": "Next", "from": -2147483648, "to": "x"},
            '{"edge":"Next","from":-0,"to":0}',
            {"edge": "Marks", "from": 2**64 - 1, "to": 7},
            {"edge": "Covers", "from": '["1","2"]', "to": "ada"},
        )
        assert [(row["src"], row["dst"]) for row in rows(parsed, "edge:Next")] == [
            ("7", "-3"), ("7", "-3"), ("-2147483648", "x"), ("0", "0"),
        ]  # fmt: skip
        assert [row["src"] for row in rows(parsed, "edge:Marks")] == [str(2**64 - 1)]

    @pytest.mark.parametrize(("src", "dst"), [(1, 2), ("1", 2), (1, "2"), ("1", "2")])
    def test_integer_ends_are_read_by_columns(self, monkeypatch, src, dst):
        singly: list[object] = []

        def none_expected(catalog, source, lines, cut, *, patch, plain):
            singly.extend(lines)
            return {}, []

        monkeypatch.setattr(json_lines, "read_lines", none_expected)
        block = block_of(*[{"edge": "Next", "from": src, "to": dst}] * 100)
        parsed = json_lines.read_block(CATALOG, block)
        assert {(row["src"], row["dst"]) for row in rows(parsed, "edge:Next")} == {("1", "2")}
        assert singly == []

    def test_an_explicit_id_is_kept_beside_the_properties(self):
        parsed = read(
            {"type": "Every", "data": {"id": "e1", "s": "x"}},
            {"type": "Every", "data": {"id": None}},
        )
        assert [row["0id"] for row in rows(parsed, "node:Every")] == ["e1", None]

    def test_comments_and_blank_lines_are_skipped_and_records_keep_their_offsets(self):
        block = block_of(
            "// header", "", '{"type":"Person","data":{"name":"a"}}', "   ", "  // x", "\t\r",
            ' {"type" : "Person", "data":{"name":"b"}}  ', source=3, offset=100,
        )  # fmt: skip
        parsed = read_block(CATALOG, block)
        (batch,) = (batch for _, batch in parsed.batches)
        assert parsed.bad.num_rows == 0
        assert batch.column("name").to_pylist() == ["a", "b"]
        assert batch.column("0source").to_pylist() == [3, 3]
        places = [100 + block.data.index(b'{"type":"Per'), 100 + block.data.index(b' {"type" :')]
        assert batch.column("0offset").to_pylist() == places

    def test_lines_may_end_in_cr_lf_and_the_last_in_nothing(self):
        parsed = read(
            '{"type":"Person","data":{"name":"a"}}\r', {"edge": "Knows", "from": "a", "to": "a"}
        )
        assert [key for key, _ in parsed.batches] == ["edge:Knows", "node:Person"]

    def test_key_order_and_escapes_in_keys_carry_no_meaning(self):
        parsed = read(
            '{"data":{"n\\u0061me":"a"},"type":"Person"}',
            '{"to":"y","data":null,"from":"x","\\u0065dge":"Knows"}',
        )
        assert rows(parsed, "node:Person")[0]["name"] == "a"
        assert rows(parsed, "edge:Knows")[0]["dst"] == "y"

    def test_types_may_be_mixed_and_rows_stay_in_input_order(self):
        names = [f"n{number}" for number in range(200)]
        lines = []
        for number, name in enumerate(names):
            # Odd spellings and what only reading line by line understands, in between.
            spelled = '{"type":"Person"' if number % 3 else ' {"type": "Person"'
            lines.append(
                f'{spelled},"data":{{"name":"{name}"}}}}' + (" " if number % 7 == 0 else "")
            )
            lines.append({"edge": "Knows", "from": name, "to": name})
        parsed = read(*lines)
        assert [row["name"] for row in rows(parsed, "node:Person")] == names
        assert [row["src"] for row in rows(parsed, "edge:Knows")] == names


def every(**data):
    (row,) = rows(read({"type": "Every", "data": data}), "node:Every")
    return {name: row[name] for name in data}


class TestValues:
    def test_scalars(self):
        given = {
            "s": "täxt 😀\u0000", "kind": "not judged here", "b": True, "i32": -(2**31),
            "i64": -(2**63), "u32": 2**32 - 1, "u64": 2**64 - 1, "f64": 5,
        }  # fmt: skip
        assert every(**given) == given

    def test_f32_is_rounded_through_f64_as_one_value_is(self):
        # Between two floats: read as float32 directly it would round the other way.
        text = "1.00000005960464485"
        parsed = read(
            f'{{"type":"Every","data":{{"f32":{text},"lf":[{text}],"vec":[{text},0,1]}}}}'
        )
        (row,) = rows(parsed, "node:Every")
        expected = pa.array([float(text)]).cast(pa.float32(), safe=False)[0].as_py()
        assert row["f32"] == row["lf"][0] == row["vec"][0] == expected

    @pytest.mark.parametrize(
        ("given", "day"),
        [("2024-02-29", date(2024, 2, 29)), (0, date(1970, 1, 1)), ("0001-01-01", date(1, 1, 1))],
    )
    def test_dates(self, given, day):
        assert every(day=given, ld=[given, None]) == {"day": day, "ld": [day, None]}

    @pytest.mark.parametrize(
        ("given", "ms"),
        [
            ("1970-01-01T00:00:01Z", 1000),
            ("1970-01-01T00:00:01.5Z", 1500),
            ("1970-01-01T00:00:01.002Z", 1002),
            ("1970-01-01T00:00:01.0029", 1002),
            ("1970-01-01 01:00:00+01:00", 0),
            ("1970-01-02", 86_400_000),
            (12, 12),
        ],
    )
    def test_instants(self, given, ms):
        instant = datetime.fromtimestamp(ms / 1000, UTC)
        assert every(at=given, lt=[given]) == {"at": instant, "lt": [instant]}

    def test_lists_keep_null_elements_and_differ_from_null(self):
        assert every(ls=["a", None, ""], li=[], lb=None) == {
            "ls": ["a", None, ""], "li": [], "lb": None,
        }  # fmt: skip

    def test_vectors_with_and_without_values(self):
        parsed = read(
            {"type": "Every", "data": {"vec": [1, 2.5, -3]}}, {"type": "Every", "data": {}}
        )
        assert [row["vec"] for row in rows(parsed, "node:Every")] == [[1.0, 2.5, -3.0], None]

    def test_blobs_are_bytes_an_address_or_null_in_the_form_storage_takes(self):
        values = ["base64:aGk=", "base64:", "s3://b/k", {"$file": "a.png"}, None]
        parsed = read(*({"type": "Every", "data": {"file": value}} for value in values))
        column = parsed.batches[0].batch.column("file")
        empty = dict.fromkeys(("data", "uri", "position", "size"))
        assert column.to_pylist() == [
            {**empty, "data": b"hi"},
            {**empty, "data": b""},
            {**empty, "uri": "s3://b/k"},
            {**empty, "uri": "a.png", "position": 0},
            None,
        ]
        assert as_blobs(column).is_null().to_pylist() == [False, False, False, False, True]

    @pytest.mark.parametrize(
        "value", [{"$file": 3}, {"$file": ""}, {"file": "x"}, {"$file": "x", "y": 1}, 7]
    )
    def test_other_values_of_a_blob_are_bad_records(self, value):
        (reason,) = reasons(read({"type": "Every", "data": {"file": value}}))
        assert "Every.file (Blob?)" in reason


class TestRequired:
    @pytest.mark.parametrize("data", [{"count": 1}, {"count": 1, "must": None}])
    def test_a_missing_value_names_the_property(self, data):
        assert reasons(read({"type": "Strict", "data": data})) == [
            "Strict.must (String): a value is required"
        ]

    def test_a_record_without_data_lacks_its_required_properties(self):
        (reason,) = reasons(read('{"type":"Strict"}'))
        assert "Strict.must" in reason

    def test_a_required_embed_vector_is_left_null_when_its_text_is_there(self):
        parsed = read(
            {"type": "Doc", "data": {"body": "text"}},
            {"type": "Doc", "data": {"body": None, "vec": [1, 2]}},
            {"type": "Doc", "data": {"body": "both", "vec": [3, 4]}},
        )
        assert [row["vec"] for row in rows(parsed, "node:Doc")] == [None, [1, 2], [3, 4]]

    def test_a_required_embed_vector_without_its_text_is_missing(self):
        (reason,) = reasons(read({"type": "Doc", "data": {"body": None}}))
        assert "Doc.vec" in reason
        assert "body" in reason


BAD = [
    ("{", ["JSON"]),
    ("nonsense", ["JSON"]),
    ('{"type":"Person","data":{"name":"a"}} {"type":"Person","data":{"name":"b"}}', ["JSON"]),
    ('{"type":"Person","data":{"name":"a"}}}', ["JSON"]),
    ('{"type":"Person","data":{"name":"a",}}', ["JSON"]),
    ("[1]", ["object", "array"]),
    ("12", ["object", "12"]),
    ("{}", ['"type"', '"edge"']),
    ('{"type":"Person","edge":"Knows"}', ["not both"]),
    ('{"type":"Persn","data":{}}', ['"Persn"', "`Person`"]),
    ('{"type":"person","data":{}}', ['"person"', "`Person`"]),
    ('{"edge":"Know","from":"a","to":"b"}', ['"Know"', "`Knows`"]),
    ('{"type":"Zzz"}', ['node type "Zzz"']),
    ('{"type":7}', ['"type"', "7"]),
    ('{"edge":null}', ['"edge"', "null"]),
    ('{"type":"Person","dta":{}}', ['"dta"', '"data"']),
    ('{"type":"Person","from":"a","data":{"name":"a"}}', ['"from"']),
    ('{"edge":"Knows","from":"a","to":"b","id":"x"}', ['"id"']),
    ('{"type":"Person","data":[]}', ["Person", "object", "array"]),
    ('{"type":"Person","data":{"name":"a","nmae":1}}', ["Person", '"nmae"', "`name`"]),
    ('{"type":"Person","data":{"name":"a","name":"a"}}', ['"name"', "twice"]),
    ('{"type":"Person","type":"Person","data":{"name":"a"}}', ['"type"', "twice"]),
    ('{"type":"Person","data":{"name":"a"},"data":null}', ['"data"', "twice"]),
    ('{"edge":"Knows","from":"a"}', ["Knows", '"to"']),
    ('{"edge":"Knows","from":null,"to":"a"}', ["Knows", '"from"']),
    ('{"edge":"Knows","from":1,"to":"a"}', ['"from" of Knows', "string", "1"]),
    ('{"edge":"Next","from":7.5,"to":1}', ['"from" of Next', "integer", "7.5"]),
    ('{"edge":"Next","from":7.0,"to":1}', ['"from" of Next', "integer", "7.0"]),
    ('{"edge":"Next","from":1,"to":true}', ['"to" of Next', "integer", "true"]),
    ('{"edge":"Next","from":[1],"to":1}', ['"from" of Next', "array"]),
    ('{"edge":"Next","from":2147483648,"to":1}', ['"from" of Next', "I32", "2147483648"]),
    ('{"edge":"Marks","from":-1,"to":1}', ['"from" of Marks', "U64", "-1"]),
    ('{"edge":"Covers","from":1,"to":"a"}', ['"from" of Covers', "string", "1"]),
    ('{"edge":"Covers","from":"[]","to":1}', ['"to" of Covers', "string", "1"]),
    ('{"type":"Every","data":{"id":7}}', ["id of Every", "string", "7"]),
    ('{"type":"Person","data":{"name":"a","age":2147483648}}', ["Person.age", "I32", "2147483648"]),
    ('{"type":"Person","data":{"name":"a","age":1.0}}', ["Person.age", "I32"]),
    ('{"type":"Person","data":{"name":"a","age":1e2}}', ["Person.age"]),
    ('{"type":"Person","data":{"name":"a","age":"1"}}', ["Person.age", '"1"']),
    ('{"type":"Person","data":{"name":"a","email":1}}', ["Person.email"]),
    ('{"type":"Person","data":{"name":true}}', ["Person.name"]),
    ('{"type":"Every","data":{"u64":18446744073709551616}}', ["Every.u64", "U64"]),
    ('{"type":"Every","data":{"u32":-1}}', ["Every.u32", "U32"]),
    ('{"type":"Every","data":{"f64":NaN}}', ["NaN"]),
    ('{"type":"Every","data":{"f64":-Infinity}}', ["Infinity"]),
    ('{"type":"Every","data":{"f64":1e400}}', ["Every.f64"]),
    ('{"type":"Every","data":{"f64":' + "1" * 400 + "}}", ["Every.f64", "F64"]),
    ('{"type":"Every","data":{"f64":' + "1" * 5000 + "}}", ["digits"]),
    ('{"type":"Every","data":{"f32":1e39}}', ["Every.f32", "F32"]),
    ('{"type":"Every","data":{"vec":[1,2]}}', ["Every.vec", "3", "2"]),
    ('{"type":"Every","data":{"vec":[1,null,2]}}', ["Every.vec", "must be numeric"]),
    ('{"type":"Every","data":{"vec":[1,"2",3]}}', ["Every.vec", "must be numeric"]),
    ('{"type":"Every","data":{"vec":[1,2,1e39]}}', ["Every.vec"]),
    ('{"type":"Every","data":{"day":"2023-02-29"}}', ["Every.day", "2023-02-29"]),
    ('{"type":"Every","data":{"day":"2023-2-9"}}', ["Every.day"]),
    ('{"type":"Every","data":{"day":"0000-01-01"}}', ["Every.day"]),
    ('{"type":"Every","data":{"at":"2023-01-01T25:00:00Z"}}', ["Every.at"]),
    ('{"type":"Every","data":{"at":1.5}}', ["Every.at"]),
    ('{"type":"Every","data":{"file":"base64:?"}}', ["Every.file", "base64"]),
    ('{"type":"Every","data":{"s":"\\ud800"}}', ["Every.s", "surrogate"]),
    ('{"type":"Every","data":{"s":"\\udc00 x"}}', ["Every.s", "surrogate"]),
    ('{"type":"Every","data":{"ls":["a",1]}}', ["Every.ls", "element 2"]),
    ('{"type":"Every","data":{"ls":"a"}}', ["Every.ls", "array"]),
    ('{"type":"Every","data":{"s":' + "[" * 100_000, ["deep"]),
    ('{"type":"Every","data":{"s":' + "[" * 100_000 + "]" * 100_000 + "}}", ["deep"]),
    (b'{"type":"Every","data":{"s":"\xff"}}', ["UTF-8"]),
    (b'{"type":"Every","data":{"s":"\xed\xa0\x80"}}', ["UTF-8"]),
    (b'{"type":"Ever\xff"}', ["UTF-8"]),
    ('{"type":"Every","data":{"s":"a\tb"}}', ["JSON"]),
    ('{"type":"Person","data":{"name":"a"}}\0', ["JSON"]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), BAD, ids=[str(line)[:60] for line, _ in BAD])
def test_a_bad_record_says_what_is_wrong_and_leaves_the_others_alone(line, said):
    good = '{"type":"Person","data":{"name":"ok"}}'
    alike = '{"type":"Every","data":{"s":"ok"}}'
    parsed = read(good, alike, line, good, alike)
    (bad,) = parsed.bad.to_pylist()
    assert bad["source"] == 0
    assert bad["offset"] == len(good) + len(alike) + 2
    for text in said:
        assert text in bad["reason"]
    assert len(rows(parsed, "node:Person")) == 2
    assert len(rows(parsed, "node:Every")) == 2


def test_an_object_over_two_lines_is_two_bad_records_also_when_the_count_would_fit():
    catalog = og.parse_schema("node T { type: String? }").catalog
    lines = ['{"type":"T","data":', '{"type":"T"}}', '{"type":"T"}{"type":"T"}']
    parsed = read_block(catalog, block_of(*lines))
    assert parsed.batches == []
    assert parsed.bad.num_rows == 3


def test_one_odd_record_among_many_is_found_and_the_rest_kept():
    lines = [{"type": "Person", "data": {"name": f"n{i}", "age": i}} for i in range(3000)]
    lines[1234]["data"]["age"] = "old"
    parsed = read(*lines)
    ages = [row["age"] for row in rows(parsed, "node:Person")]
    assert ages == [*range(1234), *range(1235, 3000)]
    assert len(reasons(parsed)) == 1


def test_batches_have_the_declared_schema():
    parsed = read({"edge": "Knows", "from": "a", "to": "b"}, {"type": "Every"})
    for key, batch in parsed.batches:
        entity = CATALOG.edges["Knows"] if key == "edge:Knows" else CATALOG.nodes["Every"]
        assert batch.schema.equals(batch_schema(entity))


def test_what_is_read_travels_between_processes():
    parsed = read({"type": "Person", "data": {"name": "a"}}, "{")
    again = pickle.loads(pickle.dumps(parsed))
    assert again.batches[0].batch.equals(parsed.batches[0].batch)
    assert again.bad.equals(parsed.bad)


def test_names_the_loader_might_have_kept_for_itself_are_properties_like_others():
    catalog = og.parse_schema("node T { __offset: I64?  __id: String? }").catalog
    parsed = read_block(catalog, block_of('{"type":"T","data":{"__offset":7,"__id":"x"}}'))
    (batch,) = [typed.batch for typed in parsed.batches]
    assert batch.column("__offset").to_pylist() == [7]
    assert batch.column("__id").to_pylist() == ["x"]

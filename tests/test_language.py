from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, CatalogError, ParseError, TypeCheckError

SCHEMA = "node Person { handle: String @key  age: I32? }"
QUERY = "query all() { match { $p: Person } return { $p.handle } }"


@pytest.fixture
def schema_file(tmp_path):
    path = tmp_path / "my schema.pg"
    path.write_text(SCHEMA, "utf-8")
    return path


@pytest.fixture
def query_file(tmp_path):
    path = tmp_path / "queries.gq"
    path.write_text(QUERY, "utf-8")
    return path


def test_a_str_is_source_text_and_a_path_is_a_file(schema_file):
    assert og.parse_schema(SCHEMA).shape == og.parse_schema(schema_file).shape
    assert list(og.parse_schema(schema_file).catalog.nodes["Person"].properties) == [
        "handle",
        "age",
    ]


def test_a_str_is_never_taken_for_a_file_name(schema_file):
    with pytest.raises(BadRequest, match="the name of a file"):
        og.parse_schema(str(schema_file))


def test_an_error_in_a_file_names_the_file(schema_file):
    schema_file.write_text("node Person {\n  handle: Sting\n}", "utf-8")
    with pytest.raises(ParseError) as caught:
        og.parse_schema(schema_file)
    assert f"{schema_file}:2:11" in caught.value.render()


def test_a_byte_order_mark_is_not_part_of_the_text(schema_file):
    schema_file.write_bytes(b"\xef\xbb\xbf" + SCHEMA.encode())
    assert og.parse_schema(schema_file).shape == og.parse_schema(SCHEMA).shape


def test_a_missing_file_is_a_bad_request_naming_it(tmp_path):
    with pytest.raises(BadRequest, match=r"none\.pg.*No such file") as caught:
        og.parse_schema(tmp_path / "none.pg")
    assert caught.value.details["path"] == str(tmp_path / "none.pg")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_what_names_no_file_is_a_bad_request(name):
    with pytest.raises(BadRequest, match="cannot read"):
        og.parse_schema(Path(name))


def test_a_directory_is_a_bad_request_naming_it(tmp_path):
    with pytest.raises(BadRequest, match="cannot read"):
        og.parse_schema(tmp_path)


def test_a_file_that_is_not_utf8_is_a_bad_request_saying_where(schema_file):
    schema_file.write_bytes(b"node Person { caf\xe9: String }")
    with pytest.raises(BadRequest, match=r"not UTF-8.*byte 17"):
        og.parse_schema(schema_file)


def test_another_type_of_source_is_a_bad_request():
    with pytest.raises(BadRequest, match="bytes"):
        og.parse_schema(SCHEMA.encode())


@pytest.mark.parametrize("given", ["text", "file", "compiled"])
def test_lint_takes_a_schema_in_each_form(given, schema_file):
    schema = {"text": SCHEMA, "file": schema_file, "compiled": og.parse_schema(SCHEMA)}[given]
    report = og.lint(schema, QUERY)
    assert (report.status, [result.name for result in report.results]) == ("ok", ["all"])


def test_lint_says_which_files_it_read(schema_file, query_file):
    body = og.lint(schema_file, query_file).to_json()
    assert body["schema_source"] == {"kind": "file", "path": str(schema_file)}
    assert body["query_path"] == str(query_file)


def test_lint_reports_faults_of_queries_and_raises_those_of_the_schema():
    report = og.lint(SCHEMA, QUERY.replace("$p.handle", "$p.hande"))
    assert report.status == "error"
    assert isinstance(report.results[0].failure, TypeCheckError)
    with pytest.raises(CatalogError):
        og.lint(f"{SCHEMA} {SCHEMA}", QUERY)


def test_lint_of_a_broken_source_keeps_the_error_with_its_place():
    report = og.lint(SCHEMA, "query all() { return }")
    assert [finding.code for finding in report.findings] == ["Q000"]
    assert report.failure is not None
    assert report.failure.span.start == len("query all() { ")


FILES = [
    "schema.pg",
    "reads.gq",
    " my queries/reads.gq\n",
    "./schema",
    "../a/b",
    "/srv/x",
    "~/s.pg",
    "C:\\s.pg",
]


@pytest.mark.parametrize("name", FILES)
def test_a_text_that_is_the_name_of_a_file_is_said_to_be_one(name, tmp_path):
    read = "query q() { match { $p: P } return { $p.k } }"
    with og.init(tmp_path / "g", "node P { k: String @key }") as graph:
        calls = [
            lambda: og.init(tmp_path / "h", name),
            lambda: og.parse_schema(name),
            lambda: og.lint(name, read),
            lambda: og.lint("node P { k: String @key }", name),
            lambda: graph.query(name),
            lambda: graph.explain(name),
            lambda: graph.profile(name),
            lambda: graph.mutate(name),
            lambda: graph.schema.plan(name),
            lambda: graph.schema.apply(name),
        ]
        for call in calls:
            with pytest.raises(og.errors.BadRequest, match=r"pathlib\.Path") as caught:
                call()
            assert caught.value.details["path"] == name.strip()
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// see schema.pg",
        "/// docs.pg",
        "node A",
        "edge A: B -> C",
        "node P { k: String @key }.pg",
        "x\nschema.pg",
    ],
)
def test_other_texts_are_sources(text):
    try:
        og.parse_schema(text)
    except og.errors.OmniGraphError as error:
        assert isinstance(error, og.errors.SourceError)

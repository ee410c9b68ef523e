"""Every operation, asked with the example of its OpenAPI entry, gives the answer that its entry names."""

from __future__ import annotations

import io
import json
from typing import ClassVar

import msgspec
import pytest

import omnigraph as og
from omnigraph.server.openapi.examples import COMMIT_ID, EXAMPLES, PEOPLE, RECORDS, SCHEMA
from omnigraph.service.answers import answer_type
from omnigraph.service.calls import Call
from omnigraph.service.documents import Streamed
from omnigraph.service.operations import BYTES, OPERATIONS
from omnigraph.service.stored import read_directory
from tests.answers import answer_faults, check_answer, checked, unnamed_answers


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with og.init(tmp_path_factory.mktemp("answers") / "g.omni", SCHEMA, actor="ada") as graph:
        graph.load(RECORDS.encode(), mode="append")
        yield graph


def decoded(operation, example):
    if operation.content == "json":
        return msgspec.json.decode(json.dumps(example.body), type=operation.request)
    return msgspec.convert(dict(example.parameters), operation.request, strict=False)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gets_its_answer(name, graph, tmp_path):
    operation, example = OPERATIONS[name], EXAMPLES[name]
    newest = graph.commits.list("main")[0].graph_commit_id
    text = json.dumps({"path": dict(example.path), "body": example.body})
    real = json.loads(text.replace(COMMIT_ID, newest))
    example = type(example)(real["path"], example.parameters, real["body"])
    received = tmp_path / "body"
    if operation.content in {"lines", "columns", "bytes"}:
        received.write_text(example.body)
    out = io.BytesIO()
    (tmp_path / "people.gq").write_text(PEOPLE)
    call = Call(
        session=graph,
        uri="http://host/graphs/g",
        received=received,
        out=out,
        stored=read_directory(tmp_path),
    )
    answer = operation.run(call, decoded(operation, example), *example.path.values())
    if isinstance(answer, Streamed):
        answer = checked(operation.answer, answer).collected()
    if operation.gives == BYTES:
        return
    check_answer(operation.answer, answer)
    assert answer == json.loads(json.dumps(answer))
    if operation.lane == "stream":
        assert all(json.loads(line) for line in out.getvalue().splitlines())


def test_every_answer_is_a_type_with_words():
    for operation in OPERATIONS.values():
        assert answer_type(operation.answer).__doc__
    assert unnamed_answers() == set()


def test_a_name_without_a_type_is_an_error():
    with pytest.raises(LookupError, match="NoAnswer"):
        answer_type("NoAnswer")


class TestTheCheck:
    """It must be able to fail."""

    GOOD: ClassVar = {"name": "v1", "graph_commit_id": "01J", "actor_id": None}

    def test_a_whole_answer_passes(self):
        assert answer_faults("DeletedTagAnswer", self.GOOD) == []

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"name": 7}, "not of type 'string'"),
            ({"colour": "red"}, "colour"),
            ({"name": ...}, "required"),
        ],
    )
    def test_faults_are_seen(self, change, told):
        document = {key: value for key, value in {**self.GOOD, **change}.items() if value != ...}
        (fault,) = answer_faults("DeletedTagAnswer", document)
        assert told in fault
        with pytest.raises(AssertionError, match="DeletedTagAnswer"):
            check_answer("DeletedTagAnswer", document)

    def test_a_fault_deep_inside_is_seen(self):
        tag = {**self.GOOD, "branch": None, "manifest_version": 1, "created_at": 1}
        assert answer_faults("TagsAnswer", {"tags": [tag]}) == []
        (fault,) = answer_faults("TagsAnswer", {"tags": [tag, {**tag, "shade": 1}]})
        assert "$.tags[1]" in fault
        assert "shade" in fault

    def test_a_document_in_pieces_is_checked_when_it_has_been_read(self):
        head = {"query_name": "q", "target": {"branch": "main", "snapshot": None}, "row_count": 1}
        head |= {"columns": ["n"], "schema": [], "as_of": None}
        tail = {"graph_commit_id": "01J"}
        good = checked("QueryAnswer", Streamed(head, "rows", [['{"n":1}']], tail))
        assert good.collected()["rows"] == [{"n": 1}]
        for broken in (
            Streamed(head, "rows", [["[1]"]], tail),
            Streamed(head, "rows", [], {}),
            Streamed({}, "rows", [], tail),
        ):
            with pytest.raises(AssertionError, match="QueryAnswer"):
                checked("QueryAnswer", broken).collected()

    def test_the_documents_of_other_tests_are_checked(self, graph, monkeypatch):
        from omnigraph.service import states

        document = states.snapshot(graph, states.SnapshotRequest())
        assert document["branch"] == "main"
        monkeypatch.setattr(type(graph), "internal_schema_version", "four")
        with pytest.raises(AssertionError, match="internal_schema_version"):
            states.snapshot(graph, states.SnapshotRequest())

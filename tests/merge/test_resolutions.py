"""What callers may give as ``resolve``, and how images are read."""

from __future__ import annotations

import datetime as dt

import pytest

from omnigraph.errors import BadRequest, InputError
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy
from omnigraph.storage.local_files import LocalFiles, record_file
from omnigraph.write.merge.resolutions import (
    Image,
    Resolutions,
    read_resolutions,
    resolve_from_json,
)
from tests.validate.schemas import catalog_of

CATALOG = catalog_of("""
node Ship {
    imo: String
    berth: I32
    built: Date?
    flag: enum(no, pa)?
    photo: Blob?
    shape: Vector(2)?
    @key(imo, berth)
}
node Port { city: String }
edge Visit: Ship -> Port { days: I32? }
""")
S1 = ("node:Ship", '["7","S1"]')


def read(resolve, blobs=NO_POLICY):
    return read_resolutions(CATALOG, resolve, blobs)


def test_nothing_a_word_and_words_for_single_entities():
    assert read(None) == Resolutions()
    assert read("theirs") == Resolutions("theirs")
    key = ("node:Port", "p")
    assert read({key: "ours"}) == Resolutions(named={key: "ours"})
    assert read({key: None}) == Resolutions(named={key: None})


def test_an_image_is_read_as_stored_values_and_what_it_leaves_out_is_null():
    properties = {"imo": "S1", "berth": 7, "built": "1970-01-03", "photo": "base64:QQ=="}
    (decision,) = read({S1: {"properties": properties}}).named.values()
    assert decision == Image(
        {
            "id": S1[1],
            "imo": "S1",
            "berth": 7,
            "built": 2,
            "flag": None,
            "photo": {"data": b"A"},
            "shape": None,
        }
    )


def test_python_values_are_taken_too():
    properties = {"imo": "S1", "berth": 7, "built": dt.date(1970, 1, 3), "photo": b"A"}
    (decision,) = read({S1: {"properties": properties}}).named.values()
    assert decision.values["built"] == 2
    assert decision.values["photo"] == {"data": b"A"}


def test_an_image_of_an_edge_has_its_ends():
    image = {"properties": {"days": 3}, "endpoints": {"from": "a", "to": "b"}}
    (decision,) = read({("edge:Visit", "v"): image}).named.values()
    assert decision == Image({"id": "v", "src": "a", "dst": "b", "days": 3})


def test_a_value_that_only_breaks_a_rule_is_left_to_the_checks_of_the_merged_graph():
    image = {"properties": {"imo": "S1", "berth": 7, "flag": "xx"}}
    (decision,) = read({S1: image}).named.values()
    assert decision.values["flag"] == "xx"


@pytest.mark.parametrize(
    "resolve",
    [
        "mine",
        7,
        [("node:Port", "p")],
        {"node:Port": None},
        {("node:Port", 7): None},
        {("node:Port", "p"): "mine"},
        {("node:Prt", "p"): None},
        {("port:Visit", "v"): None},
    ],
)
def test_what_is_no_resolution_is_a_bad_request(resolve):
    with pytest.raises(BadRequest):
        read(resolve)


UNFIT = {
    "no object": (("node:Port", "p"), 7),
    "no properties": (("node:Port", "p"), {}),
    "other member": (("node:Port", "p"), {"properties": {"city": "x"}, "endpoints": {}}),
    "unknown property": (("node:Port", "p"), {"properties": {"city": "x", "town": "y"}}),
    "id among properties": (("node:Port", "p"), {"properties": {"city": "x", "id": "p"}}),
    "required left out": (("node:Port", "p"), {"properties": {}}),
    "wrong type": (S1, {"properties": {"imo": "S1", "berth": "7"}}),
    "other id": (S1, {"properties": {"imo": "S1", "berth": 8}}),
    "short vector": (S1, {"properties": {"imo": "S1", "berth": 7, "shape": [1.0]}}),
    "bad base64": (S1, {"properties": {"imo": "S1", "berth": 7, "photo": "base64:%"}}),
    "foreign blob": (S1, {"properties": {"imo": "S1", "berth": 7, "photo": "s3://b/x"}}),
    "no ends": (("edge:Visit", "v"), {"properties": {}}),
    "one end": (("edge:Visit", "v"), {"properties": {}, "endpoints": {"from": "a"}}),
    "null end": (("edge:Visit", "v"), {"properties": {}, "endpoints": {"from": "a", "to": None}}),
}


@pytest.mark.parametrize("case", UNFIT.values(), ids=list(UNFIT))
def test_an_image_that_does_not_fit_is_an_input_error_that_names_the_entity(case):
    key, image = case
    with pytest.raises(InputError) as caught:
        read({key: image})
    assert (caught.value.details["table_key"], caught.value.details["row_id"]) == key


def test_an_address_below_an_allowed_base_is_taken():
    image = {"properties": {"imo": "S1", "berth": 7, "photo": "s3://b/x"}}
    (decision,) = read({S1: image}, BlobPolicy(("s3://b/",))).named.values()
    assert decision.values["photo"] == {"uri": "s3://b/x"}


def test_the_bytes_of_a_file_are_taken_in_where_files_may_be_read(tmp_path):
    (tmp_path / "photo").write_bytes(b"ABC")
    (tmp_path / "empty").write_bytes(b"")
    for name, expected in {
        "photo": {"uri": record_file(str(tmp_path / "photo")), "position": 0, "size": 3},
        "empty": {"data": b""},
    }.items():
        image = {"properties": {"imo": "S1", "berth": 7, "photo": {"$file": name}}}
        (decision,) = read({S1: image}, BlobPolicy(local=LocalFiles(str(tmp_path)))).named.values()
        assert decision.values["photo"] == expected
        with pytest.raises(InputError):
            read({S1: image})


def test_a_key_without_a_conflict_is_named():
    resolutions = read({("node:Port", "p"): None, ("node:Port", "q"): None})
    with pytest.raises(BadRequest, match=r'node:Port "q"') as caught:
        resolutions.refuse_unused([("node:Port", "p")])
    assert caught.value.details["row_id"] == "q"
    resolutions.refuse_unused([("node:Port", "p"), ("node:Port", "q")])


def test_the_json_form_says_the_same():
    listed = [
        {"table_key": "node:Port", "row_id": "p", "image": None},
        {"table_key": "node:Port", "row_id": "q", "take": "ours"},
        {"table_key": "node:Port", "row_id": "r", "image": {"properties": {"city": "x"}}},
    ]
    expected = {
        ("node:Port", "p"): None,
        ("node:Port", "q"): "ours",
        ("node:Port", "r"): {"properties": {"city": "x"}},
    }
    assert resolve_from_json({"resolutions": listed}) == expected
    assert resolve_from_json(listed) == expected
    assert resolve_from_json("ours") == "ours"


P = {"table_key": "node:Port", "row_id": "p"}


@pytest.mark.parametrize(
    "document",
    [
        7,
        {"resolutions": {}},
        {"resolution": []},
        [7],
        [P],
        [{**P, "image": None, "take": "ours"}],
        [{**P, "take": "mine"}],
        [{**P, "image": "ours"}],
        [{**P, "image": None, "why": "x"}],
        [{"table_key": "node:Port", "image": None}],
        [{**P, "image": None}, {**P, "take": "ours"}],
    ],
)
def test_json_that_is_no_list_of_resolutions_is_a_bad_request(document):
    with pytest.raises(BadRequest):
        resolve_from_json(document)

"""Sources in S3 are found and read like those on a disk."""

import gzip
import pickle

import obstore
import pytest

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.pipeline.sources.sources import json_sources
from omnigraph.pipeline.sources.splits import number_lines, plan_splits, read_blocks
from omnigraph.storage.objects.stores import open_bucket
from omnigraph.storage.uris import Root

DATA = b"".join(b'{"n":%d}\n' % number for number in range(2000))


@pytest.fixture
def address(s3_root):
    """A prefix with a few objects below it."""
    store = open_bucket(Root("s3", s3_root.bucket, ""))
    for name, data in {
        "b.jsonl": DATA,
        "a.jsonl.gz": gzip.compress(DATA),
        "note.txt": b"note",
        "deeper/c.jsonl": b"c",
    }.items():
        obstore.put(store, f"{s3_root.path}/{name}", data)
    return s3_root.canonical


def names(sources, address):
    return [source.name.removeprefix(address) for source in sources]


def content(source, size):
    splits = plan_splits([source], size)
    return b"".join(block.data for split in splits for block in read_blocks(source, split, size))


def test_an_object_is_read_in_ranges_by_any_process(address, tmp_path):
    (source,) = pickle.loads(pickle.dumps(json_sources(f"{address}/b.jsonl", tmp_path)))
    assert source.size == len(DATA)
    for size in (1000, 7777, len(DATA)):
        assert content(source, size) == DATA


def test_an_object_takes_the_way_to_its_store_along(address, tmp_path, s3, monkeypatch):
    sent = pickle.dumps(json_sources(f"{address}/b.jsonl", tmp_path))
    for name in s3.environment():
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://127.0.0.1:9")
    (source,) = pickle.loads(sent)
    assert content(source, 7777) == DATA
    assert content(pickle.loads(pickle.dumps(source)), 7777) == DATA
    assert s3.environment()["AWS_SECRET_ACCESS_KEY"] not in repr(source)


def test_a_compressed_object_and_its_line_numbers(address, tmp_path):
    (source,) = json_sources(f"{address}/a.jsonl.gz", tmp_path)
    assert content(source, 1000) == DATA
    offset = DATA.index(b'{"n":1999}')
    assert list(number_lines(source, [(offset, "it")])) == [(2000, "it")]


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_prefix_is_a_directory(address, tmp_path, slash):
    sources = json_sources(address + slash, tmp_path)
    assert names(sources, address) == ["/a.jsonl.gz", "/b.jsonl", "/deeper/c.jsonl"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("/*.jsonl", ["/b.jsonl"]),
        ("/[ab].jsonl*", ["/a.jsonl.gz", "/b.jsonl"]),
        ("/*/*", ["/deeper/c.jsonl"]),
        ("/**/*.jsonl", ["/b.jsonl", "/deeper/c.jsonl"]),
    ],
)
def test_globs_stay_in_their_folder_unless_they_say_otherwise(address, tmp_path, pattern, found):
    assert names(json_sources(address + pattern, tmp_path), address) == found


@pytest.mark.parametrize("name", ["/gone.jsonl", "/gone/", "/gone*", "/deeper/x"])
def test_what_is_not_there_is_named(address, tmp_path, name):
    with pytest.raises(BadRequest, match=r"gone|deeper/x"):
        json_sources(address + name, tmp_path)


def test_a_bucket_that_is_not_there_is_named(s3, tmp_path):
    with pytest.raises(OmniGraphError, match="no-such-bucket"):
        json_sources("s3://no-such-bucket/x.jsonl", tmp_path)


def test_an_object_that_went_away_is_named(address, s3_root, tmp_path):
    (source,) = json_sources(f"{address}/b.jsonl", tmp_path)
    obstore.delete(open_bucket(Root("s3", s3_root.bucket, "")), f"{s3_root.path}/b.jsonl")
    with pytest.raises(OmniGraphError, match=r"b\.jsonl"):
        content(source, 1000)

"""What a call may name as a source, in which order it is read, and how a missing one is told."""

import json
import os
import pickle
from datetime import UTC, date, datetime

import numpy as np
import pytest

from omnigraph.client.sent_bodies import lines_body
from omnigraph.errors import BadRequest, InputError
from omnigraph.pipeline.sources.locations import InMemory
from omnigraph.pipeline.sources.sources import json_sources, match_keys
from omnigraph.pipeline.sources.splits import plan_splits, read_blocks

LINE = '{"type": "P", "data": {"k": "http:"}}'


@pytest.fixture
def folder(tmp_path):
    """A directory with files of JSON lines and others, each holding its own name."""
    names = ["b.jsonl", "a.ndjson", "c.jsonl.gz", "note.txt", "d.JSONL", ".hidden.jsonl", "e.csv"]
    root = tmp_path / "data"
    (root / "deeper").mkdir(parents=True)
    for name in [*names, "deeper/f.jsonl"]:
        (root / name).write_text(name, "utf-8")
    return root


@pytest.fixture
def resolve(tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    return lambda given: json_sources(given, spool)


def short(sources):
    return [os.path.basename(source.name) for source in sources]


def content(source):
    (split,) = plan_splits([source])
    return b"".join(block.data for block in read_blocks(source, split))


class TestPaths:
    def test_a_file_whatever_its_name(self, folder, resolve):
        (source,) = resolve(folder / "note.txt")
        assert content(source) == b"note.txt"
        assert (source.index, source.size, source.compression) == (0, 8, None)

    def test_a_directory_gives_its_files_of_json_lines_by_name(self, folder, resolve):
        for aside in ("_temporary", ".git"):
            (folder / aside).mkdir()
            (folder / aside / "x.jsonl").write_text("half", "utf-8")
        found = ["a.ndjson", "b.jsonl", "c.jsonl.gz", "d.JSONL", "f.jsonl"]
        assert short(resolve(str(folder))) == found

    def test_a_file_of_columns_is_told_where_it_belongs(self, folder, resolve):
        with pytest.raises(BadRequest, match="load_nodes"):
            resolve([folder / "b.jsonl", folder / "e.csv"])

    def test_a_glob_gives_what_matches_by_name(self, folder, resolve):
        assert short(resolve(f"{folder}/[bn]*")) == ["b.jsonl", "note.txt"]
        assert short(resolve(f"{folder}/**/*.jsonl")) == ["b.jsonl", "f.jsonl"]

    def test_a_file_of_that_very_name_wins_over_the_glob(self, folder, resolve):
        (folder / "[bn].jsonl").write_text("odd", "utf-8")
        (source,) = resolve(f"{folder}/[bn].jsonl")
        assert content(source) == b"odd"

    def test_a_file_uri(self, folder, resolve):
        (source,) = resolve((folder / "b.jsonl").as_uri())
        assert content(source) == b"b.jsonl"

    def test_several_keep_the_order_given_and_are_numbered(self, folder, resolve):
        sources = resolve([folder / "note.txt", str(folder), b"{}", folder / "b.jsonl"])
        assert [source.index for source in sources] == list(range(8))
        assert short(sources)[0] == "note.txt"
        assert short(sources)[6:] == ["<bytes>", "b.jsonl"]

    def test_compression_goes_by_the_name(self, folder, resolve):
        (folder / "x.ndjson.ZST").write_bytes(b"")
        packed = {os.path.basename(s.name): s.compression for s in resolve(folder)}
        assert packed["c.jsonl.gz"] == "gzip"
        assert packed["x.ndjson.ZST"] == "zstd"
        assert packed["b.jsonl"] is None

    def test_a_relative_path_stays_valid_when_the_process_moves(self, folder, resolve, monkeypatch):
        monkeypatch.chdir(folder)
        (source,) = resolve("b.jsonl")
        monkeypatch.chdir("/")
        assert source.name == "b.jsonl"
        assert content(source) == b"b.jsonl"

    def test_a_source_travels_between_processes(self, folder, resolve):
        sources = resolve([folder / "b.jsonl", b"x"])
        assert pickle.loads(pickle.dumps(sources)) == sources


class TestRefused:
    @pytest.mark.parametrize("name", ["gone.jsonl", "gone/*.jsonl", "deeper/x/"])
    def test_what_is_not_there_is_named(self, folder, resolve, name):
        with pytest.raises(BadRequest, match=r"gone|deeper/x"):
            resolve(f"{folder}/{name}")

    def test_a_directory_without_json_lines(self, folder, resolve):
        (folder / "empty").mkdir()
        with pytest.raises(BadRequest, match=r"empty.*\.jsonl"):
            resolve(folder / "empty")

    def test_a_pipe_cannot_be_read_twice(self, folder, resolve):
        os.mkfifo(folder / "pipe")
        with pytest.raises(BadRequest, match=r"pipe.*regular"):
            resolve(folder / "pipe")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, folder, resolve):
        (folder / "b.jsonl").chmod(0)
        with pytest.raises(BadRequest, match=r"b\.jsonl.*permission"):
            resolve(folder / "b.jsonl")

    @pytest.mark.parametrize("given", ["http://host/x.jsonl", "gs://bucket/x.jsonl"])
    def test_other_schemes(self, resolve, given):
        with pytest.raises(BadRequest, match=r"host|gs"):
            resolve(given)

    def test_an_empty_name(self, resolve):
        with pytest.raises(BadRequest):
            resolve("")

    @pytest.mark.parametrize(
        "given",
        [LINE, f"{LINE}\n" * 500, f" [{LINE}]", "name,age\nann,3\n", "x" * 5000, "ü" * 200],
        ids=["record", "lines", "list", "csv", "long", "long in bytes"],
    )
    @pytest.mark.parametrize("sent", [False, True], ids=["embedded", "client"])
    def test_a_text_is_no_data(self, resolve, given, sent):
        with pytest.raises(BadRequest, match=r"name of a file.*bytes") as refused:
            lines_body(given) if sent else resolve(given)
        assert len(str(refused.value)) < 250

    def test_a_file_may_be_called_like_a_record(self, folder, resolve, monkeypatch):
        monkeypatch.chdir(folder)
        (folder / LINE).write_text("x", "utf-8")
        assert content(resolve(LINE)[0]) == b"x"

    @pytest.mark.parametrize("given", [[], iter(())])
    def test_no_records_are_no_sources(self, resolve, given):
        assert resolve(given) == []

    @pytest.mark.parametrize("given", [7, None, [["a.jsonl"]], [7]])
    def test_other_values(self, resolve, given):
        with pytest.raises(BadRequest, match="no source"):
            resolve(given)


class TestBytesAndRecords:
    @pytest.mark.parametrize("given", [b"{}\n", bytearray(b"{}\n"), memoryview(b"{}\n")])
    def test_bytes_are_data(self, resolve, given):
        (source,) = resolve(given)
        assert source.location == InMemory(b"{}\n")

    def test_records_become_one_line_each(self, resolve):
        records = [{"type": "T", "data": {"s": "ü"}}, {"type": "T"}]
        for given in (records, iter(records), tuple(records)):
            (source,) = resolve(given)
            assert [json.loads(line) for line in content(source).splitlines()] == records

    def test_one_record_alone(self, resolve):
        (source,) = resolve({"type": "T"})
        assert content(source) == b'{"type":"T"}\n'

    def test_records_between_files_keep_their_place(self, folder, resolve):
        sources = resolve([{"n": 1}, {"n": 2}, folder / "b.jsonl", {"n": 3}, b"x"])
        assert short(sources) == ["<records>", "b.jsonl", "<records>", "<bytes>"]
        assert content(sources[0]) == b'{"n":1}\n{"n":2}\n'
        assert content(sources[2]) == b'{"n":3}\n'

    def test_python_values_become_the_text_that_loads_as_them(self, resolve):
        (source,) = resolve(
            [
                {
                    "day": date(2024, 2, 29),
                    "at": datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC),
                    "file": b"hi",
                    "n": np.int64(7),
                    "v": np.array([1.5, 2.0]),
                    "t": (1, 2),
                }
            ]
        )
        assert json.loads(content(source)) == {
            "day": "2024-02-29",
            "at": "2024-02-29T01:02:03+00:00",
            "file": "base64:aGk=",
            "n": 7,
            "v": [1.5, 2.0],
            "t": [1, 2],
        }

    def test_a_lone_surrogate_reaches_the_reader(self, resolve):
        (source,) = resolve([{"s": "\ud800"}])
        assert content(source) == b'{"s":"\\ud800"}\n'

    def test_a_value_without_json_form_names_the_record(self, resolve):
        with pytest.raises(InputError, match=r"record 2.*object"):
            resolve([{"a": 1}, {"a": object()}])


KEYS = [
    "in/a.jsonl",
    "in/b.jsonl",
    "in/.c.jsonl",
    "in/x/a.jsonl",
    "in/x/y/b.jsonl",
    "in/.z/a.jsonl",
]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("in/*.jsonl", ["in/a.jsonl", "in/b.jsonl", "in/.c.jsonl"]),
        ("in/?.jsonl", ["in/a.jsonl", "in/b.jsonl"]),
        ("in/[!a].jsonl", ["in/b.jsonl"]),
        ("in/[ab].jsonl", ["in/a.jsonl", "in/b.jsonl"]),
        ("in/**/a.jsonl", ["in/a.jsonl", "in/x/a.jsonl", "in/.z/a.jsonl"]),
        ("in/*/*.jsonl", ["in/x/a.jsonl", "in/.z/a.jsonl"]),
        ("**/y/*", ["in/x/y/b.jsonl"]),
        ("in/x/**", ["in/x/a.jsonl", "in/x/y/b.jsonl"]),
        ("in/x**.jsonl", []),
        ("in?a.jsonl", []),
        ("in[!b]a.jsonl", []),
        ("IN/*", []),
        ("in/{a,b}.*", []),
        ("in/\\*.jsonl", []),
    ],
)
def test_a_glob_over_keys_of_s3(pattern, found):
    """Hidden names count there; a wildcard stays in its folder unless it is `**`."""
    assert match_keys(pattern, KEYS) == found


def test_a_backslash_in_a_key_is_a_character():
    assert match_keys("in\\*", ["in\\a", "in*"]) == ["in\\a"]


@pytest.mark.parametrize(
    "pattern", ["[^b]*", "[!b]*", "[[:alpha:]]*", "[[:a]x", "[]x]*", "[a-c]?", "*[!.]"]
)
def test_a_set_of_characters_in_a_key_means_what_it_means_on_disk(tmp_path, pattern):
    names = ["b.jsonl", "x", "^z", "p", ":q", "[x", "ax", "cc", "]"]
    for name in names:
        (tmp_path / name).touch()
    on_disk = sorted(path.name for path in tmp_path.glob(pattern))
    assert sorted(match_keys(pattern, names)) == on_disk

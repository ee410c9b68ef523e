"""Files that people write: what is read, and that everything else is refused by name and line."""

import datetime as dt

import pytest

from omnigraph.errors import BadRequest
from omnigraph.yaml_files import LARGEST, read_yaml


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "file.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_yaml(path)

    return read


def test_it_is_yaml_1_2(read):
    assert read("{a: no, b: on, c: 12:30, d: 0o17, e: 2026-01-01, f: ~, g: [yes]}") == {
        "a": "no",
        "b": "on",
        "c": "12:30",
        "d": 15,
        "e": dt.date(2026, 1, 1),
        "f": None,
        "g": ["yes"],
    }
    assert read("") is None
    assert read("\ufeffa: größe") == {"a": "größe"}
    assert read("%YAML 1.2\n---\na: no\n") == {"a": "no"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: the key `a` is there twice"),
        ("x:\n  'a b': 1\n  a b: 3\n", "line 3: the key `a b` is there twice"),
        ("a: &x [1]\n", "line 1: anchors and aliases"),
        ("a: 1\nb: *x\n", "line 2: anchors and aliases"),
        ("a: !!str 1\n", "line 1: the tag tag:yaml.org,2002:str"),
        ("a: ! 1\n", "line 1: the tag !"),
        ("a: !python/name:os.system ''\n", "line 1: the tag"),
        ("%YAML 1.1\n---\na: no\n", "directives"),
        ("%TAG ! tag:example.org,2000:\n---\na: 1\n", "directives"),
        ("a: [1,\n", "not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
        ("a: 2026-99-99\n", "not YAML"),
        ("a: \x01\n", "not YAML"),
        ("[" * LARGEST, "line 1: it nests too deep"),
        (b"a: \xff\n", "byte 3 is not UTF-8"),
        (b"#" * (LARGEST + 1), "more than 1,048,576 bytes"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_is_refused(read, text, said):
    with pytest.raises(BadRequest) as caught:
        read(text)
    assert said in str(caught.value)
    assert "file.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_largest_file_is_read(read):
    assert read(b"a: 1 #".ljust(LARGEST, b" ")) == {"a": 1}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(BadRequest, match=r"cannot read .*here"):
        read_yaml(tmp_path / "here")

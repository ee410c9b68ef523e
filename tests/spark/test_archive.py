"""An archive of classes is used if it is whole and ours."""

from __future__ import annotations

import pytest

from omnigraph.runner import archive
from omnigraph.runner.archive import JAVA_OPTIONS

pytestmark = pytest.mark.usefixtures("_spark_here")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path))
    (tmp_path / "spark").mkdir()
    return tmp_path / "spark"


@pytest.fixture
def stored(cache):
    path = cache / f"{archive.archive_prefix()}5.jsa"
    path.write_bytes(b"12345")
    return path


def test_a_whole_archive_is_added_to_the_callers_options(stored):
    options = archive.with_archive({JAVA_OPTIONS: "-Dx=y"})[JAVA_OPTIONS]
    assert options == f"-Dx=y -XX:SharedArchiveFile={stored} -Xlog:disable"


def test_a_truncated_archive_is_not_used(stored):
    stored.write_bytes(b"1234")
    assert archive.find_archive() is None
    assert JAVA_OPTIONS not in archive.with_archive({})


def test_the_archive_of_another_java_or_spark_is_not_used(stored, cache):
    stored.rename(cache / "java-17.0.0-spark-3.5.0-5.jsa")
    assert archive.find_archive() is None


def test_a_path_that_options_cannot_hold_is_not_used(stored, monkeypatch, tmp_path):
    elsewhere = tmp_path / "a b" / "spark"
    elsewhere.mkdir(parents=True)
    stored.rename(elsewhere / stored.name)
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(elsewhere.parent))
    assert archive.with_archive({}) == {}


@pytest.mark.parametrize("given", ["-Xshare:off", "-XX:SharedArchiveFile=x", "-XX:AOTCache=x"])
def test_a_caller_who_decides_about_archives_is_left_alone(stored, given):
    assert archive.with_archive({JAVA_OPTIONS: given}) == {JAVA_OPTIONS: given}


def test_the_setting_turns_it_off(stored, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_SPARK_ARCHIVE", "0")
    assert archive.with_archive({}) == {}


def test_a_cache_that_cannot_be_read_is_no_failure(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "file"))
    assert archive.with_archive({}) == {}

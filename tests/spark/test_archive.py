"""An archive is used only when it is whole and ours, and made once."""

import importlib
import os
import sys

import pytest

from omnigraph.runner import archive, archive_build
from omnigraph.runner.archive import JAVA_OPTIONS

pytestmark = pytest.mark.usefixtures("_spark_here")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path))
    (tmp_path / "spark").mkdir()
    return tmp_path / "spark"


@pytest.fixture
def stored(cache):
    path = cache / f"spark-{archive.archive_key()}-5.jsa"
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
    stored.rename(cache / "spark-0000000000000000-5.jsa")
    assert archive.find_archive() is None


@pytest.mark.parametrize("given", ["-Xshare:off", "-XX:SharedArchiveFile=x", "-XX:AOTCache=x"])
def test_a_caller_who_decides_about_archives_is_left_alone(stored, given):
    assert archive.with_archive({JAVA_OPTIONS: given}) == {JAVA_OPTIONS: given}


def test_the_setting_turns_it_off(stored, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_SPARK_ARCHIVE", "0")
    assert archive.with_archive({}) == {}


def test_one_process_makes_it_and_a_failure_is_not_repeated_at_once(cache):
    assert archive.claim(cache, "key")
    assert not archive.claim(cache, "key")
    week = 7 * 24 * 3600
    claim = archive.claim_path(cache, "key")
    os.utime(claim, (claim.stat().st_atime, claim.stat().st_mtime - week - 60))
    assert archive.claim(cache, "key")


def test_the_child_that_makes_it_runs_the_module_that_builds(cache, monkeypatch):
    commands = []
    monkeypatch.setattr(archive.subprocess, "Popen", lambda command, **_: commands.append(command))
    archive.build_later({})
    ((python, option, module, key),) = commands
    assert (python, option, key) == (sys.executable, "-m", archive.archive_key())
    assert importlib.import_module(module) is archive_build


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "file"))
    assert archive.with_archive({}) == {}
    archive.build_later({})


def test_only_few_are_kept(cache):
    paths = [cache / f"spark-{number}-1.jsa" for number in range(4)]
    for age, path in enumerate(paths):
        path.write_bytes(b"1")
        os.utime(path, (1000 - age, 1000 - age))
    archive_build.remove_old(cache, paths[2])
    assert sorted(cache.glob("*.jsa")) == [paths[0], paths[2]]


def test_a_configuration_directory_of_the_user_rules_it_out(cache, monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", str(cache))
    assert archive.archive_key() is None

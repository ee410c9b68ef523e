"""Limits: from the environment, and a number that cannot be used is a warning."""

import logging
from dataclasses import fields

import pytest

from omnigraph import settings
from omnigraph.server.limits import ServerLimits, forget_unusable

DEFAULTS = {
    "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": 16,
    "OMNIGRAPH_PER_ACTOR_BYTES_MAX": 4_294_967_296,
    "OMNIGRAPH_READ_CONCURRENCY": 4,
    "OMNIGRAPH_QUERY_TIMEOUT_MS": 60_000,
    "OMNIGRAPH_QUERY_MAX_ROWS": 1_000_000,
    "OMNIGRAPH_QUERY_MAX_MB": 1024,
    "OMNIGRAPH_ANSWERS_MB": 2048,
    "OMNIGRAPH_LOAD_BODY_MAX_MB": 1024,
    "OMNIGRAPH_BLOB_BODY_MAX_MB": 4096,
}


def field_of(variable):
    return variable.removeprefix("OMNIGRAPH_").lower()


def test_every_limit_has_a_variable_and_its_default():
    assert {field_of(variable) for variable in DEFAULTS} == {f.name for f in fields(ServerLimits)}
    assert ServerLimits.from_environment() == ServerLimits()
    for variable, default in DEFAULTS.items():
        assert getattr(ServerLimits(), field_of(variable)) == default


@pytest.mark.parametrize("variable", DEFAULTS)
def test_a_variable_sets_its_limit_and_no_other(variable, monkeypatch):
    monkeypatch.setenv(variable, "7")
    found = ServerLimits.from_environment()
    assert {f.name for f in fields(found) if getattr(found, f.name) == 7} == {field_of(variable)}


@pytest.mark.parametrize("variable", DEFAULTS)
@pytest.mark.parametrize("text", ["many", "-1", "1.5"])
def test_a_bad_value_is_a_warning_and_the_default(variable, text, monkeypatch, caplog):
    monkeypatch.setenv(variable, text)
    with caplog.at_level(logging.WARNING, "omnigraph.server"):
        assert ServerLimits.from_environment() == ServerLimits()
    (record,) = caplog.records
    assert variable in record.getMessage()
    assert str(DEFAULTS[variable]) in record.getMessage()


def test_no_time_limit_can_be_asked_for_and_no_readers_cannot(monkeypatch, caplog):
    monkeypatch.setenv("OMNIGRAPH_QUERY_TIMEOUT_MS", "0")
    monkeypatch.setenv("OMNIGRAPH_READ_CONCURRENCY", "0")
    found = ServerLimits.from_environment()
    assert (found.query_timeout_ms, found.read_concurrency) == (0, 4)
    assert len(caplog.records) == 1


def test_what_the_engine_cannot_use_counts_as_unset(monkeypatch, caplog):
    for variable in ("OMNIGRAPH_CACHE_MB", "OMNIGRAPH_LOCK_WAIT_MS", "OMNIGRAPH_READ_CONCURRENCY"):
        monkeypatch.setenv(variable, "much")
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "7")
    with caplog.at_level(logging.WARNING):
        forget_unusable()
    # That of the server has a warning of its own, which tells the default.
    assert [record.message.partition(" is ")[0] for record in caplog.records] == [
        "OMNIGRAPH_LOCK_WAIT_MS",
        "OMNIGRAPH_CACHE_MB",
    ]
    assert settings.CACHE_MB.get() == 2048
    assert settings.LOCK_WAIT_MS.get() == 10_000
    assert settings.INDEX_MIN_ROWS.get() == 7

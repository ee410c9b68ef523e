import os
import sys

import pytest

from omnigraph import settings
from omnigraph.errors import BadRequest

NUMBERS = {
    settings.LOCK_WAIT_MS: (10_000, 0),
    settings.LOCK_LEASE_MS: (6_000, 1),
    settings.INDEX_MIN_ROWS: (10_000, 0),
    settings.LOAD_CONCURRENCY: (8, 1),
    settings.MAINTENANCE_CONCURRENCY: (8, 1),
    settings.SPARK_THRESHOLD_MB: (4096, 0),
    settings.CACHE_MB: (2048, 0),
    settings.DISK_CACHE_MB: (4096, 0),
    settings.EMBED_BATCH: (64, 1),
    settings.EMBED_RATE: (0, 0),
    settings.EMBED_TIMEOUT_MS: (30_000, 1),
    settings.EMBED_DEADLINE_MS: (60_000, 0),
    settings.EMBED_RETRY_ATTEMPTS: (4, 1),
    settings.EMBED_RETRY_BACKOFF_MS: (200, 0),
    settings.MUTATION_MAX_ROWS: (None, 1),
    settings.PER_ACTOR_INFLIGHT_MAX: (16, 1),
    settings.PER_ACTOR_BYTES_MAX: (4_294_967_296, 1),
    settings.READ_CONCURRENCY: (4, 1),
    settings.QUERY_TIMEOUT_MS: (60_000, 0),
    settings.QUERY_MAX_ROWS: (1_000_000, 1),
    settings.QUERY_MAX_MB: (1024, 1),
    settings.ANSWERS_MB: (2048, 1),
    settings.LOAD_BODY_MAX_MB: (1024, 1),
    settings.BLOB_BODY_MAX_MB: (4096, 1),
}


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch):
    """Other tests keep nothing on disk."""
    monkeypatch.delenv(settings.DISK_CACHE_MB.variable)


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda setting: setting.variable)
class TestNumbers:
    def test_default(self, setting):
        assert setting.get() == NUMBERS[setting][0]

    def test_empty_counts_as_unset(self, setting, monkeypatch):
        monkeypatch.setenv(setting.variable, "  ")
        assert setting.get() == NUMBERS[setting][0]

    def test_is_read_when_asked_for(self, setting, monkeypatch):
        monkeypatch.setenv(setting.variable, "17")
        assert setting.get() == 17
        monkeypatch.setenv(setting.variable, " 18 ")
        assert setting.get() == 18

    def test_the_smallest_number_is_accepted_and_the_next_smaller_refused(
        self, setting, monkeypatch
    ):
        smallest = NUMBERS[setting][1]
        monkeypatch.setenv(setting.variable, str(smallest))
        assert setting.get() == smallest
        monkeypatch.setenv(setting.variable, str(smallest - 1))
        with pytest.raises(BadRequest, match=f"{setting.variable}.*{smallest} or more"):
            setting.get()

    @pytest.mark.parametrize("text", ["ten", "1.5", "1_000", "-1", "٣", "1e3"])
    def test_anything_else_is_refused_by_name(self, setting, text, monkeypatch):
        monkeypatch.setenv(setting.variable, text)
        with pytest.raises(BadRequest) as caught:
            setting.get()
        assert setting.variable in str(caught.value)
        assert f'"{text}"' in str(caught.value)
        assert caught.value.details["variable"] == setting.variable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, False) for text in ("", "0", "false", "False")),
        *((text, True) for text in ("1", "true", "yes", "no")),
    ],
)
def test_mock_embeddings_are_on_unless_empty_zero_or_false(text, expected, monkeypatch):
    assert settings.EMBEDDINGS_MOCK.get() is False
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", text)
    assert settings.EMBEDDINGS_MOCK.get() is expected


def test_numba_is_on_unless_zero_or_false(monkeypatch):
    assert settings.NUMBA.get() is True
    monkeypatch.setenv("OMNIGRAPH_NUMBA", "0")
    assert settings.NUMBA.get() is False


@pytest.mark.parametrize("mode", ["auto", "indexed", "csr"])
def test_traversal_mode(mode, monkeypatch):
    assert settings.TRAVERSAL_MODE.get() == "auto"
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    assert settings.TRAVERSAL_MODE.get() == mode


def test_unknown_traversal_mode_lists_the_known_ones(monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "magic")
    with pytest.raises(BadRequest, match=r"OMNIGRAPH_TRAVERSAL_MODE.*auto.*indexed.*csr"):
        settings.TRAVERSAL_MODE.get()


def test_spark_master(monkeypatch):
    assert settings.SPARK_MASTER.get() is None
    monkeypatch.setenv("OMNIGRAPH_SPARK_MASTER", "spark://127.0.0.1:7077")
    assert settings.SPARK_MASTER.get() == "spark://127.0.0.1:7077"


def test_cache_dir_is_expanded_and_absolute(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", "~/here")
    assert settings.CACHE_DIR.get() == tmp_path / "here"
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", "there")
    assert settings.CACHE_DIR.get() == tmp_path / "there"


@pytest.mark.skipif(sys.platform in {"darwin", "win32"}, reason="the XDG rule is not for here")
@pytest.mark.parametrize(
    ("xdg", "expected"),
    [
        (None, "home/.cache/omnigraph"),
        ("xdg", "home/.cache/omnigraph"),
        ("{root}/xdg", "xdg/omnigraph"),
    ],
)
def test_cache_dir_default_follows_xdg(xdg, expected, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if xdg is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg.format(root=tmp_path))
    assert settings.CACHE_DIR.get() == tmp_path / expected


def test_the_home_of_nobody_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", "~nobody-has-this-name/cache")
    with pytest.raises(BadRequest, match="OMNIGRAPH_CACHE_DIR is"):
        settings.CACHE_DIR.get()


def test_no_home_directory_asks_for_the_variable(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    # What Python gives back where neither HOME nor the list of users names a directory.
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(BadRequest, match="OMNIGRAPH_CACHE_DIR"):
        settings.CACHE_DIR.get()

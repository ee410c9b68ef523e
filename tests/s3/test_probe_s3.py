import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.objects.store_errors import PermissionDenied
from omnigraph.storage.objects.stores import open_store, probe_compare_and_set, probe_put_if_absent
from omnigraph.storage.store_kinds.store_kind import Limits


@pytest.fixture
def store(s3_root):
    return open_store(s3_root, Limits(retries=0))


def without(header):
    """A store in front of the store that does not know a header."""

    def strip(environ):
        environ.pop(header, None)

    return strip


@pytest.mark.parametrize("probe", [probe_put_if_absent, probe_compare_and_set])
def test_a_store_that_keeps_its_promises_passes_and_is_left_clean(store, probe):
    probe(store)
    assert store.list() == []


def test_a_store_without_put_if_absent_is_refused(s3, store):
    s3.before(without("HTTP_IF_NONE_MATCH"))
    with pytest.raises(StorageError, match="lose data silently") as caught:
        probe_put_if_absent(store)
    assert "If-None-Match" in str(caught.value)
    assert store.list() == []


def test_a_store_without_compare_and_set_is_refused(s3, store):
    s3.before(without("HTTP_IF_MATCH"))
    with pytest.raises(StorageError, match="lose data silently") as caught:
        probe_compare_and_set(store)
    assert "If-Match" in str(caught.value)
    assert store.list() == []


def test_a_store_that_refuses_the_loser_and_writes_anyway_is_refused(s3, store):
    def pretend(environ):
        if environ["REQUEST_METHOD"] == "PUT" and "HTTP_IF_NONE_MATCH" in environ:
            claims.append(environ.pop("HTTP_IF_NONE_MATCH"))

    def deny(environ):
        if environ["REQUEST_METHOD"] == "PUT" and len(claims) == 2:
            return "412 Precondition Failed", b""
        return None

    claims = []
    s3.before(pretend)
    s3.after(deny)
    # The adapter finds its own receipt on the object and takes the claim for won.
    with pytest.raises(StorageError, match="put-if-absent"):
        probe_put_if_absent(store)


def test_a_store_that_does_not_let_us_is_another_matter(s3, store):
    s3.before(lambda environ: ("403 Forbidden", b""))
    with pytest.raises(PermissionDenied):
        probe_put_if_absent(store)

import boto3
import pytest

from omnigraph.storage.objects.store_errors import (
    AlreadyExists,
    ObjectChanged,
    PermissionDenied,
    Unavailable,
)
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.store_kinds.store_kind import Limits
from omnigraph.storage.uris import Root
from tests.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY
from tests.storage.objects_contract import ObjectsContract, SharedContract


@pytest.fixture
def store(s3_root):
    return open_store(s3_root)


class TestContract(ObjectsContract, SharedContract):
    nests_objects = True
    many = 120  # more than two pages of the test server

    @pytest.fixture
    def place(self, s3_root):
        return s3_root.canonical

    @pytest.fixture
    def environment(self, s3):
        return s3.environment()


def patient(root):
    """A store whose requests are sent again when the server fails."""
    return open_store(root, Limits(retries=2))


def impatient(root):
    return open_store(root, Limits(5, 0))


def answer_puts(status, times=None):
    """A fault that answers PUT requests with a status."""
    left = [times]

    def fault(environ):
        if environ["REQUEST_METHOD"] != "PUT" or left[0] == 0:
            return None
        if left[0] is not None:
            left[0] -= 1
        return status, b""

    return fault


def every_call(store):
    return [
        lambda: store.write_text("object", "x"),
        lambda: store.write_text_if_absent("object", "x"),
        lambda: store.write_text_if_match("object", "x", '"tag"'),
        lambda: store.read_text("object"),
        lambda: store.read_versioned("object"),
        lambda: store.exists("object"),
        lambda: store.list("dir"),
        lambda: store.rename("object", "other"),
        lambda: store.delete("object"),
        lambda: store.delete_prefix("object"),
    ]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("403 Forbidden", PermissionDenied),
        ("401 Unauthorized", PermissionDenied),
        ("500 Internal Server Error", Unavailable),
        ("503 Slow Down", Unavailable),
        ("418 I'm a teapot", Unavailable),
    ],
)
def test_refusals_and_failures_of_the_server_are_typed(s3, s3_root, status, kind):
    store = impatient(s3_root)
    s3.before(lambda environ: (status, b""))
    for call in every_call(store):
        with pytest.raises(kind):
            call()


def test_a_missing_bucket_is_no_missing_object(s3):
    store = impatient(Root.parse("s3://never-made/graph"))
    for call in every_call(store):
        with pytest.raises(Unavailable):
            call()


def test_a_server_that_is_not_there(s3, s3_root, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    store = impatient(s3_root)
    for call in every_call(store):
        with pytest.raises(Unavailable):
            call()


def test_a_passing_failure_is_retried(s3, s3_root):
    store = patient(s3_root)
    s3.before(answer_puts("503 Slow Down", times=1))
    store.write_text_if_absent("object", "x")
    assert store.read_text("object") == "x"


def test_a_claim_whose_answer_was_lost_does_not_lose_against_itself(s3, s3_root):
    store = patient(s3_root)
    s3.after(answer_puts("500 Internal Server Error", times=1))
    token = store.write_text_if_absent("object", "mine")
    assert store.read_versioned("object") == ("mine", token)
    with pytest.raises(AlreadyExists):
        store.write_text_if_absent("object", "mine")


def test_a_swap_whose_answer_was_lost_does_not_lose_against_itself(s3, s3_root):
    store = patient(s3_root)
    first = store.write_text("object", "1")
    s3.after(answer_puts("500 Internal Server Error", times=1))
    second = store.write_text_if_match("object", "2", first)
    assert store.read_versioned("object") == ("2", second)
    with pytest.raises(ObjectChanged):
        store.write_text_if_match("object", "2", first)


def test_a_claim_refused_for_a_request_in_flight_is_made_again(s3, s3_root):
    """S3 answers 409 when two conditional writes of one key overlap, whoever wins in the end."""
    store = impatient(s3_root)
    s3.before(answer_puts("409 Conflict", times=1))
    store.write_text_if_absent("object", "x")
    assert store.read_text("object") == "x"


@pytest.mark.parametrize("status", ["404 Not Found", "409 Conflict", "412 Precondition Failed"])
def test_answers_that_do_not_fit_the_question(s3, s3_root, status):
    store = impatient(s3_root)
    token = store.write_text("object", "x")
    s3.before(answer_puts(status))
    with pytest.raises(ObjectChanged):
        store.write_text_if_match("object", "y", token)
    with pytest.raises(Unavailable):
        store.write_text("object", "y")
    with pytest.raises(Unavailable):
        store.write_text_if_absent("new", "y")


def test_keys_lie_under_the_prefix_as_they_are_named(s3, s3_root):
    open_store(s3_root).write_text("dir/a b#?%20é", "text")
    client = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )
    key = f"{s3_root.path}/dir/a b#?%20é"
    assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"text"
    client.close()


def test_a_graph_may_lie_at_the_top_of_a_bucket(s3):
    s3.make_bucket("whole-bucket")
    store = open_store(Root.parse("s3://whole-bucket/"))
    store.write_text("dir/object", "x")
    assert store.list() == ["dir/object"]
    assert store.list("dir") == ["dir/object"]


@pytest.mark.parametrize("name", ["plain", "a graph é%20#~+[1]"])
def test_lance_writes_under_the_same_prefix(s3_root, name):
    import lance
    import pyarrow as pa

    root = Root.parse(f"{s3_root.canonical}/{name}")
    address, options = root.child("nodes/table"), root.lance_options()
    table = lance.write_dataset(pa.table({"a": [1]}), address, storage_options=options)
    branch = table.create_branch("feature/x", 1)
    branch.insert(pa.table({"a": [2]}))
    again = lance.dataset(address, storage_options=options).checkout_version(("feature/x", None))
    assert again.to_table().to_pydict() == {"a": [1, 2]}
    assert all(key.startswith("nodes/table/") for key in open_store(root).list())
    assert open_store(root).exists("nodes/table/tree/feature/x")
    everything = open_store(s3_root).list()
    assert everything
    assert all(key.startswith(f"{name}/nodes/table/") for key in everything)

"""A kind of store that only this test has: its description is all that the product needs to know of it."""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass

import obstore
import pytest
from obstore.store import MemoryStore

from omnigraph.changes.export.export_files import output_to
from omnigraph.errors import BadRequest
from omnigraph.pipeline.datasource.option_values import split_store_options
from omnigraph.pipeline.rows.bad_records import prepare_rejects, rejects_file, write_rejects
from omnigraph.pipeline.sources.locations import open_plain
from omnigraph.pipeline.sources.sources import JSON_LINES, files_named
from omnigraph.storage.blob_policy import blob_policy
from omnigraph.storage.objects.store_errors import translate
from omnigraph.storage.objects.stores import open_store, probe_compare_and_set, probe_put_if_absent
from omnigraph.storage.store_kinds import known
from omnigraph.storage.store_kinds.store_kind import StoreKind
from omnigraph.storage.tables.branch_refs import branch_of
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.uris import Root
from omnigraph.types import Unfit


@dataclass(frozen=True)
class LabOptions:
    """Which shelf of the laboratory is meant."""

    shelf: str | None = None

    def over(self, environment):
        return self if self.shelf else environment

    def to_mapping(self):
        return {} if self.shelf is None else {"shelf": self.shelf}

    def for_lance(self, bucket):
        return {"lab_shelf": self.shelf or "floor", "lab_bucket": bucket}


class Lab(StoreKind):
    """Buckets in memory, by shelf, name and prefix."""

    scheme = "lab"
    other_schemes = ("labs",)

    def __init__(self):
        self.buckets = {}

    def is_bucket(self, name):
        return name.isalpha()

    def parse_options(self, given, named="storage option `{}`".format):
        if given is None:
            return None
        if set(given) - {"shelf"}:
            raise BadRequest(f"there is no {named(min(set(given) - {'shelf'}))}; there is shelf")
        return LabOptions(**given)

    def environment_options(self, environ):
        return LabOptions(environ.get("LAB_SHELF"))

    def reached(self, given, environ=None):
        found = self.environment_options(environ or {})
        return given.over(found) if isinstance(given, LabOptions) else found

    def open(self, bucket, prefix, options, limits):
        assert (options["lab_bucket"], limits.timeout) == (bucket, 30.0)
        return self.buckets.setdefault((options["lab_shelf"], bucket, prefix), MemoryStore())

    def without_body(self, message):
        return message.partition(" [sent: ")[0]

    def missing_bucket(self, message):
        return "there is no such drawer; open it" if "no drawer" in message else None


@pytest.fixture
def lab(monkeypatch):
    kind = Lab()
    monkeypatch.setattr(known, "STORE_KINDS", (*known.STORE_KINDS, kind))
    return kind


def test_addresses_are_read_and_written_by_the_kind(lab):
    root = Root.parse("LABS://drawer/a b/")
    assert (root.canonical, root.is_local) == ("lab://drawer/a b", False)
    assert root == Root.parse("lab://drawer/a b")
    assert root.child("nodes/1") == "lab://drawer/a%20b/nodes/1"
    with pytest.raises(BadRequest, match="write lab://bucket/prefix"):
        Root.parse("lab://drawer7/x")
    assert Root.parse("s3://drawer/a").scheme == "s3"


def test_options_are_those_of_the_kind_that_the_graph_lies_in(lab):
    given = known.parse_store_options({"shelf": "top"}, "lab://drawer/g")
    root = pickle.loads(pickle.dumps(Root.parse("lab://drawer/g", given)))
    assert root.lance_options() == {"lab_shelf": "top", "lab_bucket": "drawer"}
    with pytest.raises(BadRequest, match="no storage option `shelf`"):
        known.parse_store_options({"shelf": "top"}, "s3://bucket/g")
    # Options for one kind of store say nothing about another.
    assert "lab_shelf" not in Root.parse("s3://bucket/g", given).lance_options({})
    s3 = known.parse_store_options({"region": "r"}, "/here")
    assert Root.parse("lab://drawer", s3).lance_options()["lab_shelf"] == "floor"


def test_sparks_options_are_named_by_the_scheme(lab):
    registered = {"lab": LabOptions("registered"), "s3": None}
    given = {"path": "labs://drawer/g", "Lab.shelf": "top", "type": "T"}
    rest, store = split_store_options(given, registered)
    assert (rest, store) == ({"path": "labs://drawer/g", "type": "T"}, LabOptions("top"))
    rest, store = split_store_options({"graph": "lab://drawer/g"}, registered)
    assert store == LabOptions("registered")


def test_objects_of_the_kind_are_claimed_swapped_and_listed(lab):
    store = open_store(Root.parse("lab://drawer/g", LabOptions("top")))
    probe_put_if_absent(store)
    probe_compare_and_set(store)
    store.write_text("a/b", "text")
    assert store.list("a") == ["a/b"]
    assert list(lab.buckets) == [("top", "drawer", "g")]
    assert store.address == "lab://drawer/g"


def test_loads_exports_rejects_and_blobs_reach_it(lab):
    top = LabOptions("top")
    with output_to("labs://drawer/in/a.jsonl.gz", options=top) as out:
        out.write(b'{"type": "A"}\n')
    (found,) = files_named("lab://drawer/in/*.gz", [*JSON_LINES, ".gz"], top)
    assert found.name == "lab://drawer/in/a.jsonl.gz"
    (again,) = files_named("lab://drawer/in/", [".gz"], top)
    assert again.location == found.location
    with open_plain(again.location, "gzip", again.name) as plain:
        assert io.TextIOWrapper(plain).read() == '{"type": "A"}\n'

    rejects = rejects_file("lab://drawer/bad.jsonl", top)
    prepare_rejects(rejects, (), Root.parse("lab://drawer/g"))
    write_rejects(rejects, [{"line": 1}])
    assert (
        bytes(obstore.get(lab.buckets["top", "drawer", ""], "bad.jsonl").bytes())
        == b'{"line": 1}\n'
    )
    with pytest.raises(BadRequest, match="inside the graph"):
        prepare_rejects(rejects, (), Root.parse("lab://drawer"))

    policy = blob_policy(["labs://drawer/in"], options=top)
    source = policy.reached_from_here().find_source("lab://drawer/in/a.jsonl.gz")
    assert source == ("lab://drawer/in/a.jsonl.gz", found.size)
    with pytest.raises(Unfit, match="below none of the bases"):
        policy.find_source("lab://drawer/bad.jsonl")


def test_refs_of_branches_are_found_beside_a_table(lab):
    table = lab.buckets["top", "drawer", "g h/t.lance"] = MemoryStore()
    text = (
        '{"identifier": {"version_mapping": [[1, "u"]]}, "parentBranch": null, "parentVersion": 1}'
    )
    obstore.put(table, "_refs/branches/x.json", text.encode())
    options = {"lab_shelf": "top", "lab_bucket": "drawer"}
    ref = TableRef("lab://drawer/g%20h/t.lance", branch="x", storage_options=options)
    assert branch_of(ref).identifier == "u"


def test_answers_are_shortened_as_the_kind_says(lab):
    failure = OSError("gone [sent: secret]")
    assert "secret" not in str(translate(failure, "read", "a", "lab://drawer"))
    assert known.shown_cause(failure) is None
    assert "open it" in str(translate(OSError("no drawer"), "read", "a", "lab://drawer"))

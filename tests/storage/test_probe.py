import pytest

from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.stores import open_store, probe_compare_and_set, probe_put_if_absent
from omnigraph.storage.uris import Root


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    if request.param == "memory":
        return ObjectStore.in_memory()
    return open_store(Root.parse(tmp_path / "graph"))


@pytest.mark.parametrize("probe", [probe_put_if_absent, probe_compare_and_set])
def test_a_store_that_keeps_its_promises_passes_and_is_left_clean(store, probe):
    store.write_text("object", "x")
    probe(store)
    probe(store)
    assert store.list() == ["object"]


def test_no_directory_is_left_behind(tmp_path):
    probe_put_if_absent(open_store(Root.parse(tmp_path / "graph")))
    assert [entry.name for entry in (tmp_path / "graph").iterdir()] == ["__locks"]

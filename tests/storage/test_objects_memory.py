import pytest

from omnigraph.storage.objects.object_store import ObjectStore
from tests.storage.objects_contract import ObjectsContract


class TestContract(ObjectsContract):
    nests_objects = True
    many = 1200

    @pytest.fixture
    def store(self):
        return ObjectStore.in_memory()

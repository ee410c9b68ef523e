import pytest

from omnigraph.storage import layout


# Vectors of the FNV authors.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"b", 0xAF63DF4C8601F1A5),
        (b"foobar", 0x85944171F73967E8),
    ],
)
def test_fnv1a64(data, expected):
    assert layout.fnv1a64(data) == expected


def test_a_table_lies_under_the_hash_of_its_name():
    first = layout.table_location("node", "foobar", "inc1", used_before=False)
    assert first == "nodes/85944171f73967e8"
    assert layout.table_location("edge", "a", "inc1", used_before=False) == "edges/af63dc4c8601ec8c"


def test_a_name_used_before_gets_its_incarnation():
    again = layout.table_location("node", "foobar", "01J0ABC", used_before=True)
    assert again == "nodes/85944171f73967e8-01J0ABC"


def test_the_hash_has_sixteen_digits_and_is_over_utf8():
    for n in range(300):
        location = layout.table_location("node", f"Type{n}é", "i", used_before=False)
        digits = location.removeprefix("nodes/")
        assert len(digits) == 16
        assert int(digits, 16) == layout.fnv1a64(f"Type{n}é".encode())


def test_names_under_the_root():
    assert layout.MANIFEST == "__manifest"
    assert layout.RECOVERY_AUDIT == "_graph_commit_recoveries.lance"
    assert layout.RECOVERY_DIR == "__recovery"
    assert layout.LOCKS_DIR == "__locks"
    assert layout.LEASES_DIR == "__leases"
    assert layout.SCHEMA_MIRRORS == ("_schema.pg", "_schema.ir.json", "__schema_state.json")


def test_sidecar_names():
    name = layout.sidecar_name("01J0ABCDEFGHJKMNPQRSTVWXYZ")
    assert name == "__recovery/01J0ABCDEFGHJKMNPQRSTVWXYZ.json"


def test_what_is_named_like_a_sidecar():
    name = layout.sidecar_name("01J0ABCDEFGHJKMNPQRSTVWXYZ")
    assert layout.is_sidecar(name)
    for other in (
        f"{name}.bak", f"x{name}", name.lower(), name.replace("01J0", "01I0"), f"{name}\n",
        "__recovery/notes.json", "__recovery/.json", "__recovery/deep/" + name.rpartition("/")[2],
    ):  # fmt: skip
        assert not layout.is_sidecar(other)

"""`omnigraph examples`: what it writes works, and it writes over nothing."""

from omnigraph.cli.local.examples import example_folders


def test_every_example_is_written_and_its_files_agree(omnigraph, place):
    written = omnigraph("examples", "new/place", "--json").json["written"]
    assert written == sorted(written)
    names = [folder.name for folder in example_folders()]
    assert "social" in names
    for folder in example_folders():
        for path in folder.iterdir():
            if path.name == "__pycache__":
                continue
            copy = place / "new" / "place" / path.relative_to(folder.parent)
            assert str(copy.relative_to(place)) in written
            assert copy.read_bytes() == path.read_bytes()
        linted = omnigraph(
            "lint",
            "--schema",
            f"new/place/{folder.name}/schema.pg",
            "--query",
            f"new/place/{folder.name}/queries.gq",
        )
        assert linted.exit == 0, linted.stderr


def test_one_by_name(omnigraph, place):
    assert omnigraph("examples", "e", "--only", "social").exit == 0
    assert [path.name for path in (place / "e").iterdir()] == ["social"]
    result = omnigraph("examples", "f", "--only", "ghost")
    assert result.exit == 1
    assert "social" in result.stderr
    assert not (place / "f").exists()


def test_nothing_is_written_over(omnigraph, place):
    (place / "full").mkdir()
    (place / "full" / "mine").touch()
    assert omnigraph("examples", "full").exit == 1
    assert [path.name for path in (place / "full").iterdir()] == ["mine"]
    (place / "file").touch()
    assert omnigraph("examples", "file").exit == 1
    (place / "empty").mkdir()
    assert omnigraph("examples", "empty").exit == 0

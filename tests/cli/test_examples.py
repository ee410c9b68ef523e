"""`omnigraph examples`: what it writes works, and it writes over nothing."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from omnigraph.cli.commands.product import example_folders


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


def test_it_ends_with_what_to_run_next(omnigraph, place):
    answer = omnigraph("examples", "my place")
    _, _, told = answer.stdout.partition("run next")
    lines = [line.strip() for line in told.splitlines()[1:]]
    assert len(lines) == len(example_folders())
    for line in lines:
        _, script = shlex.split(line, comments=True)
        assert (place / script).is_file()
    (orders,) = (line for line in lines if "daily_orders" in line)
    assert "omnigraph[spark]" in orders.partition("#")[2]
    assert all("#" not in line for line in lines if line != orders)


def test_every_example_has_a_readme_that_names_its_files():
    for folder in example_folders():
        readme = (folder / "README.md").read_text("utf-8")
        for path in folder.iterdir():
            if path.name not in {"README.md", "__pycache__"}:
                assert f"`{path.name}`" in readme, (folder.name, path.name)
        for block in re.findall(r"^```sh\n(.*?)^```", readme, re.MULTILINE | re.DOTALL):
            for command in block.splitlines():
                assert shlex.split(command)[0] in {"sh", "python", "omnigraph"}


def test_an_example_says_in_one_line_what_it_lacks(tmp_path):
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise ImportError")
    script = (
        next(folder for folder in example_folders() if folder.name == "daily_orders") / "run.py"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "omnigraph[spark]" in done.stderr


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


@pytest.mark.parametrize("argv", [("examples", "taken"), ("skill", "--out", "taken")])
def test_a_file_in_the_place_of_the_directory_is_said_to_be_one(omnigraph, place, argv):
    (place / "taken").write_text("mine", "utf-8")
    result = omnigraph(*argv)
    assert result.exit == 1
    assert result.stderr == "error: taken is a file; give a directory, or the name of a new one\n"

"""A directory to work in, and the command line in it."""

import pytest

from tests.cli.running import run_fresh

SCHEMA = """\
node Person {
  name: String @key
  age: I32?
}
edge Knows: Person -> Person
"""


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    """Nothing of the developer's own files, where a test runs the command line in its process."""
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OMNIGRAPH_PROFILE", raising=False)


@pytest.fixture
def place(tmp_path):
    """A working directory with a schema in it."""
    (tmp_path / "people.pg").write_text(SCHEMA, "utf-8")
    return tmp_path


@pytest.fixture
def omnigraph(launcher, place):
    """Run a command line in the working directory."""

    def run(*argv, env=None, stdin=None):
        return launcher.run(argv, place, env, stdin)

    return run


@pytest.fixture
def fresh(place):
    """The same in a new interpreter."""

    def run(*argv, env=None, stdin=None):
        return run_fresh(argv, place, env, stdin)

    return run


@pytest.fixture
def graph(omnigraph):
    """The URI of an empty graph."""
    result = omnigraph("init", "--schema", "people.pg", "g.omni")
    assert result.exit == 0, result.stderr
    return "g.omni"

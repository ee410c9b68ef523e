"""Deleting a branch of a graph that is not on this machine takes a yes."""

import os
import pty

import pytest

from omnigraph.cli.address import Store
from omnigraph.cli.call import require_consent
from omnigraph.cli.command import Flags
from omnigraph.errors import BadRequest

REMOTE = Store("s3://bucket/g", is_local=False)
LOCAL = Store("g.omni", is_local=True)
ACT = "deleting branch x"


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_away_from_a_terminal_the_command_names_the_flag(omnigraph, more):
    result = omnigraph("branch", "delete", "x", "--uri", "s3://bucket/g", *more)
    assert result.exit == 1
    first, second = result.stderr.splitlines()
    assert first == "omnigraph branch delete -> s3://bucket/g (direct, remote)"
    assert second == "error: deleting branch x on s3://bucket/g needs consent: pass --yes"


def test_the_flag_goes_on_to_the_graph(omnigraph):
    # Half a credential is refused when the store is opened, without any network.
    argv = ("branch", "delete", "x", "--uri", "s3://bucket/g", "--yes")
    result = omnigraph(*argv, env={"AWS_ACCESS_KEY_ID": "half"})
    assert result.exit == 1
    assert "AWS_SECRET_ACCESS_KEY" in result.stderr
    assert "consent" not in result.stderr


def test_a_local_graph_needs_none():
    require_consent(Flags(), LOCAL, ACT)


@pytest.fixture
def terminal(monkeypatch):
    """A terminal at which a person types an answer."""
    mine, theirs = pty.openpty()
    stream = os.fdopen(os.dup(theirs), "r", encoding="utf-8")
    errors = os.fdopen(theirs, "w", encoding="utf-8")

    def ask(typed, flags=None):
        # Here and not around the test: pytest puts its own streams in place before that.
        monkeypatch.setattr("sys.stdin", stream)
        monkeypatch.setattr("sys.stderr", errors)
        os.write(mine, typed)
        require_consent(flags or Flags(), REMOTE, ACT)

    yield ask
    monkeypatch.undo()
    stream.close()
    errors.close()
    os.close(mine)


@pytest.mark.parametrize("typed", [b"yes\n", b"y\n", b" YES \n"])
def test_a_yes_at_the_terminal(terminal, typed):
    terminal(typed)


@pytest.mark.parametrize("typed", [b"no\n", b"\n", b"yeah\n", b"\x04"])
def test_anything_else_is_a_no(terminal, typed):
    with pytest.raises(BadRequest, match="not agreed"):
        terminal(typed)


def test_json_never_asks(terminal):
    with pytest.raises(BadRequest, match="--yes"):
        terminal(b"yes\n", Flags(json=True))

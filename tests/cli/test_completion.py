"""Completion of command lines: what a shell is told, and the script that asks."""

import shutil
import subprocess
import sys

import pytest

from tests.cli.running import environment


@pytest.fixture(scope="module")
def site(tmp_path_factory, launcher):
    """A directory with a graph `g.omni` that has the branches main, feature/x and fix."""
    place = tmp_path_factory.mktemp("completion")
    (place / "s.pg").write_text("node Person { name: String @key }\nnode Pet { n: String @key }\n")
    for argv in (
        ("init", "--schema", "s.pg", "g.omni"),
        ("branch", "create", "feature/x", "--uri", "g.omni"),
        ("branch", "create", "fix", "--uri", "g.omni"),
    ):
        assert launcher.run(argv, place).exit == 0
    (place / "home").mkdir()
    config = "profiles: { near: { store: g.omni }, far: { store: 's3://bucket/g' } }\n"
    (place / "home" / "config.yaml").write_text(config, "utf-8")
    return place


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ver"], ["verify", "version"]),
        (["--store", "g.omni", "sna"], ["snapshot"]),
        (["branch", ""], ["create", "list", "merge", "delete"]),
        (["schema", "s"], ["show"]),
        (["snapshot", "--at-"], ["--at-version", "--at-time"]),
        (["load", "--mode", "m"], ["merge"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["--profile", "n"], ["near"]),
        (["branch", "delete", "--uri", "g.omni", "f"], ["feature/x", "fix"]),
        (["branch", "merge", "--into", "", "--uri", "g.omni"], []),
        (["snapshot", "g.omni", "--branch", ""], ["main", "feature/x", "fix"]),
        (["--profile", "near", "snapshot", "--branch", "m"], ["main"]),
        (["export", "g.omni", "--type", "P"], ["Person", "Pet"]),
        # Nothing, and no word about it.
        (["--profile", "far", "snapshot", "--branch", ""], []),
        (["snapshot", "nowhere.omni", "--branch", ""], []),
        (["frobnicate", ""], []),
        (["snapshot", ""], []),
        ([], None),
    ],
)
def test_what_a_word_can_become(launcher, site, words, found):
    result = launcher.run(["__complete", *words], site)
    assert (result.exit, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    if found is None:
        assert {"init", "query", "version"} <= set(lines)
        assert "read" not in lines
    else:
        assert lines == found


def test_a_broken_graph_is_completed_by_silence(launcher, site):
    shutil.copytree(site / "g.omni", site / "broken.omni")
    (site / "broken.omni" / "_schema.ir.json").write_text("{not json", "utf-8")
    result = launcher.run(["__complete", "export", "broken.omni", "--type", ""], site)
    assert (result.exit, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_a_branch(launcher, site):
    """In a real bash, with the script as it is printed."""
    script = launcher.run(["completion", "bash"], site).stdout
    program = (
        f'omnigraph() {{ "{sys.executable}" -m omnigraph "$@"; }}\n{script}\n'
        "complete -p omnigraph\n"
        "COMP_WORDS=(omnigraph branch delete --uri g.omni fe); COMP_CWORD=5\n"
        "_omnigraph\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", program],
        cwd=site,
        env=environment(site / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "complete -o default -F _omnigraph omnigraph",
        "feature/x",
    ]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_get_a_script(launcher, site, shell):
    script = launcher.run(["completion", shell], site).stdout
    assert "omnigraph __complete" in script
    checker = shutil.which(shell)
    if checker is not None:
        subprocess.run([checker, "-n", "/dev/stdin"], input=script, text=True, check=True)

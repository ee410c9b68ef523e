"""What is wrong with a machine's Java is said before any work, with what to do about it."""

import os
import re
import stat
import subprocess
import sys

import pytest

from omnigraph.runner.java import find_java, java_problem

MODULES = "java.base jdk.incubator.vector"


@pytest.fixture
def java_home(tmp_path, monkeypatch):
    """Make a directory look like an installed Java, and JAVA_HOME point to it."""

    def make(release=None, script="exit 1"):
        program = tmp_path / "java" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        if release is not None:
            (tmp_path / "java" / "release").write_text(release, "utf-8")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
        return program

    return make


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_a_new_enough_java_is_no_problem_and_is_not_started(java_home, version):
    java_home(f'JAVA_VERSION="{version}"\nMODULES="{MODULES}"\n', "echo started >&2; exit 1")
    assert java_problem() is None
    assert find_java().version == version


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "16"])
def test_a_java_that_is_too_old_is_named(java_home, version):
    program = java_home(f'JAVA_VERSION="{version}"\nMODULES="{MODULES}"\n')
    problem = java_problem()
    assert str(program) in problem
    assert f"Java {version}" in problem
    assert "17 or newer" in problem
    assert "install" in problem


def test_a_java_without_a_description_is_asked(java_home):
    java_home(script="echo 'openjdk version \"11.0.9\" 2020-10-20' >&2")
    assert "Java 11.0.9" in java_problem()


def test_a_program_that_is_no_java_is_named(java_home):
    program = java_home(script="echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    assert f'"{program}" does not run as Java' in java_problem()


def test_a_java_that_lacks_the_module_spark_needs_is_named(java_home):
    java_home('JAVA_VERSION="21.0.4"\nMODULES="java.base java.sql"\n')
    assert "jdk.incubator.vector" in java_problem()


def test_a_wrong_java_home_is_named_even_where_a_java_is_on_the_path(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert f'JAVA_HOME is "{tmp_path / "nowhere"}"' in java_problem()
    assert "unset it" in java_problem()


def test_no_java_at_all_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no Java" in java_problem()
    assert "openjdk" in java_problem() or "winget" in java_problem()


# A session that runs in this process is used whatever JAVA_HOME says, hence another process.
REFUSED = """
from omnigraph.errors import BadRequest
from omnigraph.runner.session import spark_session
try:
    spark_session("local[1]")
except BadRequest as error:
    print(error)
"""


def test_a_session_is_refused_with_the_problem_and_the_way_around_it():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", REFUSED],
        env={**os.environ, "JAVA_HOME": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"JAVA_HOME.*engine=local", done.stdout), done.stdout

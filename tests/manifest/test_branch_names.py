from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest, BranchNameClash
from omnigraph.manifest.branch_names import (
    check_branch_name,
    is_internal,
    refuse_clash,
    trim_branch_name,
)


@pytest.mark.parametrize(
    "name",
    ["review", "review/may", "a.b-c_d", "Größe", "日本", "1", "__run__7", "x/y/z", ".hidden", "-x"],
)
def test_acceptable(name):
    assert check_branch_name(name) == name


def test_white_space_around_a_name_is_trimmed():
    assert check_branch_name("  review\t\n") == "review"


@pytest.mark.parametrize(
    "name",
    [
        "", "   ", "main", " main ", "/a", "a/", "a//b", "a..b", "..", "a\\b", "a b", "a:b", "a@b",
        "a.lock", "x/a.lock", "__internal", "__schema_apply_lock__", "a%b", "a\nb", "a*", "a~b",
        ".", "./a", "a/.", "a/./b", "x" * 300, "日" * 60,
    ],
)  # fmt: skip
def test_refused(name):
    with pytest.raises(BadRequest):
        check_branch_name(name)


@pytest.mark.parametrize("name", [None, 3, b"x", ["x"]])
def test_a_name_is_a_text(name):
    with pytest.raises(BadRequest):
        trim_branch_name(name)


def test_internal_names():
    assert is_internal("__x")
    assert not is_internal("__run__x")
    assert not is_internal("_x")


@pytest.mark.parametrize(("new", "live"), [("review/may", "review"), ("review", "review/may")])
def test_path_prefixes_clash(new, live):
    with pytest.raises(BranchNameClash) as caught:
        refuse_clash(new, ["other", live])
    assert caught.value.details == {"branch": new, "other": live}


def test_siblings_do_not_clash():
    refuse_clash("review/may", ["review/june", "reviews", "review/mayor"])

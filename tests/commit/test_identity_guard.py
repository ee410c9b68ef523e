"""States are compared by what they are, not by their numbers (docs/dev/commits.md has the list).

The source is walked as a syntax tree. Whoever needs a version number in a comparison, or opens a branch
by its name alone, has to say so here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph

SOURCE = Path(omnigraph.__file__).parent
NUMBERS = {"table_version", "manifest_version"}

# Functions that compare version numbers, and why that is right there.
MAY_COMPARE = {
    (
        "changes/entity_history/walk.py",
        "_pinned_since",
    ): "two commits of the branch that is walked, both found in its own manifest",
    (
        "changes/entity_history/walk.py",
        "_is_gone",
    ): "a first look; the id of the commit that is found there decides",
    (
        "changes/entity_history/table_line.py",
        "_versions_left",
    ): "versions of the very branch that is pinned, opened by its identifier",
    (
        "maintenance/cleanup/removal.py",
        "have",
    ): "versions of one lineage: incarnation, branch and its identifier are equal",
    (
        "manifest/publisher.py",
        "publish",
    ): "the version that this very publish made on the same branch",
    (
        "maintenance/repair.py",
        "_judge",
    ): "the newest version of the very branch that is pinned, opened by its identifier",
    (
        "maintenance/drifted.py",
        "drifted_tables",
    ): "files in the directory of the very table and branch that is pinned",
    (
        "commit/unpublished.py",
        "_ahead",
    ): "the newest version of the very branch that is pinned, opened by its identifier",
    ("manifest/lost_races.py", "moved_error"): "only what the message of a refusal says",
    (
        "manifest/history/resolve.py",
        "_head_up_to",
    ): "versions of the manifest on one branch, whose state was just read",
    (
        "manifest/history/equal_content.py",
        "has_rows_of",
    ): "versions of one lineage: incarnation and branch are equal",
    (
        "read/view/view.py",
        "view",
    ): "only which states stay in memory; what is read goes by commit ids",
    (
        "maintenance/purge/obstacles.py",
        "own_pins",
    ): "versions of the very branch that is pinned, compared by its identifier",
}
# Places that open a branch by its name alone.
MAY_NAME = {
    ("storage/tables/table_branches.py", "create_branch"): "made this moment, under its lock",
    (
        "storage/tables/table_branches.py",
        "remove_residue",
    ): "what is left of a branch has no identifier",
    (
        "maintenance/verify/verify.py",
        "verify",
    ): "every directory is read that is there, whatever branch it belongs to",
    ("algorithms/spark/spark_graph.py", "__init__"): "a session of Spark, no branch",
}


# Functions that read Lance's numbers of columns, and why none of them compares those of two branches or of
# versions far apart: two branches give one number to different columns, and Lance gives freed ones again.
MAY_NUMBER = {
    ("storage/tables/table.py", "field_ids"): "hands those of one version to the next one",
    (
        "read/view/row_changes.py",
        "_field_ids",
    ): "of two versions with one transaction between them, by the ids of their properties",
    ("storage/tables/staging.py", "field_numbers"): "columns and data files of one version",
    ("storage/tables/blobs/blob_columns.py", "_fields"): "columns and data files of one version",
}


def functions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node


def compares_numbers(node: ast.AST) -> bool:
    sides = (side for one in ast.walk(node) if isinstance(one, ast.Compare)
             for side in (one.left, *one.comparators))  # fmt: skip
    return any(isinstance(side, ast.Attribute) and side.attr in NUMBERS for side in sides)


def names_a_branch(node: ast.AST) -> bool:
    """Whether `.on(branch)` is called with a branch and without its identifier."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            first = call.args[0] if call.func.attr == "on" and call.args else None
            named = len(call.args) > 2 or any(word.arg == "branch_id" for word in call.keywords)
            is_main = isinstance(first, ast.Constant) and first.value is None
            if first is not None and not is_main and not named:
                return True
    return False


def numbers_columns(node: ast.AST) -> bool:
    """Whether Lance's number of a column is asked for."""
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and not call.args
        and call.func.attr in {"id", "field_ids"}
        for call in ast.walk(node)
    )


def reads_indexes_of_two(node: ast.AST) -> bool:
    """Whether the indexes of two tables, or of two versions of one, are listed in one function."""
    listed = {
        ast.unparse(call.args[0] if call.args else call.func).partition(".")[0]
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and getattr(call.func, "attr", getattr(call.func, "id", None))
        in {"describe_indices", "list_indexes", "index_parts", "indexes"}
    }
    return len(listed) > 1


def found(wrong, words) -> set[tuple[str, str]]:
    """The functions with something wrong in them; only files with one of the words are parsed."""
    return {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        if any(word in path.read_text("utf-8") for word in words)
        for name, node in functions(ast.parse(path.read_text("utf-8")))
        if wrong(node)
    }


def test_version_numbers_are_compared_only_where_it_is_right():
    assert found(compares_numbers, NUMBERS) == set(MAY_COMPARE)


def test_numbers_of_columns_are_read_only_within_a_version():
    assert found(numbers_columns, {".id()", ".field_ids()"}) == set(MAY_NUMBER)


def test_indexes_of_two_states_are_never_compared():
    words = {"describe_indices", "list_indexes", "index_parts", ".indexes()"}
    assert found(reads_indexes_of_two, words) == set()


def test_branches_are_opened_by_their_identifier():
    assert found(names_a_branch, {".on("}) == set(MAY_NAME)


@pytest.mark.parametrize("text", ["a.table_version == b", "b < a.x.manifest_version", "1 != a.table_version"])  # fmt: skip
def test_the_guard_sees_comparisons(text):
    assert compares_numbers(ast.parse(text))
    assert not compares_numbers(ast.parse("a.identity == b.identity"))


@pytest.mark.parametrize(
    "text", ["ref.on(branch)", "ref.on(branch, 3)", "workspace.ref(x).on('b')"]
)
def test_the_guard_sees_branches_without_identifiers(text):
    assert names_a_branch(ast.parse(text))
    for fine in ("ref.on(None, 3)", "ref.on(b, 3, i)", "ref.on(b, branch_id=i)", "ref.at(3)"):
        assert not names_a_branch(ast.parse(fine))


def test_the_guard_sees_numbers_of_columns_and_indexes_of_two_tables():
    assert numbers_columns(ast.parse("a.field('x').id() == b.field('x').id()"))
    assert not numbers_columns(ast.parse("id(a) == id(b)"))
    assert reads_indexes_of_two(ast.parse("list_indexes(before) == list_indexes(after)"))
    assert not reads_indexes_of_two(ast.parse("list_indexes(table) + list_indexes(table)"))

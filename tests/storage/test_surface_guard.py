"""Nothing outside storage/ makes Lance commit, and storage/ itself only where this file says so.

The source is walked as a syntax tree. A method whose name only Lance has is refused wherever it is
called; one with an everyday name (`update`, `delete`) only on what looks like a Lance dataset.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph

SOURCE = Path(omnigraph.__file__).parent

# Methods of LanceDataset and its helpers that move HEAD or change refs; no other class has them.
LANCE_ONLY = {
    "add_bases",
    "add_columns",
    "alter_columns",
    "cleanup_old_versions",
    "commit_batch",
    "commit_existing_index_segments",
    "compact_files",
    "create_branch",
    "create_index",
    "create_scalar_index",
    "deep_clone",
    "delete_config_keys",
    "disable_auto_cleanup",
    "drop_columns",
    "drop_index",
    "enable_auto_cleanup",
    "initialize_mem_wal",
    "merge_insert",
    "migrate_manifest_paths_v2",
    "optimize_indices",
    "replace_field_metadata",
    "replace_schema",
    "replace_schema_metadata",
    "shallow_clone",
    "truncate_table",
    "update_config",
    "update_field_metadata",
    "update_metadata",
    "update_schema_metadata",
    "write_dataset",
}
# Everyday names that commit when the receiver is a dataset, its tags or branches, or `Compaction`.
EVERYDAY = {"commit", "create", "delete", "drop", "insert", "merge", "restore", "update"}
DATASETS = {"dataset", "ds", "_ds", "LanceDataset", "Compaction"}

# Transactions that replace the schema: safe only with a schema that Lance itself made.
SCHEMA_CHANGES = {"Project", "Merge"}
SCHEMA_STAGING = "storage/columns/stage_schema.py"

# Without one of these words, a module has nothing that the guard could find.
TELLING = re.compile(
    "|".join(
        rf"\b{word}\b"
        for word in (
            *(LANCE_ONLY | DATASETS),
            *("checkout_version", "commit_lock", "num_indices_to_merge"),
            *("LanceOperation", "LanceSchema"),
        )
    )
)

# Where storage/ commits, by file: exactly these calls, no more and no fewer.
ALLOWED = {
    # On the scratch branch alone.
    "storage/columns/stage_schema.py": {"add_columns", "alter_columns", "delete", "drop_columns"},
    "storage/tables/table.py": {"write_dataset"},
    "storage/tables/table_commits.py": {"commit", "merge_insert"},
    "storage/tables/table_branches.py": {"create_branch", "delete"},
    "storage/tables/inline_residual.py": {
        "cleanup_old_versions",
        "drop",
        "optimize_indices",
        "update_field_metadata",
        "update_schema_metadata",
    },
}


@dataclass(frozen=True, order=True)
class Finding:
    line: int
    what: str


def committing_calls(tree: ast.Module) -> list[Finding]:
    """Every call (or fetched method) that makes Lance commit."""
    ours, tainted = _names_from_storage(tree), _dataset_names(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in ours:
                continue
            receiver = _chain(node.value)
            if node.attr in LANCE_ONLY or (node.attr in EVERYDAY and tainted & set(receiver)):
                found.append(Finding(node.lineno, node.attr))
        elif isinstance(node, ast.Call) and _chain(node.func) == ["getattr"]:
            fetched = node.args[1] if len(node.args) > 1 else None
            if isinstance(fetched, ast.Constant) and fetched.value in LANCE_ONLY:
                found.append(Finding(node.lineno, str(fetched.value)))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lance":
            found += [Finding(node.lineno, n.name) for n in node.names if n.name in LANCE_ONLY]
    return sorted(found)


def forbidden_everywhere(tree: ast.Module) -> list[Finding]:
    """What is wrong even inside storage/."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword):
            if node.arg == "commit_lock":
                found.append(Finding(node.lineno, "commit_lock="))
            if node.arg == "num_indices_to_merge" and _is_zero(node.value):
                found.append(Finding(node.lineno, "num_indices_to_merge=0"))
        elif isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            found += [
                Finding(node.lineno, f"{key}=")
                for key in keys
                if key in {"commit_lock", "num_indices_to_merge"}
            ]
        elif isinstance(node, ast.Attribute) and (
            (node.attr in SCHEMA_CHANGES and "LanceOperation" in _chain(node.value))
            or (node.attr == "from_pyarrow" and "LanceSchema" in _chain(node.value))
        ):
            found.append(Finding(node.lineno, f"{_chain(node.value)[-1]}.{node.attr}"))
    return sorted(found)


def _chain(node: ast.expr) -> list[str]:
    """The names along `a.b(…).c[…]`, outermost receiver first."""
    match node:
        case ast.Attribute():
            return [*_chain(node.value), node.attr]
        case ast.Call():
            return _chain(node.func)
        case ast.Subscript() | ast.Await():
            return _chain(node.value)
        case ast.Name():
            return [node.id]
    return []


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _names_from_storage(tree: ast.Module) -> set[str]:
    """Names bound by imports from omnigraph.storage: `tables.create_branch` is our own function."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omnigraph"):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.asname for a in node.names if a.asname and a.name.startswith("omnigraph.")}
    return names - DATASETS


def _dataset_names(tree: ast.Module) -> set[str]:
    """Names that stand for a Lance dataset, directly or by assignment from one."""
    names = set(DATASETS)
    while True:
        before = len(names)
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    pass
                case ast.NamedExpr(target=ast.Name(id=name), value=value):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    pass
                case _:
                    continue
            # A result *read* from a dataset (`dataset.to_table()`) is not one.
            if _chain(value)[-1:] and _chain(value)[-1] in names | {"checkout_version"}:
                names.add(name)
        if len(names) == before:
            return names


# ------------------------------------------------------------------ the source


def sources() -> list[str]:
    return sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def test_only_the_listed_places_make_lance_commit():
    """What is not allowed has a place; an allowance that nothing uses any more is in excess too."""
    own = {f"LanceOperation.{kind}" for kind in SCHEMA_CHANGES}
    committing, forbidden = {}, {}
    for path in sources():
        text = (SOURCE / path).read_text()
        if not TELLING.search(text):
            continue  # most modules, which need no parsing
        tree = ast.parse(text)
        if found := committing_calls(tree):
            committing[path] = found
        if found := forbidden_everywhere(tree):
            forbidden[path] = found
    assert {path: {call.what for call in found} for path, found in forbidden.items()} == {
        SCHEMA_STAGING: own
    }, forbidden
    assert {path: {call.what for call in found} for path, found in committing.items()} == {
        path: set(calls) for path, calls in ALLOWED.items()
    }, committing


def test_the_allowances_name_files_that_exist():
    assert set(ALLOWED) <= set(sources())


# ------------------------------------------------------------------ the guard itself


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import lance\nlance.write_dataset(t, uri)", "write_dataset"),
        ("from lance import write_dataset", "write_dataset"),
        ("lance().LanceDataset.commit(ds, tx)", "commit"),
        (
            "from omnigraph.storage.tables.lance_import import lance\nlance().write_dataset(t)",
            "write_dataset",
        ),
        (
            "from omnigraph.storage.tables.table import open_table\nopen_table(r).dataset.delete(x)",
            "delete",
        ),
        ("LanceDataset.commit_batch(ds, txs)", "commit_batch"),
        ("table.dataset.merge_insert('id').when_matched_delete().execute(t)", "merge_insert"),
        ("table.dataset.delete('true')", "delete"),
        ("table.dataset.update({'x': '1'})", "update"),
        ("table.dataset.insert(rows)", "insert"),
        ("table.dataset.add_columns(f)", "add_columns"),
        ("anything.alter_columns(f)", "alter_columns"),
        ("anything.drop_columns(f)", "drop_columns"),
        ("anything.create_index('v', 'IVF_PQ')", "create_index"),
        ("anything.create_scalar_index('v', 'BTREE')", "create_scalar_index"),
        ("anything.optimize.compact_files()", "compact_files"),
        ("anything.optimize.optimize_indices()", "optimize_indices"),
        ("lance.optimize.Compaction.commit(ds, results)", "commit"),
        ("ds = table.dataset\nds.restore()", "restore"),
        ("d = table.dataset\ne = d\ne.restore()", "restore"),
        ("d = table.dataset.checkout_version(3)\nd.restore()", "restore"),
        ("if d := table.dataset:\n    d.restore()", "restore"),
        ("x.cleanup_old_versions(versions=[1])", "cleanup_old_versions"),
        ("x.create_branch('b')", "create_branch"),
        ("table.dataset.branches.delete('b')", "delete"),
        ("table.dataset.tags.create('t', 1)", "create"),
        ("getattr(thing, 'merge_insert')('id')", "merge_insert"),
        ("commit = table.dataset.merge\ncommit(x)", "merge"),
        ("LanceDataset.drop(uri)", "drop"),
        ("x.update_config({'a': 'b'})", "update_config"),
    ],
)
def test_the_guard_sees_calls_that_commit(code, what):
    assert [finding.what for finding in committing_calls(ast.parse(code))] == [what]


@pytest.mark.parametrize(
    "code",
    [
        "{}.update(a=1)",
        "items.insert(0, x)",
        "store.delete(path)",
        "table.dataset.to_table()",
        "found = table.dataset.to_table()\nfound.update(x)",
        "table.dataset.scanner(filter=f).to_reader()",
        "from omnigraph.storage import anything\nanything.add_columns(table, [f])",
        "from omnigraph.storage.tables.table_branches import create_branch\ncreate_branch(table, 'b')",
        "from omnigraph.storage.tables import table_branches as t\nt.create_branch(table, 'b')",
        "import omnigraph.storage.tables.table_branches as t\nt.create_branch(table, 'b')",
        "graph.branches.create('b')",
        "publisher.commit(x)",
    ],
)
def test_the_guard_lets_everything_else_pass(code):
    assert committing_calls(ast.parse(code)) == []


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("commit(ds, tx, commit_lock=lock)", "commit_lock="),
        ("options = {'commit_lock': lock}", "commit_lock="),
        ("lance().LanceOperation.Project(schema)", "LanceOperation.Project"),
        ("LanceOperation.Merge(fragments, schema)", "LanceOperation.Merge"),
        ("kind = LanceOperation.Merge", "LanceOperation.Merge"),
        ("LanceSchema.from_pyarrow(schema)", "LanceSchema.from_pyarrow"),
        ("lance_module('schema').LanceSchema.from_pyarrow(s)", "LanceSchema.from_pyarrow"),
        ("x.optimize_indices(num_indices_to_merge=0)", "num_indices_to_merge=0"),
        ("options = {'num_indices_to_merge': 0}", "num_indices_to_merge="),
    ],
)
def test_the_guard_sees_what_is_forbidden_everywhere(code, what):
    assert [finding.what for finding in forbidden_everywhere(ast.parse(code))] == [what]


def test_the_guard_knows_every_committing_method_of_this_lance():
    """A bump may bring new ones: look at each method the guard and this list do not know."""
    from omnigraph.storage.tables.lance_import import lance, lance_module

    classes = [lance().LanceDataset, lance_module("dataset").DatasetOptimizer]
    known = LANCE_ONLY | EVERYDAY | READING
    public = {name for cls in classes for name in vars(cls) if not name.startswith("_")}
    assert public - known == set()


READING = {
    # reads, and writes that put files down without moving HEAD
    "all_files", "base_paths", "branches", "centroids", "checkout_latest", "checkout_version",
    "config", "count_rows", "create_index_uncommitted", "data_storage_version", "delta",
    "describe_indices", "explain_cleanup_old_versions", "fragment_ids", "get_fragment",
    "get_fragments", "get_ivf_model", "get_transactions", "get_version", "has_index",
    "has_stable_row_ids", "head", "index_statistics", "initial_storage_options",
    "io_stats_incremental", "io_stats_snapshot", "join", "lance_schema", "latest_storage_options",
    "latest_version", "list_indices", "max_field_id", "mem_wal_index_details", "mem_wal_writer",
    "merge_existing_index_segments", "merge_index_metadata", "metadata", "new_file_session",
    "optimize", "partition_expression", "prewarm_index", "read_blob_ranges", "read_blobs",
    "read_transaction", "remap_row_addrs", "sample", "scanner", "schema", "schema_metadata",
    "session", "slice", "sql", "stats", "storage_options_accessor", "tags", "take", "take_blobs",
    "to_batches", "to_pandas", "to_table", "tracked_files", "uri", "validate", "version",
    "version_refs", "versions", "from_pydantic_model",
}  # fmt: skip

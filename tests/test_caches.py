"""Every cache of the source, and what its entries are found by.

Version numbers repeat: in copies of a graph, in one that was put back from a backup, on branches that were made
again. So nothing that outlives a handle may be found by a number alone. A new cache fails here until it has a row.

A handle reads one graph in one place, and refuses when another one is put there. So within a handle an ``Identity``
(graph, table, branch, the identifier of the branch, version) is enough.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

from omnigraph.read.view import byte_cache
from omnigraph.read.view.pinned_table import Identity, Lineage
from omnigraph.read.view.state_files import State

SRC = Path(__file__).parents[1] / "src" / "omnigraph"

OF_THE_PROCESS = {
    "client/answer_checks.py _types": "the name of an operation",
    "embeddings/provider.py _warn_of_hiding": "the text of the warning",
    "error_base.py _BY_KIND": "the code of a class of errors",
    "failpoints.py _armed": "the name of the failpoint",
    "manifest/history/resolve.py _catalogs": "the graph and the hash of the schema",
    "mcp/tools.py _schema_of": "a Python type",
    "read/match/lookups/outline.py _outlines": "a plan object; goes with it",
    "read/search/scratch_index.py _building": "the digest of a fingerprint; locks",
    "read/search/scratch_index.py _open": "the digest of a fingerprint",
    "read/search/scratch_index.py _own_directory": "the number of the process",
    "runner/java.py _described": "the path and the time of a program",
    "server/handling/binding.py _FIELDS": "a Python type",
    "server/handling/exchange.py _NOTHING": "nothing: it stays empty",
    "service/calls.py _common": "two Python types and names of fields",
    "storage/decoded.py _check_of": "a Python type",
    "storage/objects/object_store.py check_name": "the name itself",
    "storage/owner.py _owner": "the number of the process",
    "storage/store_kinds/s3.py _credentials": "where the settings of AWS are; nothing of a graph",
    "storage/store_kinds/s3.py _region": "where the settings of AWS are; nothing of a graph",
    "storage/scratch.py _swept": "a directory; when it was looked at",
    "storage/tables/indexing/index_health.py _damaged": "the directory of an index part: a UUID",
    "storage/tables/branch_refs.py _store": "the address; holds a connection",
    "types/arrow.py arrow_scalar": "a type",
}
"""Of modules. Lance's own caches are found by directory and number: ``lance_import.admits`` watches over them."""

OF_A_HANDLE = {
    "graph/caches.py self._schemas": "the hash of the schema",
    "graph/caches.py self._checked": "the name of a branch, valid for one head object",
    "graph/caches.py self._plans": "a catalog object, which is kept with the plan, and the text",
    "read/view/byte_cache.py self._entries": "the keys below",
    "read/view/view.py self._views": "the commit id, which is unique for ever",
}

KEYS = {
    "read/search/nearest.py _memory_key(space, name, metric)": "('vectors', column key, metric)",
    "read/search/text_match.py ('indexes', pinned.exact)": "an Identity",
    "read/search/text_match.py ('terms', space.column_key(name))": "a column key",
    "read/search/text_match.py ('tail terms', space.pinned.exact, own.column)": "an Identity",
    "read/search/text_match.py key": "('phrase', column key, terms and their places)",
    "read/view/view.py UnionKey(tuple(keys))": "UnionKey: an EdgesKey for each table",
    "read/view/numbering.py nodes_key(pinned)": "NodesKey",
    "read/view/numbering.py edges_key(pinned, sources.pinned, targets.pinned)": "EdgesKey",
    "read/view/kept_states.py key": "EdgesKey",
    "read/view/kept_states.py NodesKey(state.identity)": "NodesKey",
    "read/view/overlay.py key": "NodeChangesKey, EdgeChangesKey",
    "read/view/properties.py self.column_key(name)": "an Identity and the id of a property",
    "read/view/properties.py ('fingerprint', self._key)": "an Identity",
    "read/view/properties.py key": "('holding', Identity, ids of two properties)",
    "read/view/row_changes.py _key(exact)": "an Identity",
}
"""Of the bytes that a handle keeps."""


@functools.cache
def _texts() -> list[tuple[str, str]]:
    return [
        (path.relative_to(SRC).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(SRC.rglob("*.py"))
    ]


@functools.cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _trees(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules in which one of these words stands: others need no parsing."""
    for name, text in _texts():
        if any(word in text for word in words):
            yield name, _tree(text)


def _is_empty_map(node: ast.AST) -> bool:
    return isinstance(node, ast.AnnAssign) and ast.unparse(node.value or ast.Constant(0)) in {
        "{}",
        "OrderedDict()",
    }


def _of_the_process() -> set[str]:
    found = set()
    for name, tree in _trees("= {}", "OrderedDict()", "cache"):
        found |= {f"{name} {ast.unparse(one.target)}" for one in tree.body if _is_empty_map(one)}
        # Those inside of functions end with the call.
        classes = [one for one in tree.body if isinstance(one, ast.ClassDef)]
        for node in (*tree.body, *(inner for one in classes for inner in one.body)):
            if isinstance(node, ast.FunctionDef) and node.args.args:
                made_by = {ast.unparse(one).partition("(")[0] for one in node.decorator_list}
                if made_by & {"cache", "lru_cache", "functools.cache", "functools.lru_cache"}:
                    found.add(f"{name} {node.name}")
    return found


def _of_a_handle() -> set[str]:
    return {
        f"{name} {ast.unparse(node.target)}"
        for name, tree in _trees("OrderedDict")
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Attribute)
        and "OrderedDict" in ast.unparse(node.annotation)
    }


def _keys() -> set[str]:
    found = set()
    for name, tree in _trees("cache.get("):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and len(node.args) == 3:
                called = ast.unparse(node.func)
                if called.endswith(("cache.get", "_cache.get")):
                    found.add(f"{name} {ast.unparse(node.args[0])}")
    return found


def test_caches_of_the_process():
    assert _of_the_process() == set(OF_THE_PROCESS)


def test_caches_of_a_handle():
    assert _of_a_handle() == set(OF_A_HANDLE)


def test_keys_of_what_a_handle_keeps():
    assert _keys() == set(KEYS)


def test_a_state_in_memory_is_more_than_a_number():
    assert Identity._fields == ("lineage", "version")
    assert Lineage._fields == ("graph_id", "location", "branch", "identifier")
    for key in (byte_cache.NodesKey, byte_cache.EdgesKey):
        assert set(get_type_hints(key).values()) == {Identity}


def test_a_state_on_disk_has_its_fingerprint():
    assert State._fields == ("identity", "fingerprint")
    kept = (SRC / "read/search/scratch_index.py").read_text(encoding="utf-8")
    assert "space.kept_key(" in kept
    assert "column_key(" not in kept

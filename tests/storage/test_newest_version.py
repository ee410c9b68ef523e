"""The newest version of a table is found from Lance's hint, whatever stands in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import NotAGraph
from omnigraph.storage import versions
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import manifest_path, open_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.versions import HINT, PROBE_AHEAD, open_newest
from tests.storage.table_places import new_table, rows

VERSIONS = PROBE_AHEAD + 4


@pytest.fixture(scope="module")
def ref(tmp_path_factory):
    table = new_table(TableRef(str(tmp_path_factory.mktemp("tables") / "t")))
    while table.version < VERSIONS:
        table = commit_staged(stage_append(table, rows([f"row {table.version}"])))
    return table.ref.at(None)


@pytest.fixture
def hint(ref):
    """The file of the hint, which is as Lance left it afterwards."""
    path = Path(ref.dataset_uri, HINT)
    written = path.read_bytes()
    yield path
    path.write_bytes(written)


def opened(ref, monkeypatch) -> tuple[int, bool]:
    """The version that is opened, and whether all of them had to be listed for it."""
    listed = []

    def seen(asked):
        listed.append(asked.version is None)
        return open_table(asked)

    monkeypatch.setattr(versions, "open_table", seen)
    return open_newest(ref).version, listed[-1]


def test_lance_keeps_the_hint_that_is_relied_on(hint, ref):
    assert json.loads(hint.read_bytes()) == {"version": VERSIONS}
    assert open_table(ref).version == VERSIONS


@pytest.mark.parametrize("behind", [0, 1, PROBE_AHEAD - 1])
def test_a_hint_that_is_a_little_old_leads_to_the_newest(hint, ref, behind, monkeypatch):
    hint.write_text(json.dumps({"version": VERSIONS - behind}))
    assert opened(ref, monkeypatch) == (VERSIONS, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "911",
        "{}",
        '{"version": null}',
        '{"version": true}',
        '{"version": "20"}',
        '{"version": 0}',
        '{"version": -3}',
        '{"version": 1e400}',
        f'{{"version": {2**64}}}',
        f'{{"version": {VERSIONS + 1}}}',
        '{"version": 1}',
        "\x00\xff",
        "[" * 100_000,
    ],
    ids=lambda text: repr(text[:16]),
)
def test_any_other_hint_is_not_believed(hint, ref, text, monkeypatch):
    hint.write_text(text, "latin-1")
    assert opened(ref, monkeypatch) == (VERSIONS, True)


def test_without_a_hint_the_versions_are_listed(hint, ref, monkeypatch):
    hint.unlink()
    assert opened(ref, monkeypatch) == (VERSIONS, True)


def test_a_version_that_goes_meanwhile_is_not_missed(hint, ref, monkeypatch):
    def leads_to_one_that_is_gone(_):
        return VERSIONS + 5

    monkeypatch.setattr(versions, "_newest_on_disk", leads_to_one_that_is_gone)
    assert opened(ref, monkeypatch) == (VERSIONS, True)


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_graph_is_opened_at_its_head_whatever_the_hint_says(tmp_path, branch):
    person = {"type": "P", "data": {"name": "ada"}}
    with og.init(tmp_path / "g", "node P { name: String @key }") as graph:
        graph.branches.create("side")
        graph.load([person], branch=branch)
        head = graph.snapshot(branch=branch).graph_commit_id
    hints = list((tmp_path / "g" / "__manifest").rglob("latest_version_hint.json"))
    assert hints
    for text in ('{"version": 1}', '{"version": 999}', "nonsense"):
        for hint in hints:
            hint.write_text(text)
        with og.open(tmp_path / "g") as graph:
            assert graph.snapshot(branch=branch).graph_commit_id == head
            assert [row["n"] for row in graph.query(COUNT, branch=branch)] == [1]


COUNT = "query q() { match { $p: P } return { count($p) as n } }"


def test_where_there_is_no_graph_the_error_says_so(tmp_path):
    with pytest.raises(NotAGraph):
        og.open(tmp_path / "none")
    assert not Path(tmp_path, "none", manifest_path(1)).exists()

"""Edges whose ends have keys of several members: named by the columns of the members."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import omnigraph as og
from omnigraph.pipeline.datasource.commit import commit_rows
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.datasource_helpers import plan, run_tasks
from tests.stored import read_back

# As written the members are `tenant, no`; in ids they are sorted: `no, tenant`.
SCHEMA = """
node User { tenant: String  no: I32  name: String?  @key(tenant, no) }
node Team { code: String @key }
edge Knows: User -> User { since: I32? }
edge In: User -> Team
edge Of: Team -> User
node Note { text: String }
edge About: Note -> User
"""
USERS = [{"type": "User", "data": {"tenant": "acme", "no": no}} for no in (7, 8)]
WANTED = ('["7","acme"]', '["8","acme"]')


graph = graph_of(SCHEMA, [*USERS, {"type": "Team", "data": {"code": "core"}}])


def ends(graph, edge="Knows"):
    return [row[1:3] for row in read_back(graph).edges[edge]]


FRAME = pa.table({"who": [7], "whom": [8], "t": ["acme"], "since": [3]})


@pytest.mark.parametrize(
    ("from_col", "to_col"),
    [
        ({"tenant": "t", "no": "who"}, {"no": "whom", "tenant": "t"}),
        (["who", "t"], ["whom", "t"]),  # in the order of ids: no, tenant
        ("tenant=t, no=who", "no=whom,tenant=t"),
        ("who,t", "whom,t"),
    ],
)
def test_columns_of_the_members_name_an_end(graph, from_col, to_col):
    graph.load_edges("Knows", FRAME, from_col, to_col)
    assert ends(graph) == [WANTED]


def test_listed_columns_that_are_called_like_the_members_go_by_name(graph):
    frame = pa.table({"tenant": ["acme"], "no": ["7"], "team": ["core"]})
    graph.load_edges("In", frame, ["tenant", "no"], "team")
    graph.load_edges("Of", frame, "team", ["no", "tenant"])
    assert (ends(graph, "In"), ends(graph, "Of")) == ([(WANTED[0], "core")], [("core", WANTED[0])])


def test_a_column_with_the_ids_is_as_good(graph):
    graph.load_edges("Knows", pa.table({"from": [WANTED[0]], "to": [WANTED[1]]}))
    graph.load([{"edge": "Knows", "from": WANTED[0], "to": WANTED[1]}])
    assert ends(graph) == [WANTED, WANTED]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_and_the_command_line(graph, tmp_path, suffix):
    path = tmp_path / f"knows.{suffix}"
    (csv.write_csv if suffix == "csv" else parquet.write_table)(FRAME, path)
    given = ["--from-col", "tenant=t,no=who", "--to-col", "tenant=t,no=whom", "--mode", "merge"]
    command = [sys.executable, "-m", "omnigraph", "load", "--edge", "Knows", str(path), *given]
    done = subprocess.run([*command, graph.uri], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    graph.refresh()
    assert ends(graph) == [WANTED]


@pytest.mark.parametrize("kind", ["dicts", "lines"])
def test_plain_rows(graph, tmp_path, kind):
    rows = [{"who": 7, "whom": 8, "t": "acme", "since": 3}]
    given = rows
    if kind == "lines":
        given = tmp_path / "knows.jsonl"
        given.write_text(json.dumps(rows[0]))
    graph.load_edges("Knows", given, ["who", "t"], {"no": "whom", "tenant": "t"})
    assert ends(graph) == [WANTED]
    with pytest.raises(og.errors.InputError, match=r"no \(I32\)"):
        graph.load_edges("Knows", [{**rows[0], "who": "x"}], ["who", "t"], ["whom", "t"])
    with pytest.raises(og.errors.InputError, match='needs "from"'):
        graph.load_edges("Knows", [{"whom": 8, "t": "acme"}], ["who", "t"], ["whom", "t"])


def test_the_data_source(graph):
    rows = FRAME.to_batches()[0]
    options = {"type": "Knows", "from_col": "tenant=t,no=who", "to_col": "tenant=t,no=whom"}
    made = plan(graph, [rows], **options)
    commit_rows(workspace_of(graph), made, run_tasks(made, [rows]))
    assert ends(graph) == [WANTED]


@pytest.mark.parametrize(
    "wrong",
    [
        ["who"],
        ["who", "t", "since"],
        ["who", "tenant"],
        {"no": "who"},
        {"nr": "who", "tenant": "t"},
    ],
)
def test_what_does_not_fit_the_key_is_refused_with_its_members(graph, wrong):
    with pytest.raises(
        og.errors.BadRequest, match=r"key of User has the members no, tenant"
    ) as caught:
        graph.load_edges("Knows", FRAME, wrong, {"tenant": "t", "no": "whom"})
    assert '{"no": "…", "tenant": "…"}' in str(caught.value)


@pytest.mark.parametrize("wrong", [[], {}, "", 3, [1], {"no": 4}])
def test_what_names_no_columns_is_refused(graph, wrong):
    with pytest.raises(og.errors.BadRequest, match="from_col is"):
        graph.load_edges("Knows", FRAME, wrong, ["whom", "t"])


def test_an_end_without_a_key_is_named_by_one_column(graph):
    with pytest.raises(og.errors.BadRequest, match="Note has no key"):
        graph.load_edges("About", FRAME, ["who", "t"], ["whom", "t"])


def test_the_same_columns_for_both_ends_and_missing_ones_are_refused(graph):
    with pytest.raises(og.errors.BadRequest, match="both name"):
        graph.load_edges("Knows", FRAME, ["who", "t"], ["who", "t"])
    with pytest.raises(og.errors.InputError, match='required column "x" is missing'):
        graph.load_edges("Knows", FRAME, ["who", "t"], ["x", "t"])


def test_bad_members_are_bad_records_that_load_again(graph, tmp_path):
    path = tmp_path / "bad.jsonl"
    frame = pa.table({"who": ["7", "x", None], "whom": ["8"] * 3, "t": ["acme"] * 3})
    done = graph.load_edges(
        "Knows", frame, ["who", "t"], ["whom", "t"], on_bad="skip", rejects=path
    )
    assert (done.total_rows, done.skipped) == (1, 2)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["record"] for entry in entries] == [{"from": None, "to": WANTED[1]}] * 2
    assert "no (I32)" in entries[0]["reason"]
    assert 'needs "who, t"' in entries[1]["reason"]
    entries[0]["record"]["from"] = WANTED[1]
    path.write_text(json.dumps(entries[0]))
    graph.load(path)
    assert sorted(ends(graph)) == sorted([WANTED, (WANTED[1], WANTED[1])])


def test_a_patch_may_leave_out_ends(graph):
    frame = FRAME.append_column("id", pa.array(["k1"]))
    columns = {"from_col": ["who", "t"], "to_col": ["whom", "t"]}
    graph.load_edges("Knows", frame, **columns)
    change = pa.table({"id": ["k1"], "since": [9]})
    graph.load_edges("Knows", change, **columns, mode="patch")
    ((id_, *both, data),) = read_back(graph).edges["Knows"]
    assert (id_, tuple(both), data["since"]) == ("k1", WANTED, 9)

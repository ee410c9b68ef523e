"""`schema plan` and `schema apply`."""

from __future__ import annotations

import pytest

import omnigraph as og

START = """
node Person { name: String @key  age: I32?  note: String? }
"""


def start(place):
    og.init(place / "g", START).close()
    return "g"


def write(place, source):
    (place / "next.pg").write_text(source, "utf-8")
    return ("--schema", "next.pg", "g")


def source_of(place):
    with og.open(place / "g", mode="r") as graph:
        return graph.schema.source


def test_a_plan_shows_steps_with_code_and_tier_and_changes_nothing(omnigraph, place):
    start(place)
    argv = write(place, "node Person { name: String @key  age: F32?  note: String?  tall: F64 }")
    shown = omnigraph("schema", "plan", *argv)
    assert shown.exit == 0
    head, first, second = shown.stdout.splitlines()
    assert head == "2 steps, not supported"
    assert first.startswith("  unsupported [OG-MF-106, destructive], node:Person.age: ")
    assert second.startswith("  unsupported [OG-MF-103, validated], node:Person.tall: ")
    document = omnigraph("schema", "plan", *argv, "--json").json
    assert document.keys() == {"uri", "supported", "step_count", "steps"}
    assert (document["uri"], document["supported"], document["step_count"]) == ("g", False, 2)
    assert [step["code"] for step in document["steps"]] == ["OG-MF-106", "OG-MF-103"]
    assert source_of(place) == START


def test_apply_commits_for_its_actor_and_again_does_nothing(omnigraph, place):
    start(place)
    source = START.replace("age: I32?", "age: I32? @index  city: String?")
    argv = write(place, source)
    document = omnigraph("schema", "apply", *argv, "--as", "ann", "--json").json
    assert document.keys() == {
        *("uri", "supported", "step_count", "steps", "applied", "manifest_version", "commit")
    }
    assert document["applied"] is True
    assert document["commit"]["actor_id"] == "ann"
    assert [step["kind"] for step in document["steps"]] == ["add_property", "add_constraint"]
    assert source_of(place) == source
    again = omnigraph("schema", "apply", *argv)
    assert (again.exit, again.stdout) == (
        0,
        "the schema is the accepted one; nothing was changed\n",
    )
    assert again.stderr.startswith("omnigraph schema apply -> ")
    document = omnigraph("schema", "apply", *argv, "--json").json
    assert (document["applied"], document["commit"], document["steps"]) == (False, None, [])


def test_a_drop_warns_and_is_hard_only_with_consent(omnigraph, place):
    start(place)
    argv = write(place, "node Person { name: String @key  age: I32? }")
    soft = omnigraph("schema", "plan", *argv)
    assert "  drop Person.note (soft)\n" in soft.stdout
    assert soft.stderr == "warning: [OG-DS-104] drop Person.note (soft)\n"
    done = omnigraph("schema", "apply", *argv, "--allow-data-loss", "--quiet")
    assert done.exit == 0
    assert done.stdout.splitlines()[:2] == ["applied", "  drop Person.note (hard)"]
    assert done.stderr == "warning: [OG-DS-104] drop Person.note (hard)\n"


def test_a_refused_apply_exits_1_and_changes_nothing(omnigraph, place):
    start(place)
    argv = write(place, START.replace("age: I32?", "age: String?"))
    refused = omnigraph("schema", "apply", *argv)
    assert (refused.exit, refused.stdout) == (1, "")
    assert "error: [OG-MF-106] " in refused.stderr
    assert refused.stderr.endswith(
        "; add a property of the new type, fill it by a mutation, and drop the old one\n"
    )
    omnigraph("branch", "create", "other", "--uri", "g")
    argv = write(place, "node Person { name: String @key  age: I32? }")
    body = omnigraph("schema", "apply", *argv, "--allow-data-loss", "--json")
    assert body.exit == 1
    assert body.json["conflict"] == {"code": "schema_conflict", "branches": ["other"], "tags": []}
    assert source_of(place) == START
    assert omnigraph("schema", "apply", "g").exit == 2


def test_a_schema_of_a_branch_is_applied_shown_compared_and_merged(omnigraph, place):
    start(place)
    omnigraph("branch", "create", "wider", "--uri", "g")
    wider = START.replace("age: I32?", "age: I32?  city: String?")
    argv = [*write(place, wider), "--branch", "wider"]
    assert "add Person.city: String?" in omnigraph("schema", "plan", *argv).stdout
    assert omnigraph("schema", "apply", *argv).exit == 0
    assert omnigraph("schema", "show", "g").stdout.strip() == START.strip()
    assert omnigraph("schema", "show", "g", "--branch", "wider").stdout.strip() == wider.strip()
    steps = omnigraph("schema", "diff", "main", "wider", "--uri", "g")
    assert steps.stdout == "1 step\n  add Person.city: String?\n"
    listed = omnigraph("branch", "list", "g", "--json").json["schema_hashes"]
    assert listed["main"] != listed["wider"]
    merged = omnigraph("branch", "merge", "wider", "--uri", "g")
    assert "  add Person.city: String?\n" in merged.stdout
    assert source_of(place) == wider


@pytest.mark.parametrize("words", [["ours"], ["theirs"], ["node:Person.note=ours"]])
def test_words_for_schemas_in_conflict(omnigraph, place, words):
    start(place)
    with og.open(place / "g") as graph:
        graph.branches.create("less")
        graph.schema.apply(START.replace("note: String?", ""), branch="less")
        graph.load([{"type": "Person", "data": {"name": "ann", "note": "tall"}}])
    refused = omnigraph("branch", "merge", "less", "--uri", "g")
    assert refused.exit == 1
    assert "schema_drop_vs_change  node:Person.note was dropped in less" in refused.stderr
    given = [part for word in words for part in ("--resolve-schema", word)]
    assert omnigraph("branch", "merge", "less", "--uri", "g", *given).exit == 0
    assert ("note" in source_of(place)) == (words != ["theirs"])
    twice = ["--resolve-schema", "a=ours", "--resolve-schema", "a=theirs"]
    assert omnigraph("branch", "merge", "less", "--uri", "g", *twice).exit == 2


def test_a_plan_is_checked_against_the_rows_that_are_there(omnigraph, place):
    start(place)
    with og.open(place / "g") as graph:
        graph.load([{"type": "Person", "data": {"name": "ann"}}])
    argv = write(place, START.replace("age: I32?", "age: I32"))
    assert omnigraph("schema", "plan", *argv).stdout == "1 step\n  make Person.age required\n"
    broken = omnigraph("schema", "plan", *argv, "--check", "--json")
    assert broken.exit == 1
    assert (broken.json["kind"], broken.json["code"]) == ("schema_violation", "conflict")
    assert broken.json["schema_violation"] == [
        {"element": "node:Person.age", "rule": "required", "rows": 1, "row_ids": ["ann"]}
    ]
    with og.open(place / "g") as graph:
        graph.load([{"type": "Person", "data": {"name": "ann", "age": 3}}])
    kept = omnigraph("schema", "plan", *argv, "--check")
    assert kept.stdout == (
        "1 step; every stored row keeps the new rules\n  make Person.age required\n"
    )
    assert source_of(place) == START


def test_show_clean_leaves_out_the_hints_that_did_their_work(omnigraph, place):
    start(place)
    renamed = START.replace("note: String?", 'remark: String? @rename_from("note")')
    argv = write(place, renamed)
    assert omnigraph("schema", "apply", *argv).exit == 0
    assert omnigraph("schema", "show", "g").stdout.strip() == renamed.strip()
    clean = START.replace("note: String?", "remark: String?")
    assert omnigraph("schema", "show", "g", "--clean").stdout.strip() == clean.strip()
    shown = omnigraph("schema", "show", "g", "--clean", "--json").json
    assert (shown["schema_source"], set(shown)) == (clean, {"schema_source", "schema_hash"})
    for text in (renamed, clean):
        again = omnigraph("schema", "plan", *write(place, text))
        assert again.stdout == "the schema is the accepted one; there is nothing to do\n"
        assert "warning" not in again.stderr

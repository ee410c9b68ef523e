"""Versioning cases: steps on one graph, each judged by what it gives or how it fails."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from tests.conformance.case_files import Case
from tests.conformance.executors import not_built
from tests.conformance.expectations import check_rows, matches, only_known

CASE_KEYS = {"id", "title", "tags", "fixture", "requires", "steps"}
TARGET = {"branch", "snapshot", "version"}
JUDGED = {"op", "expect", "save"}
WRITE = {"branch", "actor", "if_commit", "retries", *JUDGED}
STEP_KEYS = {
    "load": {"data", "mode", "from", *WRITE},
    "mutate": {"query", "params", *WRITE},
    "query": {"query", "params", *TARGET, *JUDGED},
    "branch_create": {"name", "from", "actor", *JUDGED},
    "branch_delete": {"name", "actor", *JUDGED},
    "branch_list": JUDGED,
    "commits": {"branch", "filter", "limit", "id", *JUDGED},
    "snapshot": {*TARGET, *JUDGED},
    "apply": {"schema", "allow_data_loss", "actor", *JUDGED},
}
EXPECT_KEYS = {
    *("error", "rows", "count", "commit", "affected_nodes", "branch_created", "base_branch"),
    *("branches", "list", "each", "linear", "strictly_decreasing"),
    *("id", "version", "tables", "tables_same_as", "except", "from"),
}
# Keys and values of steps that ask for a part that is not there.
MISSING = {
    "time": "time",
    "tag": "tags",
    "operation_id": "operation_id",
    "phase": "prepare_publish",
    "handle": "handle",
}
_SAVED = re.compile(r"\$\{([^}]*)\}")
_SHAPES: dict[str, Callable[[Any], bool]] = {
    "<ulid>": lambda value: bool(re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", str(value))),
    "<int>": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "<epoch_us>": lambda value: isinstance(value, int) and value > 10**15,
    "<any>": lambda value: value is not None,
}


def run_versioning_case(case: Case) -> None:
    """Judge one case."""
    body = case.body
    only_known("case", body, CASE_KEYS)
    for step in body["steps"]:
        _refuse_what_is_not_built(step)
    _run(case)


def _refuse_what_is_not_built(step: Mapping[str, Any]) -> None:
    if step["op"] not in STEP_KEYS:
        not_built(step["op"])
    for key, part in MISSING.items():
        if key in step:
            not_built(part)
    if step["op"] == "branch_create" and isinstance(step.get("from"), Mapping):
        not_built("branch_from_past")
    if step["op"] in {"load", "mutate"} and step.keys() & {"snapshot", "version"}:
        not_built("write_target")
    only_known(f"step {step['op']}", step, STEP_KEYS[step["op"]])
    only_known("expect", step.get("expect") or {}, EXPECT_KEYS)


def _run(case: Case) -> None:
    fixture = case.fixtures[case.body["fixture"]]
    with (
        tempfile.TemporaryDirectory() as directory,
        omnigraph.init(Path(directory) / "graph", fixture["schema"]) as graph,
    ):
        graph.load((fixture["data"] or "").encode(), mode="overwrite")
        steps = _Steps(graph, fixture["queries"])
        for number, step in enumerate(case.body["steps"], start=1):
            steps.run(step, f"step {number} ({step['op']})")


class _Steps:
    """The steps of a case, and what they saved."""

    def __init__(self, graph: Graph, queries: str) -> None:
        self.graph = graph
        self.queries = queries
        self.saved: dict[str, Any] = {}

    def run(self, step: Mapping[str, Any], place: str) -> None:
        given = {key: self._filled(value) for key, value in step.items() if key != "save"}
        expect = given.get("expect") or {}
        error = expect.get("error")
        before = self._state()
        try:
            result = getattr(self, f"_{step['op']}")(given)
        except OmniGraphError as raised:
            if error is None:
                raise
            _check_failure(raised, error, place)
            assert self._state() == before, f"{place}: a refusal changed the graph"
            return
        assert error is None, f"{place}: accepted where {error} was expected"
        if "save" in step:
            self.saved[step["save"]] = result
        self._check(result, expect, place)

    def _state(self) -> Any:
        return {name: self.graph.snapshot(branch=name) for name in self.graph.branches.list()}

    def _filled(self, value: Any) -> Any:
        """The value with `${name.field}` replaced by what was saved."""
        if isinstance(value, Mapping):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if not isinstance(value, str):
            return value
        whole = _SAVED.fullmatch(value)
        if whole:
            return self._saved(whole[1])
        return _SAVED.sub(lambda found: str(self._saved(found[1])), value)

    def _saved(self, path: str) -> Any:
        name, *fields = path.split(".")
        value = self.saved[name]
        for field in fields:
            value = value[int(field)] if isinstance(value, list) else value[field]
        return value

    # -- operations

    def _load(self, given: Mapping[str, Any]) -> dict[str, Any]:
        lines = "\n".join(json.dumps(record) for record in given["data"])
        options = _only(given, "mode", "branch", "actor", "if_commit", "retries")
        if "from" in given:
            options["from_branch"] = given["from"]
        done = self.graph.load(lines.encode(), **options)
        return {**done.to_json(), "commit": _id(done.commit)}

    def _mutate(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = _only(given, "branch", "actor", "if_commit", "retries")
        done = self.graph.mutate(self.queries, given["query"], given.get("params"), **options)
        return {**done.to_json(), "commit": _id(done.commit)}

    def _apply(self, given: Mapping[str, Any]) -> dict[str, Any]:
        done = self.graph.schema.apply(given["schema"], **_only(given, "allow_data_loss", "actor"))
        return {**done.to_json(), "commit": done.commit and _id(done.commit)}

    def _query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        target = _only(given, *TARGET)
        found = self.graph.query(self.queries, given["query"], given.get("params"), **target)
        return {"rows": found.rows, "count": found.row_count}

    def _branch_create(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = {"from_": given["from"]} if "from" in given else {}
        made = self.graph.branches.create(given["name"], **options, **_only(given, "actor"))
        return made.to_json()

    def _branch_delete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self.graph.branches.delete(given["name"], **_only(given, "actor"))
        return {}

    def _branch_list(self, _given: Mapping[str, Any]) -> dict[str, Any]:
        return {"branches": self.graph.branches.list()}

    def _commits(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if "id" in given:
            return self.graph.commits.show(given["id"]).to_json()
        found = self.graph.commits.list(**_only(given, "branch", "filter", "limit"))
        return {"list": [commit.to_json() for commit in found], "count": len(found)}

    def _snapshot(self, given: Mapping[str, Any]) -> dict[str, Any]:
        seen = self.graph.snapshot(**_only(given, *TARGET))
        tables = {
            key: {
                "version": pin.table_version,
                "table_branch": pin.table_branch,
                "row_count": pin.row_count,
            }
            for key, pin in seen.tables.items()
        }
        return {"id": seen.graph_commit_id, "version": seen.manifest_version, "tables": tables}

    # -- expectations

    def _check(self, result: Mapping[str, Any], expect: Mapping[str, Any], place: str) -> None:
        for key, wanted in expect.items():
            if key == "rows":
                check_rows(result["rows"], wanted, ordered=False)
            elif key == "list":
                assert len(result["list"]) >= len(wanted), f"{place}: {result['list']}"
                for got, one in zip(result["list"], wanted, strict=False):
                    assert _alike(got, one), f"{place}: {got} is not {one}"
            elif key == "each":
                assert all(_alike(got, wanted) for got in result["list"]), place
            elif key == "linear":
                chain = [
                    (one["graph_commit_id"], one["parent_commit_id"]) for one in result["list"]
                ]
                linked = all(a[1] == b[0] for a, b in itertools.pairwise(chain))
                assert linked is wanted, f"{place}: {chain}"
            elif key == "strictly_decreasing":
                values = [one[wanted] for one in result["list"]]
                assert values == sorted(set(values), reverse=True), f"{place}: {values}"
            elif key == "tables_same_as":
                self._check_tables(result, self.saved[wanted], expect.get("except") or [], place)
            elif key != "except":
                assert _alike(result.get(key), wanted), f"{place}: {key} is {result.get(key)!r}"

    def _check_tables(
        self, result: Mapping[str, Any], other: Mapping[str, Any], but: Any, place: str
    ) -> None:
        for key, pin in other["tables"].items():
            if key not in but:
                got = result["tables"][key]
                same = all(got[name] == pin[name] for name in ("version", "table_branch"))
                assert same, f"{place}: {key} is {got}, was {pin}"


def _only(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _id(commit: Any) -> str | None:
    return None if commit is None else commit.graph_commit_id


def _alike(got: Any, want: Any) -> bool:
    if isinstance(want, str) and want in _SHAPES:
        return _SHAPES[want](got)
    if isinstance(got, Mapping) and isinstance(want, Mapping):
        return all(_alike(got.get(key), value) for key, value in want.items())
    return matches(got, want)


def _check_failure(raised: OmniGraphError, want: Mapping[str, Any], place: str) -> None:
    codes = want["code"] if isinstance(want["code"], list) else [want["code"]]
    assert raised.code in codes or "*" in codes, f"{place}: {raised.code}: {raised}"
    for key, value in want.items():
        if key != "code":
            got = raised.details.get(key)
            assert _alike(got, value), f"{place}: {key} is {got!r}: {raised}"

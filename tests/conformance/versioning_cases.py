"""Versioning cases: steps on one graph, each judged by what it gives or how it fails."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import omnigraph
from omnigraph.errors import OmniGraphError
from tests.conformance.case_files import Case
from tests.conformance.expectations import only_known
from tests.conformance.prepared_writes import PreparedWrite
from tests.conformance.versioning_expectations import EXPECT_KEYS, check_failure, check_result
from tests.conformance.versioning_operations import FILTER, TARGET, Operations
from tests.put_back import MadeOnce

CASE_KEYS = {"id", "title", "tags", "fixture", "requires", "steps"}
JUDGED = {"op", "expect", "save", "handle"}
READ = {*TARGET, *JUDGED}
PREPARED = {"phase", "as"}
WRITE = {*TARGET, "actor", "if_commit", "retries", "operation_id", *PREPARED, *JUDGED}
MERGE = {
    *("actor", "granularity", "dry_run", "images", "resolve", "resolve_schema"),
    *PREPARED,
    *JUDGED,
}
STEP_KEYS = {
    "load": {"data", "mode", "from", *WRITE},
    "mutate": {"query", "text", "params", *WRITE},
    "query": {"query", "text", "params", "as_of", *READ},
    "branch_create": {"name", "from", "actor", *JUDGED},
    "branch_delete": {"name", "actor", *JUDGED},
    "branch_list": JUDGED,
    "commits": {"branch", "filter", "limit", "before", "id", *JUDGED},
    "snapshot": READ,
    "apply": {"schema", "allow_data_loss", "actor", "branch", *JUDGED},
    "plan": {"schema", "allow_data_loss", "branch", *JUDGED},
    "schema": READ,
    "merge": {"source", "target", "delete_branch", *MERGE},
    "revert": {"commit", "branch", *MERGE},
    "publish": {"of", *JUDGED},
    "diff": {"from", "to", "commit", "filter", *JUDGED},
    "export": {"types", "roundtrip", *READ},
    "entity": {"kind", "type", "id", *READ},
    "history": {"kind", "type", "id", "edges", "images", "limit", "before", *READ},
    "blame": {"kind", "type", "id", "edges", *READ},
    "purge": {"entities", "reason", "dry_run", "actor", *JUDGED},
    "optimize": {"branch", *JUDGED},
    "feed": {"branch", "start", "cursor", "page_token", "filter", "limit", "max_commits", *JUDGED},
    "baseline": {"branch", "filter", *JUDGED},
    "tag_create": {"name", "at", "actor", *JUDGED},
    "tag_list": JUDGED,
    "tag_delete": {"name", "actor", *JUDGED},
    "cleanup": {"branch", "keep_versions", *JUDGED},
    "lose": {"branch", "table", "table_version", *JUDGED},
}
_SAVED = re.compile(r"\$\{([^}]*)\}")


def run_versioning_case(case: Case, engine: str = "auto") -> None:
    """Judge one case; ``engine`` loads, merges, compares and exports."""
    body = case.body
    only_known("case", body, CASE_KEYS)
    for step in body["steps"]:
        only_known("op", {step["op"]: None}, STEP_KEYS)
        only_known(f"step {step['op']}", step, STEP_KEYS[step["op"]])
        only_known("expect", step.get("expect") or {}, EXPECT_KEYS)
        only_known("filter", _filter(step), FILTER)
    with tempfile.TemporaryDirectory() as directory:
        _run(case, Path(directory), engine)


def _filter(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the filter of changes; that of a commit list is a list of texts."""
    given = step.get("filter") or {}
    return given if isinstance(given, Mapping) else {}


def _run(case: Case, directory: Path, engine: str) -> None:
    fixture = case.fixtures[case.body["fixture"]]
    made = _made(fixture["schema"], fixture["data"] or "")
    with omnigraph.open(made.put_back()) as graph:
        shared = Operations(graph, fixture["schema"], fixture["queries"], directory, engine)
        with _Steps(shared) as steps:
            for number, step in enumerate(case.body["steps"], start=1):
                steps.run(step, f"step {number} ({step['op']})")


@functools.cache
def _made(schema: str, data: str) -> MadeOnce:
    def make(place: Path) -> None:
        with omnigraph.init(place, schema) as graph:
            graph.load(data.encode(), mode="overwrite")

    return MadeOnce(make)


class _Steps:
    """The steps of a case, what they saved, and the handles and writes they left open."""

    def __init__(self, shared: Operations) -> None:
        self.shared = shared
        self.handles: dict[str, Operations] = {}
        self.prepared: dict[str, PreparedWrite] = {}
        self.saved: dict[str, Any] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End every write that no step finished, then close the handles."""
        with self._open:
            for write in self.prepared.values():
                self._open.callback(write.abandon)

    def run(self, step: Mapping[str, Any], place: str) -> None:
        """Carry out a step and judge it."""
        given = {key: self._filled(value) for key, value in step.items() if key != "save"}
        expect = given.get("expect") or {}
        error = expect.get("error")
        keeps = bool(error or given.get("dry_run") or given.get("phase") or given["op"] == "plan")
        before = self.shared.state() if keeps else None
        try:
            result = self._carry_out(given)
        except OmniGraphError as raised:
            if error is None:
                raise
            check_failure(raised, error, place)
            assert self.shared.state() == before, f"{place}: a refusal changed the graph"
            return
        assert error is None, f"{place}: accepted where {error} was expected"
        if keeps:
            assert self.shared.state() == before, f"{place}: the graph was changed"
        if "save" in step:
            self.saved[step["save"]] = result
        if "equals_export_of" in expect:
            other = self._on(given).exported(expect["equals_export_of"])
            assert result["bytes"] == other, f"{place}: {result['bytes']!r} is not {other!r}"
        rest = {key: value for key, value in expect.items() if key != "equals_export_of"}
        if not given.get("phase"):
            check_result(result, rest, place)

    def _carry_out(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if given["op"] == "publish":
            return dict(self.prepared.pop(given["of"]).finish())
        on = self._on(given)
        if "phase" not in given:
            return on.run(given)
        assert given["phase"] == "prepare", f"the runner knows no phase {given['phase']}"
        write = {"retries": 0, **given} if given["op"] in {"load", "mutate"} else given
        self.prepared[given["as"]] = PreparedWrite(given["op"], lambda: on.run(write))
        return {}

    def _on(self, given: Mapping[str, Any]) -> Operations:
        """Return the operations of the handle that a step names, opened on first use."""
        name = given.get("handle")
        if name is None:
            return self.shared
        if name not in self.handles:
            shared = self.shared
            other = self._open.enter_context(omnigraph.open(shared.graph.uri))
            self.handles[name] = Operations(
                other, shared.schema, shared.queries, shared.directory, shared.engine
            )
        return self.handles[name]

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

"""Running the `cli` cases of a surfaces case file, by the contract in the head of that file.

Those with a server, and the other kinds of cases, run in `tests/server/surfaces.py`.
"""

from __future__ import annotations

import functools
import json
import operator
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from omnigraph.cli.app import build
from tests.cli.running import Result
from tests.conformance.case_files import BUNDLED, DIRECTORY_VARIABLE, read_yaml
from tests.conformance.expectations import only_known

Run = Callable[[Sequence[str], Path, Mapping[str, str] | None, str | None], Result]


def _words(text: str) -> list[str]:
    return text.split()


#: Commands of the specification; those that the command line does not have yet are skipped.
PLANNED = _words("""
alias blob branch change changes check cleanup cluster commit completion diff embed
embed-file ensure-indices examples explain export graphs ingest init lint load log login
logout mcp mutate optimize policy profile queries query read repair schema shell skill
snapshot status tag ui version
""")
PLANNED_INNER = {
    "branch": {"create", "list", "delete", "merge"},
    "commit": {"list", "show", "changes", "revert"},
    "schema": {"show", "get", "plan", "apply"},
}
#: Options of the specification; a command that does not have one yet cannot run the case.
PLANNED_OPTIONS = _words("""
--at-time --check --delimiter --embed --encoding --if-commit --ignore-extra --map --max-rows --names
--no-header --null --operation-id --query-string --tag --timeout
""")
#: What single cases need besides.
NOT_BUILT = {}
CASE_KEYS = [
    "id",
    "kind",
    "tier",
    "tags",
    "note",
    "setup",
    "use",
    "files_from",
    "files",
    "replace_files",
    "hook",
    "env",
    "before",
    "argv",
    "stdin",
    "expect",
    "after",
    "capture",
    "server",
]
EXPECT_KEYS = [
    "exit",
    "stdout_json",
    "stdout",
    "stderr",
    "not_stdout",
    "not_stderr",
    "stdout_lines",
    "stdout_line_count",
    "stdout_line_json",
    "path_exists",
    "path_absent",
    "file_mode",
]
MATCHER_KEYS = ["at", "eq", "ne", "exists", "type", "len", "contains", "in", "gt", "matches"]
TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "list": list,
    "object": dict,
    "null": type(None),
}


@dataclass(frozen=True)
class CliCase:
    """One case with what its file shares among all."""

    body: Mapping[str, Any]
    fixtures: Mapping[str, str]
    setups: Mapping[str, Any]

    def __str__(self) -> str:
        return str(self.body["id"])

    def command_lines(self) -> Iterator[Sequence[str]]:
        """Every command line the case runs, in order."""
        steps = self.setups[self.body["setup"]]["steps"] if "setup" in self.body else []
        yield from (step["cli"] for step in (*steps, *self.body.get("before", ())))
        if self.body["kind"] == "cli":
            yield self.body["argv"]
        yield from (step["cli"] for step in self.body.get("after", ()))

    def missing(self) -> str | None:
        """What the case needs and the product does not have yet."""
        for argv in self.command_lines():
            if (name := missing_command(argv)) is not None:
                return f"the command `omnigraph {name}` is not built yet"
            if (option := missing_option(argv)) is not None:
                return f"the option {option} of `omnigraph {argv[0]}` is not built yet"
        return NOT_BUILT.get(str(self))


def cli_cases() -> list[CliCase]:
    """The `cli` cases that need no server."""
    return [
        case for case in surface_cases() if case.body["kind"] == "cli" and "server" not in case.body
    ]


def surface_cases() -> list[CliCase]:
    """All cases of the surfaces files in the directory in force."""
    directory = Path(os.environ.get(DIRECTORY_VARIABLE) or BUNDLED)
    found = []
    for path in sorted(directory.glob("*.yaml")):
        document = read_yaml(path)
        if isinstance(document, dict) and "setups" in document:
            shared = document["fixtures"], document["setups"]
            found += [CliCase(body, *shared) for body in document["cases"]]
    return found


def missing_command(argv: Sequence[str]) -> str | None:
    """The planned command this line calls, if the command line does not have it."""
    words = [word for word in argv if not word.startswith("-")]
    tree = _tree()
    if not words or words[0] not in PLANNED:
        return None
    if words[0] not in tree.commands:
        return words[0]
    inner = getattr(tree.commands[words[0]], "commands", None)
    if inner is not None and words[1:2] and words[1] not in inner:
        return " ".join(words[:2]) if words[1] in PLANNED_INNER[words[0]] else None
    return None


def missing_option(argv: Sequence[str]) -> str | None:
    """The planned option this line gives to a command that does not have it."""
    command = _tree()
    for word in argv:
        command = getattr(command, "commands", {}).get(word, command)
    known = {name for parameter in command.params for name in parameter.opts}
    return next((word for word in argv if word in PLANNED_OPTIONS and word not in known), None)


@functools.cache
def _tree() -> Any:
    return get_command(build())


@dataclass
class Running:
    """A case under way: its directory and what it captured."""

    case: CliCase
    place: Path
    run: Run
    captured: dict[str, Any] = field(default_factory=dict)

    def whole(self) -> None:
        """All of the case, in the order of the contract."""
        body = self.case.body
        only_known(str(self.case), body, CASE_KEYS)
        self.prepare()
        self.steps(body.get("before", ()))
        self.step({"cli": body["argv"], **body})
        self.steps(body.get("after", ()))

    def prepare(self) -> None:
        """The setup, the files and the hook of the case."""
        body = self.case.body
        if "setup" in body:
            setup = self.case.setups[body["setup"]]
            self.write_fixtures(setup["use"])
            self.steps(setup["steps"])
        self.write_fixtures([*body.get("files_from", ()), *body.get("use", ())])
        for name, text in body.get("files", {}).items():
            shared = isinstance(text, Mapping)
            self.write(name, self.case.fixtures[text["$file"]] if shared else text)
        for name, fixture in body.get("replace_files", {}).items():
            self.write(name, self.case.fixtures[fixture])
        if "hook" in body:
            self.hook(body["hook"])

    def write_fixtures(self, names: Sequence[str]) -> None:
        for name in names:
            self.write(name, self.case.fixtures[name])

    def write(self, name: str, text: str) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def hook(self, hook: Mapping[str, Any]) -> None:
        """Remove files, or commit a delete to a table behind the manifest's back."""
        from omnigraph.storage.tables.lance_import import lance

        only_known("hook", hook, ["raw_lance_delete", "remove"])
        for name in hook.get("remove", ()):
            path = self.place / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if "raw_lance_delete" not in hook:
            return
        change = hook["raw_lance_delete"]
        tables = self.run(["snapshot", "g.omni", "--json"], self.place, None, None).json["tables"]
        table = at(tables, [{"find": {"table_key": change["table_key"]}}])
        lance().dataset(str(self.place / "g.omni" / table["table_path"])).delete(change["where"])

    def steps(self, steps: Sequence[Mapping[str, Any]]) -> None:
        for step in steps:
            self.step(step)

    def step(self, step: Mapping[str, Any]) -> None:
        argv = [self.filled(word) for word in step["cli"]]
        env = self.case.body.get("env")
        result = self.run(argv, self.place, env, step.get("stdin"))
        self.check(result, self.filled_in(step.get("expect", {"exit": 0})))
        for name, path in step.get("capture", {}).items():
            self.captured[name] = at(result.json, path)

    def check(self, result: Result, expect: Mapping[str, Any]) -> None:
        """Compare what a command of the case did with what is expected of it."""
        check(result, expect, self.place)

    def filled_in(self, value: Any) -> Any:
        """The value with every text in it filled."""
        if isinstance(value, Mapping):
            return {key: self.filled_in(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.filled_in(one) for one in value]
        if not isinstance(value, str):
            return value
        whole = re.fullmatch(r"\$\{(\w+)\}", value)
        if whole and isinstance(self.captured.get(whole[1]), dict | list):
            return self.captured[whole[1]]
        return self.filled(value)

    def filled(self, word: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda match: str(self.captured[match[1]]), word)


def check(result: Result, expect: Mapping[str, Any], place: Path) -> None:
    """Compare what a command did with what is expected of it."""
    shown = f"$ omnigraph {' '.join(result.argv)}\n{result.stderr}{result.stdout}"
    only_known("expect", expect, EXPECT_KEYS)
    assert "Traceback" not in result.stderr, shown
    if "exit" in expect:
        assert result.exit == expect["exit"], shown
    for stream, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        for part in expect.get(stream, ()):
            assert part in text, shown
        for part in expect.get(f"not_{stream}", ()):
            assert part not in text, shown
    lines = result.stdout.splitlines()
    if "stdout_lines" in expect:
        assert lines == expect["stdout_lines"], shown
    if "stdout_line_count" in expect:
        assert len(lines) == expect["stdout_line_count"], shown
    for number, matchers in expect.get("stdout_line_json", {}).items():
        match(json.loads(lines[int(number)]), matchers, shown)
    if "stdout_json" in expect:
        match(result.json, expect["stdout_json"], shown)
    _check_files(expect, place)


def _check_files(expect: Mapping[str, Any], place: Path) -> None:
    for name in expect.get("path_exists", ()):
        assert (place / name).exists(), name
    for name in expect.get("path_absent", ()):
        assert not (place / name).exists(), name
    for name, mode in expect.get("file_mode", {}).items():
        assert (place / name).stat().st_mode & 0o777 == int(mode, 8), name


MISSING = object()


def at(document: Any, path: Sequence[Any]) -> Any:
    """What lies at a path of keys, indexes and `find`s; MISSING if nothing does."""
    for step in path:
        if isinstance(step, Mapping):
            wanted = step["find"].items()
            document = next(
                (item for item in document if all(item.get(k) == v for k, v in wanted)), MISSING
            )
        else:
            try:
                document = document[step]
            except (KeyError, IndexError, TypeError):
                return MISSING
        if document is MISSING:
            return MISSING
    return document


def match(document: Any, matchers: Sequence[Mapping[str, Any]], shown: str) -> None:
    for matcher in matchers:
        only_known("matcher", matcher, MATCHER_KEYS)
        found = at(document, matcher["at"])
        for kind, wanted in matcher.items():
            if kind != "at" and not _holds(kind, found, wanted):
                pytest.fail(f"{matcher['at']} is {found!r}, not {kind} {wanted!r}\n{shown}")


def _holds(kind: str, found: Any, wanted: Any) -> bool:
    if kind == "exists":
        return (found is not MISSING) is wanted
    if found is MISSING:
        return False
    if kind == "type":
        is_boolean = isinstance(found, bool)
        return isinstance(found, TYPES[wanted]) and is_boolean == (wanted == "boolean")
    tests: Mapping[str, Callable[[Any, Any], Any]] = {
        "eq": operator.eq,
        "ne": operator.ne,
        "len": lambda value, size: len(value) == size,
        "contains": operator.contains,
        "in": lambda value, options: value in options,
        "gt": operator.gt,
        "matches": lambda value, pattern: re.search(pattern, value),
    }
    return bool(tests[kind](found, wanted))

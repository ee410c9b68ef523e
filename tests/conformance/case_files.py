"""The conformance case files: where they lie, what kind each is, and its cases."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

DIRECTORY_VARIABLE = "OMNIGRAPH_CONFORMANCE_DIR"
BUNDLED = Path(__file__).parent / "cases"

Kind = Literal["schema", "query", "algorithms", "surfaces", "versioning"]


@dataclass(frozen=True)
class Case:
    """One case: the file it is in, the kind of that file, and what the file says.

    `fault` says why the case cannot be judged; the case then fails.
    """

    file: str
    kind: Kind | None
    id: str
    body: Mapping[str, Any]
    fixtures: Mapping[str, Any]
    fault: str | None = None

    def __str__(self) -> str:
        return f"{self.file}/{self.id}"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML without dates: a date in a case is the text that JSON would carry."""


_Loader.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path) -> Any:
    """What a file says; a YAMLError if it is no YAML."""
    return _parsed(path.read_text(encoding="utf-8"))


@functools.cache
def _parsed(text: str) -> Any:
    """Parse it once: three test files read all cases. Nobody may change what they say."""
    return yaml.load(text, _Loader)


def all_cases() -> list[Case]:
    """The cases of every `*.yaml` file in the directory in force, in file and source order."""
    directory = Path(os.environ.get(DIRECTORY_VARIABLE) or BUNDLED)
    files = sorted(directory.glob("*.yaml"))
    if not files:
        return [_faulty(directory.name, f"{directory} holds no *.yaml file")]
    return [case for path in files for case in _cases_of(path)]


def _cases_of(path: Path) -> Iterator[Case]:
    try:
        document = read_yaml(path)
    except yaml.YAMLError as error:
        yield _faulty(path.stem, f"not YAML: {error}")
        return
    fixtures = document.get("fixtures", {}) if isinstance(document, dict) else {}
    bodies = document.get("cases") if isinstance(document, dict) else document
    kind = _kind_of(document)
    if kind is None or not isinstance(bodies, list) or not bodies:
        yield _faulty(path.stem, "no case file of a known kind")
        return
    times = Counter(body.get("id") for body in bodies)
    for at, body in enumerate(bodies):
        name = str(body.get("id", f"case-{at}"))
        fault = None if times[body.get("id")] == 1 else f"{times[name]} cases are called {name}"
        yield Case(path.stem, kind, name, body, fixtures, fault)
    for body in document.get("schema_cases", ()) if isinstance(document, dict) else ():
        # Those of query-ext.yaml are about metrics, and about interfaces, which are not built.
        if kind == "versioning" or "metric" in str(body["id"]):
            yield Case(path.stem, "schema", str(body["id"]), body, {})


def _faulty(file: str, fault: str) -> Case:
    return Case(file, None, "unreadable", {}, {}, fault)


def _kind_of(document: Any) -> Kind | None:
    if isinstance(document, list):
        return "schema"
    if not isinstance(document, dict):
        return None
    if document.get("area") == "versioning":
        return "versioning"
    if "setups" in document:
        return "surfaces"
    fixtures = document.get("fixtures")
    if not isinstance(fixtures, dict) or not all(isinstance(f, dict) for f in fixtures.values()):
        return None
    bodies = document.get("cases")
    is_called = isinstance(bodies, list) and all("algorithm" in body for body in bodies)
    return "algorithms" if is_called and bodies else "query"

"""The operations of versioning cases: each calls the product and returns plain values to compare."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.graph import Graph
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.storage.tables.table import open_table
from tests.conformance.versioning_expectations import documents
from tests.opened import workspace_of

TARGET = ("branch", "snapshot", "version", "tag", "time")
FILTER = ("kinds", "types", "ops")
_WRITE = ("branch", "actor", "if_commit", "retries", "operation_id")
_MERGE = ("actor", "granularity", "dry_run", "images", "resolve_schema")


class Operations:
    """Operations on one handle. ``directory`` is for files and further graphs, ``engine`` does what it can."""

    def __init__(
        self, graph: Graph, schema: str, queries: str, directory: Path, engine: Any = "auto"
    ) -> None:
        self.engine = engine
        self.graph = graph
        self.schema = schema
        self.queries = queries
        self.directory = directory

    def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one step."""
        result: dict[str, Any] = getattr(self, f"_{given['op']}")(given)
        return result

    def state(self) -> Any:
        """Everything a refused operation must leave alone: branches, pins, table heads, tags."""
        branches = {name: self.graph.snapshot(branch=name) for name in self.graph.branches.list()}
        workspace = workspace_of(self.graph)
        refs = {
            workspace.pinned(pin).at(None)
            for snapshot in branches.values()
            for pin in snapshot.tables.values()
        }
        return branches, {ref: open_table(ref).version for ref in refs}, self.graph.tags.list()

    # -- writes

    def _load(self, given: Mapping[str, Any]) -> dict[str, Any]:
        lines = "\n".join(json.dumps(record) for record in given["data"])
        options = {"engine": self.engine, **_only(given, "mode", *_WRITE)}
        if "from" in given:
            options["from_branch"] = given["from"]
        done = self.graph.load(lines.encode(), **_addressed(given, options))
        return {**done.to_json(), "commit": _id(done.commit)}

    def _mutate(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = _addressed(given, _only(given, *_WRITE))
        source, name = self._queries(given)
        done = self.graph.mutate(source, name, given.get("params"), **options)
        return {**done.to_json(), "commit": _id(done.commit)}

    def _apply(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = _only(given, "allow_data_loss", "actor", "branch")
        done = self.graph.schema.apply(given["schema"], **options)
        return {**done.to_json(), "commit": _id(done.commit)}

    def _plan(self, given: Mapping[str, Any]) -> dict[str, Any]:
        plan = self.graph.schema.plan(
            given["schema"], **_only(given, "allow_data_loss", "branch")
        ).to_json()
        return dict(plan)

    def _schema(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"declared": declared(self.graph.schema.show(**self._keywords(given)).catalog)}

    def _branch_create(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = {"from_": self._target(given["from"])} if "from" in given else {}
        made = self.graph.branches.create(given["name"], **options, **_only(given, "actor"))
        return made.to_json()

    def _branch_delete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self.graph.branches.delete(given["name"], **_only(given, "actor"))
        return {}

    def _branch_list(self, _given: Mapping[str, Any]) -> dict[str, Any]:
        return {"branches": self.graph.branches.list()}

    def _tag_create(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = {"at": self._target(given["at"])} if "at" in given else {}
        made: dict[str, Any] = self.graph.tags.create(
            given["name"], **options, **_only(given, "actor")
        ).to_json()
        return made

    def _tag_list(self, _given: Mapping[str, Any]) -> dict[str, Any]:
        return {"tags": [tag.name for tag in self.graph.tags.list()]}

    def _tag_delete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self.graph.tags.delete(given["name"], **_only(given, "actor"))
        return {}

    def _merge(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = {**_only(given, "delete_branch", *_MERGE), **_resolutions(given)}
        options["engine"] = self.engine
        if "target" in given:
            options["into"] = given["target"]
        return _merged(self.graph.branches.merge(given["source"], **options))

    def _revert(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = {**_only(given, "branch", *_MERGE), **_resolutions(given)}
        return _merged(self.graph.commits.revert(given["commit"], **options))

    def _cleanup(self, given: Mapping[str, Any]) -> dict[str, Any]:
        done = self.graph.cleanup(keep_versions=given["keep_versions"]).to_json()
        kept: dict[str, set[str]] = {}
        for table in done["tables"]:
            assert not table.get("error"), table
            for reasons in table["why_kept"].values():
                kept.setdefault(table["table_key"], set()).update(reasons)
        return {**done, "why_kept": kept}

    def _purge(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = _only(given, "reason", "dry_run", "actor")
        done: dict[str, Any] = self.graph.purge(given["entities"], **options).to_json()
        return done

    def _optimize(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self.graph.optimize(**_only(given, "branch"))
        return {}

    def _lose(self, given: Mapping[str, Any]) -> dict[str, Any]:
        import lance

        branch = given.get("branch", "main")
        pin = self.graph.snapshot(branch=branch).tables[given["table"]]
        ref = workspace_of(self.graph).pinned(pin)
        lost, head = int(given["table_version"]), open_table(ref.at(None)).version
        assert lost != head, f"version {lost} of {given['table']} on {branch} is the newest one"
        lance.dataset(ref.dataset_uri).cleanup_old_versions(versions=[lost])
        left = {one["version"] for one in lance.dataset(ref.dataset_uri).versions()}
        assert lost not in left, f"Lance keeps version {lost} of {given['table']} on {branch}"
        return {}

    # -- reads

    def _query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = {**self._keywords(given), **_only(given, "as_of")}
        source, name = self._queries(given)
        found = self.graph.query(source, name, given.get("params"), **options)
        return {"rows": found.rows, "count": found.row_count, "as_of": found.as_of}

    def _queries(self, given: Mapping[str, Any]) -> tuple[str, str | None]:
        """The source of a step and the name of its query: its own text, or that of the fixture."""
        return given.get("text", self.queries), given.get("query")

    def _entity(self, given: Mapping[str, Any]) -> dict[str, Any]:
        named = (given["kind"], given["type"], given["id"])
        return {"image": _image(self.graph.entity(*named, **self._keywords(given)))}

    def _history(self, given: Mapping[str, Any]) -> dict[str, Any]:
        named = (given["kind"], given["type"], given["id"])
        options = _only(given, "edges", "images", "limit", "before")
        found: dict[str, Any] = self.graph.history(
            *named, **options, **self._keywords(given)
        ).to_json()
        return found

    def _blame(self, given: Mapping[str, Any]) -> dict[str, Any]:
        named = (given["kind"], given["type"], given["id"])
        found: dict[str, Any] = self.graph.blame(
            *named, **_only(given, "edges"), **self._keywords(given)
        ).to_json()
        return found

    def _commits(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if "id" in given:
            return {"commit": _record(self.graph.commits.show(given["id"]))}
        found = self.graph.commits.list(**_only(given, "branch", "filter", "limit", "before"))
        return {"list": [_record(commit) for commit in found], "count": len(found)}

    def _snapshot(self, given: Mapping[str, Any]) -> dict[str, Any]:
        seen = self.graph.snapshot(**self._keywords(given))
        tables = {
            key: {
                "version": pin.table_version,
                "table_branch": pin.table_branch,
                "row_count": pin.row_count,
            }
            for key, pin in seen.tables.items()
        }
        return {"id": seen.graph_commit_id, "version": seen.manifest_version, "tables": tables}

    def _diff(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = _only(given.get("filter") or {}, *FILTER)
        if "commit" in given:
            return self._commit_changes(given["commit"], options)
        sides = self._target(given["from"]), self._target(given["to"])
        found: dict[str, Any] = self.graph.diff(*sides, **options, engine=self.engine).to_json()
        return found

    def _commit_changes(self, graph_commit_id: str, options: dict[str, Any]) -> dict[str, Any]:
        """All pages of a commit as one."""
        changes: list[Any] = []
        page = self.graph.commits.changes(graph_commit_id, **options)
        first = page.to_json()
        changes += first["changes"]
        while page.next_page_token is not None:
            page = self.graph.commits.changes(
                graph_commit_id, **options, page_token=page.next_page_token
            )
            changes += page.to_json()["changes"]
        return {**first, "changes": changes, "stats": _counts(changes)}

    def _feed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        where = _only(given, "branch", "start", "cursor", "page_token", "limit", "max_commits")
        page = self.graph.changes.poll(**where, **_only(given.get("filter") or {}, *FILTER))
        found = page.to_json()
        blocks = found["blocks"]
        return {
            **found,
            "page_token": found.get("next_page_token"),
            "block_count": len(blocks),
            "block_commits": [block["cause"]["graph_commit_id"] for block in blocks],
            "changes_flat": [change["id"] for block in blocks for change in block["changes"]],
        }

    def _export(self, given: Mapping[str, Any]) -> dict[str, Any]:
        written = self.exported(given, given.get("types"))
        result = _lines(written)
        if given.get("roundtrip"):
            result.update(self._roundtrip(written))
        return result

    def _baseline(self, given: Mapping[str, Any]) -> dict[str, Any]:
        out = self._file("baseline")
        options = {**_only(given, "branch"), **_only(given.get("filter") or {}, *FILTER)}
        done = self.graph.changes.baseline(out, **options).to_json()
        return {**done, **_lines(out.read_bytes())}

    def exported(self, target: Mapping[str, Any], types: Any = None) -> bytes:
        """Return the export of a target."""
        out = self._file("export")
        options = {} if types is None else {"types": types}
        self.graph.export(out, **self._keywords(target), **options, engine=self.engine)
        return out.read_bytes()

    def _roundtrip(self, written: bytes) -> dict[str, Any]:
        root = self._file("graph")
        with omnigraph.init(root, self.schema) as other:
            other.load(written, mode="overwrite")
            again = Operations(other, self.schema, self.queries, self.directory)
            ours, theirs = _commit_ids(self.graph), _commit_ids(other)
            return {
                "roundtrip_equal": again.exported({}) == written,
                "roundtrip_branches": other.branches.list(),
                "roundtrip_shares_commits": bool(ours & theirs),
            }

    # -- arguments

    def _file(self, name: str) -> Path:
        """Return a path that is not in use."""
        taken = len(list(self.directory.iterdir()))
        return self.directory / f"{name}-{taken}"

    def _target(self, given: Any) -> Any:
        """Return a branch name, or the value of `og.at` for a read target."""
        if isinstance(given, Mapping):
            return omnigraph.at(**self._keywords(given))
        return given

    def _keywords(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the read target of a step as keywords."""
        named = _only(given, *TARGET)
        if isinstance(named.get("time"), Mapping):
            named["time"] = self._time(**named["time"])
        return named

    def _time(self, commit: str, us: int = 0, days: int | None = None) -> dt.datetime | str:
        made = self.graph.commits.show(commit).to_json()["created_at"]
        moment = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=made + us)
        if days is None:
            return moment
        return (moment.date() + dt.timedelta(days=days)).isoformat()


def declared(catalog: Catalog) -> dict[str, Any]:
    """The elements of a schema with what they say, as the header of `schema-branches.yaml` defines."""
    found: dict[str, Any] = {f"interface:{name}": "interface" for name in catalog.interfaces}
    for name, interface in catalog.interfaces.items():
        found |= {
            f"interface:{name}.{one.name}": one.type.display
            for one in interface.properties.values()
        }
    for key, entity in _entities(catalog):
        found[key] = "node"
        if isinstance(entity, EdgeType):
            low, high = entity.cardinality.min, entity.cardinality.max
            card = (
                "" if (low, high) == (0, None) else f" @card({low}..{'' if high is None else high})"
            )
            found[key] = f"{entity.from_type} -> {entity.to_type}{card}"
        found |= {f"{key} @{one.name}": one.value for one in entity.annotations}
        found |= {f"{key} @index({', '.join(group)})": True for group in entity.declared_index}
        for name, prop in entity.properties.items():
            found[f"{key}.{name}"] = prop.type.display
            found |= {f"{key}.{name} @{one.name}": one.value for one in prop.annotations}
    return found


def _entities(catalog: Catalog) -> Iterable[tuple[str, Entity]]:
    yield from ((f"node:{name}", one) for name, one in catalog.nodes.items())
    yield from ((f"edge:{name}", one) for name, one in catalog.edges.items())


def _only(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _addressed(given: Mapping[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a write; one addressed to a past state names it in place of a branch."""
    past = _only(given, *TARGET[1:])
    if past:
        options["branch"] = omnigraph.at(**_only(given, "branch"), **past)
    return options


def _resolutions(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `resolve` as the product takes it: a word, or a mapping by entity."""
    wanted = given.get("resolve")
    if not isinstance(wanted, list):
        return {} if wanted is None else {"resolve": wanted}
    return {
        "resolve": {
            (one["table_key"], one["id"]): one["take"] if "take" in one else one["image"]
            for one in wanted
        }
    }


def _merged(done: Any) -> dict[str, Any]:
    document = {**done.to_json(), "commit": _id(done.commit)}
    if "conflicts" in document:
        document["conflicts"] = documents(document["conflicts"])
    return document


def _record(commit: Any) -> dict[str, Any]:
    return {**commit.to_json(), "facts": dict(commit.facts)}


def _image(found: Any) -> Any:
    return found.to_json() if hasattr(found, "to_json") else found


def _id(commit: Any) -> str | None:
    return None if commit is None else commit.graph_commit_id


def _commit_ids(graph: Graph) -> set[str]:
    return {
        commit.graph_commit_id
        for branch in graph.branches.list()
        for commit in graph.commits.list(branch)
    }


def _counts(changes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Count changes as the stats of a diff do."""
    listed = list(changes)
    ops = Counter(change["op"] for change in listed)
    return {
        "inserts": ops["insert"],
        "updates": ops["update"],
        "deletes": ops["delete"],
        "types_affected": sorted({change["type"] for change in listed}),
    }


def _lines(written: bytes) -> dict[str, Any]:
    assert not written or written.endswith(b"\n"), "the last line is not ended"
    lines = written.decode().split("\n")[:-1]
    return {
        "bytes": written,
        "lines": [json.loads(line) for line in lines],
        "line_count": len(lines),
    }

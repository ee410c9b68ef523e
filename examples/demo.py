"""What works today, shown on a small social network (`./dev demo`)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import omnigraph as og
from examples.demo_load import in_bulk
from examples.demo_versions import versions
from omnigraph.lang.query.lint import LintReport
from omnigraph.lang.schema import Catalog, Compiled, create, plan
from omnigraph.lang.schema.catalog import EdgeType, EntityType, NodeType

SOCIAL = Path(__file__).parent / "social"


def main(records: int = 300_000, engine: str = "spark") -> None:
    """Show each part in turn; the last with about that many records on that engine."""
    schema = og.parse_schema(SOCIAL / "schema.pg")
    show("The types of examples/social/schema.pg", table(type_rows(schema.catalog)))
    show("The queries of examples/social/queries.gq", lint_lines(schema))
    show("A misspelled property", misspelled(schema))
    show("From schema.pg to schema-next.pg", migration(schema))
    show("A graph with that schema, written to and branched", writing())
    show("The same graph under the next schema", evolving())
    show("A branch, its difference, a merge, and the way back", versions())
    show("A large network, loaded into a branch, questioned and merged", in_bulk(records, engine))


def show(title: str, lines: Sequence[str] | Iterator[str]) -> None:
    """A titled block."""
    print(f"\n{title}\n{'-' * len(title)}")
    for line in lines:
        print(line, flush=True)


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with their columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def type_rows(catalog: Catalog) -> list[tuple[str, str, str, str]]:
    """One row per property of each node and edge type."""
    rows = []
    for type_ in (*catalog.nodes.values(), *catalog.edges.values()):
        title = heading(type_)
        for prop in type_.properties.values():
            rows.append((title, prop.name, prop.type.display, ", ".join(marks(type_, prop.name))))
            title = ""
        if not type_.properties:
            rows.append((title, "", "", ""))
    return rows


def heading(type_: EntityType) -> str:
    """A type's name, for an edge with what it joins."""
    if isinstance(type_, EdgeType):
        return f"edge {type_.name}: {type_.from_type} -> {type_.to_type}"
    return f"node {type_.name}"


def marks(type_: EntityType, name: str) -> Iterator[str]:
    """The rules that mention a property."""
    if isinstance(type_, NodeType):
        if type_.key is not None and name in type_.key:
            yield "key"
        yield from (f"range {r.min}..{r.max}" for r in type_.ranges if r.property == name)
        yield from (f"check {c.pattern}" for c in type_.checks if c.property == name)
    if any(name in group for group in type_.unique):
        yield "unique"
    if any(name in group for group in type_.declared_index):
        yield "index"
    embed = type_.properties[name].embed
    if embed is not None:
        yield f"embeds {embed.source}"


def lint_lines(schema: Compiled) -> Iterator[str]:
    """The verdict on each query, and what lint noticed about the file."""
    report: LintReport = og.lint(schema, SOCIAL / "queries.gq")
    rows = []
    for result in report.results:
        assert result.operation is not None
        columns = ", ".join(f"{c['name']}: {c['kind']}" for c in result.operation["result"])
        writes = ", ".join(access["type_name"] for access in result.operation["writes"])
        rows.append(("ok", result.kind, result.name, columns or f"changes {writes}"))
    yield from table(rows)
    yield from (
        f"{finding.severity} {finding.code}: {finding.message}" for finding in report.findings
    )


def misspelled(schema: Compiled) -> Iterator[str]:
    """The diagnostic for a property that does not exist."""
    report = og.lint(
        schema,
        "query by_age($min: I32) {\n"
        "  match { $p: Person  $p.agee >= $min }\n"
        "  return { $p.handle }\n"
        "}\n",
    )
    failure = report.results[0].failure
    assert isinstance(failure, og.errors.SourceError)
    yield failure.render()


def migration(schema: Compiled) -> Iterator[str]:
    """The steps between two versions of the schema."""
    steps = plan(create(schema.shape), og.parse_schema(SOCIAL / "schema-next.pg").shape).steps
    yield from (f"{number}. {step.describe()}" for number, step in enumerate(steps, 1))


def writing() -> Iterator[str]:
    """A graph filled by loads and mutations, on a branch and on main, with rules that hold."""
    with tempfile.TemporaryDirectory() as place, og.init(place, SOCIAL / "schema.pg") as graph:
        loaded = graph.load(SOCIAL / "people.jsonl", actor="demo")
        yield f"loaded {loaded.total_rows} records in one commit ({loaded.engine} engine)"
        graph.branches.create("experiment")
        done = graph.mutate(SOCIAL / "queries.gq", "leave", {"handle": "ada"}, branch="experiment")
        yield f"on a branch, ada leaves: {done.affected_nodes} node, {done.affected_edges} edges gone"
        try:
            graph.load([{"edge": "Knows", "from": "ada", "to": "nobody"}])
        except og.errors.ConstraintError as error:
            yield f"refused: {error}"
        built = graph.ensure_indices()
        yield f"built {len(built.built)} indexes in one more commit"
        heads = graph.snapshot(branch="experiment").tables, graph.snapshot().tables
        counts = [[key, *(str(tables[key].row_count) for tables in heads)] for key in heads[1]]
        yield from table([["table", "experiment", "main"], *counts])
        yield f"commits of main: {', '.join(commit.operation for commit in graph.commits.list())}"


def evolving() -> Iterator[str]:
    """A loaded graph gets the next schema: what was there stays, what is new can be used."""
    with tempfile.TemporaryDirectory() as place, og.init(place, SOCIAL / "schema.pg") as graph:
        graph.load(SOCIAL / "people.jsonl")
        before = graph.snapshot()
        done = graph.schema.apply(SOCIAL / "schema-next.pg", actor="demo")
        assert done.commit is not None
        yield f"applied {len(done.steps)} steps as commit {done.commit.graph_commit_id}"
        yield from (f"warning: {warning}" for warning in done.warnings)
        graph.mutate('query moved() { update Person set { city: "London" } where handle = "ada" }')
        found = graph.query(
            "query people() { match { $p: Person } "
            "return { $p.handle as handle, $p.mail as mail, $p.city as city } order { handle } }"
        )
        rows = [[str(value) for value in row.values()] for row in found]
        yield from table([["handle", "mail", "city"], *rows])
        gone = before.tables["edge:WorksAt"]
        yield f"WorksAt is gone; its {gone.row_count} edges are still in snapshot {before.graph_commit_id}"


if __name__ == "__main__":
    main()

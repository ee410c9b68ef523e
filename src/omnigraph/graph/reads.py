"""`graph.query`, `graph.explain` and `graph.profile`: from a source and a target to an answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.clock import now_us
from omnigraph.lang.query import ir
from omnigraph.lang.query.params import bind
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.language import read_source
from omnigraph.manifest import commits
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.snapshot import Snapshot, Target
from omnigraph.read.profile import Profile, Profiled, timed
from omnigraph.read.results import QueryResult

if TYPE_CHECKING:
    from omnigraph.graph.handle import Graph
    from omnigraph.read.explain import Explanation

Given = Mapping[str, Any] | None


def query(
    graph: Graph,
    source: str | Path,
    name: str | None,
    params: Given,
    target: Target,
    profile: Profile | None = None,
) -> QueryResult:
    """Run a read on one snapshot."""
    with timed(profile, "snapshot"):
        snapshot, catalog = resolve(graph, target)
    with timed(profile, "plan"):
        plan = _plan(graph, catalog, source, name)
        values = _values(plan, params)
    from omnigraph.read.execute import run_read

    with timed(profile, "run") as phase:
        view = graph.reader.view(snapshot, catalog)
        table = run_read(view, plan, values, embedder=graph.embedder, profile=profile)
        phase.rows = table.num_rows
    return QueryResult(table, plan.columns, plan.name, target, snapshot.graph_commit_id)


def profile_query(
    graph: Graph, source: str | Path, name: str | None, params: Given, target: Target
) -> Profiled:
    """Run a read and keep what each phase took."""
    profile = Profile()
    result = query(graph, source, name, params, target, profile)
    return Profiled(result, tuple(profile.phases))


def explain_query(
    graph: Graph, source: str | Path, name: str | None, params: Given, target: Target
) -> Explanation:
    """Describe a read; parameters may be left out, and are checked when they are given."""
    from omnigraph.read.explain import explain

    snapshot, catalog = resolve(graph, target)
    plan = _plan(graph, catalog, source, name)
    if params is not None:
        bind(plan.params, params)
    return explain(graph.reader.view(snapshot, catalog), plan, target)


def resolve(graph: Graph, target: Target) -> tuple[Snapshot, Catalog]:
    """The snapshot a read stays on, and the types to read it with: the current ones, also for the past."""
    if target == Target(branch=MAIN):
        # From one row, so that a schema that is accepted meanwhile cannot come between the two.
        main = graph.manifest.state(MAIN)
        return Snapshot.of(MAIN, main.head), graph.schema.at(main)
    snapshot = commits.resolve(graph.manifest, target)
    return snapshot, graph.schema.catalog


def _plan(graph: Graph, catalog: Catalog, source: str | Path, name: str | None) -> ir.ReadPlan:
    text, filename = read_source(source)
    return graph.plans.read(catalog, text, name, filename)


def _values(plan: ir.ReadPlan, params: Given) -> dict[str, Any]:
    return {**bind(plan.params, params), ir.NOW_PARAM: now_us() // 1000}

"""`graph.query`, `graph.frame`, `graph.explain` and `graph.profile`: from a source and a target to an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.clock import now_us
from omnigraph.errors import BadRequest, HistoryReclaimed, OmniGraphError, QueryNotFound
from omnigraph.graph.access import Access
from omnigraph.graph.state import GraphState
from omnigraph.graph.turns import TURNS
from omnigraph.graph.unknown_here import advised_to_merge
from omnigraph.lang.query import ir
from omnigraph.lang.query.params import bind, named_or_given
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.language import read_source
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.resolve import resolve_on
from omnigraph.manifest.manifest import REMADE_ATTEMPTS
from omnigraph.manifest.snapshot import Snapshot, Target, check_as_of
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.read.output.query_result import Nodes, QueryResult
from omnigraph.read.profile import Profile, Profiled, timed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.read.explain import Explanation
    from omnigraph.read.view.view import View
    from omnigraph.runner.executors import EngineName
    from omnigraph.spark.queries.answer import PlanFrames

Answer = TypeVar("Answer")
Name = str | Mapping[str, Any] | None
Params = Mapping[str, Any] | None
Moment = int | str
"""The default moment, for queries that name none: milliseconds since the epoch, or "ever"."""


def query(
    access: Access,
    source: str | Path,
    name: Name,
    params: Params,
    target: Target,
    profile: Profile | None = None,
    limits: ReadLimits = NO_LIMITS,
    engine: EngineName = "auto",
    as_of: Moment | None = None,
) -> QueryResult:
    """Run a read on one snapshot. Parameters may be passed in the place of the name."""
    chosen, given = named_or_given(name, params)
    _check_engine(engine)

    def fits(_: object, __: object, main: Catalog) -> bool:
        return _plan(access.state, main, source, chosen) is not None

    with TURNS.reading(), advised_to_merge(access, target.branch or MAIN, fits):
        return retry_if_remade(
            target,
            lambda: _query(
                access,
                source,
                chosen,
                params=given,
                target=target,
                profile=profile,
                limits=limits,
                as_of=as_of,
                engine=engine,
            ),
        )


def query_frame(
    access: Access,
    source: str | Path,
    name: Name,
    params: Params,
    target: Target,
    as_of: Moment | None = None,
) -> DataFrame:
    """Return the rows of a read as a frame of the running Spark session. Nothing runs before it is used."""
    _check_engine("spark")
    chosen, given = named_or_given(name, params)
    state = access.state

    def made() -> DataFrame:
        from omnigraph.runner.session import spark_session, usable_session
        from omnigraph.spark.queries.answer import checking_session
        from omnigraph.spark.queries.periods import written_out
        from omnigraph.spark.queries.refused import refuse

        snapshot, catalog = resolve(state, target)
        plan = _plan(state, catalog, source, chosen)
        values = _bind_values(plan, given, moment_at(as_of, target, snapshot))
        refuse(plan)
        plan = written_out(plan, values)
        view = state.reader.view(snapshot, catalog)
        session = usable_session(spark_session())
        own = checking_session(session)
        return _compiled(state, own, view, plan, values).frame(session)

    with TURNS.reading():
        return retry_if_remade(target, made)


def retry_if_remade(target: Target, read: Callable[[], Answer]) -> Answer:
    """Run a read of a branch head again if what it read was removed meanwhile.

    A branch may be deleted and made again; a schema change may remove data. If the branch or a type is
    gone, the next try says so. A commit or version is fixed, so it is tried once.
    """
    for _ in range(REMADE_ATTEMPTS if target.names_a_head else 0):
        with suppress(HistoryReclaimed):
            return read()
    return read()


def _query(
    access: Access,
    source: str | Path,
    name: str | None,
    params: Params,
    target: Target,
    profile: Profile | None,
    limits: ReadLimits,
    as_of: Moment | None,
    engine: EngineName,
) -> QueryResult:
    """Resolve the snapshot, compile the query, run it; measure each phase if a profile is given."""
    state = access.state
    with timed(profile, "snapshot"):
        snapshot, catalog = resolve(state, target)
    with timed(profile, "plan"):
        plan = _plan(state, catalog, source, name)
        moment = moment_at(as_of, target, snapshot)
        values = _bind_values(plan, params, moment)
    from omnigraph.read.execute import run_within
    from omnigraph.read.values.periods import moment_text

    with timed(profile, "run") as phase:
        view = state.reader.view(snapshot, catalog)
        compiled = _on_spark(state, view, plan, values, engine)
        if compiled is not None:
            answer = compiled.answer(limits)
        else:
            answer = run_within(
                view, plan, values, limits, embedder=state.embedder, profile=profile
            )
        phase.rows = answer.table.num_rows

    def find_graph(nodes: Nodes | None) -> dict[str, Any]:
        from omnigraph.changes.node_link import node_link

        state.ensure_open()
        access.ask_read(target)
        if nodes is None:
            found, _ = _picture(state, view, plan, values)
            nodes = ids_by_type(found[:PICTURE_NODES])
        return node_link(state.workspace, snapshot, catalog, nodes, moment)

    return QueryResult(
        answer.table,
        plan.columns,
        plan.name,
        target,
        snapshot.graph_commit_id,
        node_types=plan.node_types,
        total_rows=answer.total_rows,
        as_of=moment_text(moment) if plan.has_periods else None,
        find_graph=find_graph,
    )


def _check_engine(engine: EngineName) -> None:
    """Refuse an engine that there is not, and Spark where it cannot run: that is told before any work."""
    from omnigraph.runner.executors import ENGINES

    if engine not in ENGINES:
        raise BadRequest(f"engine is {engine!r}; give one of {', '.join(ENGINES)}")
    if engine != "spark":
        return
    from omnigraph.runner.session import running_session, spark_problem

    problem = None if running_session() is not None else spark_problem()
    if problem is not None:
        raise BadRequest(f"{problem}; `engine=local` works without")


def _on_spark(
    state: GraphState, view: View, plan: ir.ReadPlan, values: Mapping[str, Any], engine: EngineName
) -> PlanFrames | None:
    """A read as frames of Spark, or None to answer it in this process.

    ``auto`` is this process, unless the match needs adjacency that does not fit into `OMNIGRAPH_CACHE_MB`, Spark
    answers the form, and there is a session or a master for one; what look-ups answer stays here at any size. With
    ``spark``, what Spark does not answer is refused before a session starts.
    """
    if engine == "local" or (engine == "auto" and not _is_worth_it(view, plan)):
        return None
    from omnigraph.runner.session import spark_session
    from omnigraph.spark.queries.answer import query_session
    from omnigraph.spark.queries.periods import written_out
    from omnigraph.spark.queries.refused import refuse

    try:
        refuse(plan)
        plan = written_out(plan, values)
        session = _session() if engine == "auto" else spark_session()
        if session is None:
            return None
        return _compiled(state, query_session(session, view, plan), view, plan, values)
    except BadRequest as refusal:
        if engine == "auto" and refusal.details.get("engine") == "spark":
            return None
        raise


def _compiled(
    state: GraphState,
    session: SparkSession,
    view: View,
    plan: ir.ReadPlan,
    values: Mapping[str, Any],
) -> PlanFrames:
    """A read as frames of a session; what the schema demands counts only for rows that were written under it."""
    from omnigraph.spark.queries.answer import PlanFrames

    keeps_rules = state.schemas.is_of(view.snapshot.ir_hash, view.catalog)
    return PlanFrames(session, view, plan, values, state.embedder, keeps_rules=keeps_rules)


def _is_worth_it(view: View, plan: ir.ReadPlan) -> bool:
    """Whether `auto` would rather ask Spark."""
    from omnigraph.read.match.lookups.access_path import choose_path
    from omnigraph.read.match.lookups.outline import outline_of
    from omnigraph.runner.executors import is_too_large_here

    outline, catalog = outline_of(plan), view.catalog
    if not outline.edge_types:
        return False
    nodes = sum(view.table(catalog.nodes[name]).row_count for name in outline.node_types)
    edges = sum(view.table(catalog.edges[name]).row_count for name in outline.edge_types)
    return is_too_large_here(nodes, edges) and choose_path(view, plan) == "csr"


def _session() -> SparkSession | None:
    """The session of this process; None if it does not start."""
    from omnigraph.runner.session import spark_session

    try:
        return spark_session()
    except OmniGraphError:
        return None


PICTURE_ROWS = 100_000
"""How many rows of a match are looked at for its picture."""
PICTURE_NODES = 5_000
"""How many nodes a picture has at most."""


def picture(
    state: GraphState,
    view: View,
    source: object,
    name: str | None,
    params: Params,
    moment: Moment,
) -> tuple[list[tuple[str, str]], int]:
    """Return the nodes that a query finds, by type and id, and the number of rows that were looked at."""
    if not isinstance(source, str | Path):
        raise BadRequest(f"a query is a text or the Path of a file, not {source!r}")
    plan = _plan(state, view.catalog, source, name)
    return _picture(state, view, plan, _bind_values(plan, params, moment))


def _picture(
    state: GraphState, view: View, plan: ir.ReadPlan, values: dict[str, Any]
) -> tuple[list[tuple[str, str]], int]:
    from omnigraph.read.execute import run_read
    from omnigraph.read.output.picture import node_variables, nodes_in_order, picture_of

    if not node_variables(plan):
        return [], 0
    # One row more than is looked at says that there are more.
    drawn = picture_of(plan, values, PICTURE_ROWS + 1)
    rows = run_read(view, drawn, values, embedder=state.embedder)
    return nodes_in_order(plan, rows.slice(0, PICTURE_ROWS)), rows.num_rows


def nodes_of(
    state: GraphState, view: View, source: str, params: Params, type_name: str, moment: Moment
) -> pa.Array:
    """Return the distinct ids of the nodes that a query returns in its only column.

    They are of the given type; a query that returns anything else is refused.
    """
    from omnigraph.algorithms.asked import check_nodes_query, ids_column
    from omnigraph.read.execute import run_read

    try:
        plan = _plan(state, view.catalog, source, None)
    except QueryNotFound:
        raise QueryNotFound(
            "nodes is the text of one query; others may stand before it if it has no name: `match { … } return { … }`"
        ) from None
    check_nodes_query(plan, type_name)
    values = _bind_values(plan, params, moment)
    return ids_column(run_read(view, plan, values, embedder=state.embedder))


def ids_by_type(nodes: Iterable[tuple[str, str]]) -> Nodes:
    """Return the ids of nodes by type, as Arrow has them."""
    import pyarrow as pa

    found: dict[str, list[str]] = {}
    for type_name, row_id in nodes:
        found.setdefault(type_name, []).append(row_id)
    return {type_name: pa.array(ids, pa.utf8()) for type_name, ids in found.items()}


def profile_query(
    access: Access,
    source: str | Path,
    name: Name,
    params: Params,
    target: Target,
    limits: ReadLimits = NO_LIMITS,
    as_of: Moment | None = None,
) -> Profiled:
    """Run a read and measure each phase."""
    profile = Profile()
    result = query(access, source, name, params, target, profile, limits, as_of=as_of)
    return Profiled(result, tuple(profile.phases))


def explain_query(
    state: GraphState,
    source: str | Path,
    name: Name,
    params: Params,
    target: Target,
    engine: EngineName = "auto",
    as_of: Moment | None = None,
) -> Explanation:
    """Describe a read. Parameters may be left out, and are checked if they are given; Spark needs them."""
    from omnigraph.read.explain import explain
    from omnigraph.read.values.periods import moment_text

    chosen, given = named_or_given(name, params)
    _check_engine(engine)

    def describe() -> Explanation:
        snapshot, catalog = resolve(state, target)
        plan = _plan(state, catalog, source, chosen)
        is_known = given is not None or not plan.params or engine == "spark"
        moment = moment_at(as_of, target, snapshot)
        values = _bind_values(plan, given, moment) if is_known else None
        view = state.reader.view(snapshot, catalog)
        local = explain(view, plan, target, values, moment_text(moment))
        compiled = None if values is None else _on_spark(state, view, plan, values, engine)
        return local if compiled is None else replace(local, spark_plan=compiled.plan_text())

    return retry_if_remade(target, describe)


def resolve(state: GraphState, target: Target) -> tuple[Snapshot, Catalog]:
    """Return the snapshot of a read, and the current catalog, which is also used for the past.

    Both come from one state of the branch, so that a schema change cannot slip in between.
    """
    branch, snapshot = resolve_on(state.workspace.manifest, target)
    return snapshot, state.schemas.at(branch).catalog


def _plan(state: GraphState, catalog: Catalog, source: str | Path, name: str | None) -> ir.ReadPlan:
    text, filename = read_source(source)
    return state.plans.read(catalog, text, name, filename)


def _bind_values(plan: ir.ReadPlan, params: Params, moment: Moment) -> dict[str, Any]:
    clock = {ir.NOW_PARAM: now_us() // 1000, ir.AS_OF_PARAM: moment}
    return {**bind(plan.params, params), **clock}


def asked_moment(as_of: object, target: Target) -> Moment | None:
    """Return the moment that a call names, by itself or by the time of its target; None if it names none."""
    if as_of is not None:
        return check_as_of(as_of)
    return None if target.time is None else target.time // 1000


def moment_at(asked: Moment | None, target: Target, snapshot: Snapshot) -> Moment:
    """Return the moment of a read: as asked, else now at the head of a branch, else that of the commit."""
    if asked is not None:
        return asked
    return (now_us() if target.names_a_head else snapshot.commit.created_us) // 1000

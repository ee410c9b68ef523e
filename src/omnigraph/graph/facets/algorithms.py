"""`graph.algorithms`: values for all nodes that need the whole graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from omnigraph.cancel import Cancel, Timeout, within
from omnigraph.errors import BadRequest
from omnigraph.graph.access import target_of
from omnigraph.graph.arguments import check_flag, check_load_options, check_progress
from omnigraph.graph.facets.facet import Facet
from omnigraph.graph.reads import (
    Moment,
    asked_moment,
    moment_at,
    nodes_of,
    resolve,
    retry_if_remade,
)
from omnigraph.graph.turns import TURNS
from omnigraph.graph.unknown_here import reading_of
from omnigraph.manifest.branch_names import trim_written_branch
from omnigraph.manifest.snapshot import AsOf, Snapshot, Target, TargetKeywords
from omnigraph.policy.checker import Action

# What these need is imported inside the functions, so that a process that only reads stays light.
if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.algorithms.definitions import Definition
    from omnigraph.algorithms.local import NodeValues
    from omnigraph.algorithms.node_graph import NodeGraph
    from omnigraph.algorithms.result import AlgorithmResult
    from omnigraph.algorithms.rounds import OnRound
    from omnigraph.algorithms.run import Run
    from omnigraph.algorithms.spark.rounds_on_spark import SparkFound
    from omnigraph.algorithms.spark.spark_graph import SparkGraph
    from omnigraph.algorithms.write_back import Storable
    from omnigraph.lang.schema.catalog import Catalog
    from omnigraph.manifest.manifest import BranchState
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.load_options import LoadOptions
    from omnigraph.pipeline.load_plan import LoadPlan
    from omnigraph.read.view.view import View
    from omnigraph.runner.executors import EngineName

Edges = str | Iterable[str]
"""An edge type, or several; all from one node type to itself."""


class AlgorithmKeywords(TargetKeywords, total=False):
    """What every algorithm takes beside the edges and its own parameters; see ``Algorithms``."""

    nodes: str | None
    params: Mapping[str, Any] | None
    weight: str | None
    engine: EngineName
    progress: Callable[[int, int], object] | None
    timeout: Timeout
    cancel: Cancel | None
    as_of: AsOf


class Algorithms(Facet):
    """`graph.algorithms`: a value for every node, of the whole graph or of a part of it.

    ``edges`` is an edge type or a list of them, all from one node type to itself. ``nodes`` is that node type, the
    default, or the text of a read query that returns one node variable: then the graph is those nodes and the edges
    among them; ``params`` are the parameters of the query. ``weight`` names a numeric property of the edges, for
    `pagerank` and `louvain`: weights of parallel edges add up, and an edge without one is no edge. ``progress`` is
    called after each round with how many are done and how many there are at most, 0 if that is not known. ``engine``
    is `local`, `spark`, or `auto`: Spark for a graph that does not fit into memory, if there is a session. ``timeout``,
    ``cancel``, ``as_of`` and the target (``branch``, ``tag``, ``at``, …) are those of ``graph.query``.

    Parallel edges count once, except in `degree`; edges from a node to itself count in `degree` and `pagerank` only.
    """

    def degree(
        self, edges: Edges, *, direction: str = "out", **options: Unpack[AlgorithmKeywords]
    ) -> AlgorithmResult:
        """Count the stored edges of each node, parallel ones too, as the column `degree`.

        ``direction`` is `out`, `in` or `both`; an edge from a node to itself counts twice in `both`.
        """
        from omnigraph.algorithms import local, parameters
        from omnigraph.algorithms.run import Run
        from omnigraph.algorithms.spark import rounds_on_spark

        way = parameters.edge_direction(direction)
        run = Run(
            lambda g, _: local.NodeValues(local.degree(g, way)),
            lambda g, _: rounds_on_spark.degree(g, way),
        )
        return self._run("degree", edges, options, run)

    def pagerank(
        self,
        edges: Edges,
        *,
        damping: float = 0.85,
        tolerance: float = 1e-6,
        max_iterations: int = 100,
        sources: Iterable[str] | None = None,
        **options: Unpack[AlgorithmKeywords],
    ) -> AlgorithmResult:
        """Return the share of time a random walk spends at each node, as the column `rank`; they sum to 1.

        The walk follows an edge with the probability ``damping``; otherwise, and where no edge leads on, it begins
        anew at any node, or at one of ``sources``, which are ids. All ranks are computed in rounds until they change
        by less than ``tolerance`` in sum, at most ``max_iterations`` times; with a tolerance of 0 exactly so often.
        """
        from omnigraph.algorithms import local, parameters
        from omnigraph.algorithms.asked import check_known
        from omnigraph.algorithms.run import Run
        from omnigraph.algorithms.spark import rounds_on_spark

        damp = parameters.number_between("damping", damping, 0, 1)
        least = parameters.number_between("tolerance", tolerance, 0, float("inf"))
        most, given = parameters.rounds(max_iterations), parameters.ids("sources", sources)

        def here(graph: NodeGraph, on_round: OnRound) -> NodeValues:
            codes = None
            if given is not None:
                codes = graph.numbers_of(given)
                check_known(given, codes.tolist(), "sources")
            weight = options.get("weight")
            return local.pagerank(graph, weight, codes, damp, least, most, on_round)

        def on_spark(graph: SparkGraph, on_round: OnRound) -> SparkFound:
            return rounds_on_spark.pagerank(graph, given, damp, least, most, on_round)

        return self._run("pagerank", edges, options, Run(here, on_spark))

    def connected_components(
        self, edges: Edges, *, strong: bool = False, **options: Unpack[AlgorithmKeywords]
    ) -> AlgorithmResult:
        """Return the least id of the component of each node, as the column `component`.

        Nodes belong together if edges join them in either direction; with ``strong``, if each reaches the other.
        """
        from omnigraph.algorithms import local
        from omnigraph.algorithms.run import Run
        from omnigraph.algorithms.spark import rounds_on_spark

        is_strong = check_flag("strong", strong)
        run = Run(
            lambda g, _: local.NodeValues(local.connected_components(g, is_strong=is_strong)),
            rounds_on_spark.connected_components,
            only_here="strong=True" if is_strong else None,
        )
        return self._run("connected_components", edges, options, run)

    def clustering(
        self, edges: Edges, *, directed: bool = False, **options: Unpack[AlgorithmKeywords]
    ) -> AlgorithmResult:
        """Return how many of the possible edges among its neighbours each node has, as the column `coefficient`.

        Neighbours are found in either direction. With ``directed`` each stored direction between two of them counts
        as one of the two there may be; without, an edge counts as both.
        """
        from omnigraph.algorithms import local
        from omnigraph.algorithms.run import Run
        from omnigraph.algorithms.spark import triangles_on_spark

        each = check_flag("directed", directed)
        run = Run(
            lambda g, _: local.NodeValues(local.clustering(g, directed=each)),
            lambda g, _: triangles_on_spark.clustering(g, directed=each),
        )
        return self._run("clustering", edges, options, run)

    def triangle_count(self, edges: Edges, **options: Unpack[AlgorithmKeywords]) -> AlgorithmResult:
        """Count the triangles through each node, in whichever directions, as the column `triangles`."""
        from omnigraph.algorithms import local
        from omnigraph.algorithms.run import Run
        from omnigraph.algorithms.spark import triangles_on_spark

        run = Run(
            lambda g, _: local.NodeValues(local.triangle_count(g)),
            lambda g, _: triangles_on_spark.triangle_count(g),
        )
        return self._run("triangle_count", edges, options, run)

    def label_propagation(
        self,
        edges: Edges,
        *,
        max_iterations: int = 20,
        directed: bool = False,
        **options: Unpack[AlgorithmKeywords],
    ) -> AlgorithmResult:
        """Return the label that each node takes over from its neighbours, as the column `label`.

        A label begins as the id. In every round all nodes at once take the most frequent label of their neighbours,
        of equally frequent ones the least, until nothing changes, at most ``max_iterations`` times. With
        ``directed`` a neighbour in both directions has two votes.
        """
        from omnigraph.algorithms import local, parameters
        from omnigraph.algorithms.run import Run
        from omnigraph.algorithms.spark import rounds_on_spark

        most, each = parameters.rounds(max_iterations), check_flag("directed", directed)
        run = Run(
            lambda g, on_round: local.label_propagation(g, most, on_round, directed=each),
            lambda g, on_round: rounds_on_spark.label_propagation(g, most, on_round, directed=each),
        )
        return self._run("label_propagation", edges, options, run)

    def kcore(self, edges: Edges, **options: Unpack[AlgorithmKeywords]) -> AlgorithmResult:
        """Return the core number of each node, as the column `core`.

        It is the greatest k for which the node is in a part of the graph where everyone has k neighbours.
        """
        from omnigraph.algorithms import local
        from omnigraph.algorithms.run import Run

        run = Run(lambda g, _: local.NodeValues(local.kcore(g)))
        return self._run("kcore", edges, options, run)

    def louvain(
        self, edges: Edges, *, resolution: float = 1.0, **options: Unpack[AlgorithmKeywords]
    ) -> AlgorithmResult:
        """Return the community of each node by Louvain's method, named by its least id, as `community`.

        ``modularity`` of the result says how good they are; a greater ``resolution`` makes smaller ones.
        """
        from omnigraph.algorithms import parameters
        from omnigraph.algorithms.louvain import louvain
        from omnigraph.algorithms.run import Run

        fine = parameters.number_between("resolution", resolution, 0, float("inf"), open_end=True)
        run = Run(lambda g, on_round: louvain(g, options.get("weight"), fine, on_round))
        return self._run("louvain", edges, options, run)

    def betweenness(
        self, edges: Edges, *, direction: str = "out", **options: Unpack[AlgorithmKeywords]
    ) -> AlgorithmResult:
        """Return how many shortest ways between others lead through each node, as the column `betweenness`.

        Of several between the same two, each counts its part. Edges are followed along their ``direction``: `out`,
        `in`, or `both`, where each pair counts once. This takes a search from every node.
        """
        from omnigraph.algorithms import local, parameters
        from omnigraph.algorithms.run import Run

        way = parameters.edge_direction(direction)
        run = Run(lambda g, on_round: local.NodeValues(local.betweenness(g, way, on_round)))
        return self._run("betweenness", edges, options, run)

    def _run(
        self, name: str, edges: Edges, options: AlgorithmKeywords, run: Run
    ) -> AlgorithmResult:
        """Check what is asked for, run it on one snapshot, and return its values."""
        from omnigraph.algorithms.definitions import DEFINITIONS, check_engine, check_weight

        definition = DEFINITIONS[name]
        known = AlgorithmKeywords.__annotations__.keys() - TargetKeywords.__annotations__.keys()
        named = {key: one for key, one in options.items() if key not in known}
        target = target_of(**cast("TargetKeywords", named))
        moment = asked_moment(options.get("as_of"), target)
        check_engine(definition, options.get("engine", "auto"), run.only_here)
        check_weight(definition, options.get("weight"))
        on_round = check_progress(options.get("progress")) or (lambda _done, _most: None)
        with within(options.get("timeout"), options.get("cancel")):
            self._state.ensure_open()
            wanted = self._access.ask_read(target)
            with TURNS.reading(), reading_of(self._access, wanted):
                return retry_if_remade(
                    wanted,
                    lambda: self._run_on(definition, edges, options, wanted, moment, run, on_round),
                )

    def _run_on(
        self,
        definition: Definition,
        edges: Edges,
        options: AlgorithmKeywords,
        target: Target,
        as_of: Moment | None,
        run: Run,
        on_round: OnRound,
    ) -> AlgorithmResult:
        from omnigraph.algorithms.asked import check_weights, edge_types
        from omnigraph.algorithms.result import AlgorithmResult
        from omnigraph.algorithms.run import AlgorithmRequest, run_asked

        snapshot, catalog = resolve(self._state, target)
        view = self._state.reader.view(snapshot, catalog)
        types, weight = edge_types(catalog, edges), options.get("weight")
        check_weights(types, weight)
        moment = moment_at(as_of, target, snapshot)
        with view.reading():
            chosen = self._chosen(view, types[0].from_type, options, moment)
        asked = AlgorithmRequest(definition, types, weight, chosen, moment)
        found = run_asked(asked, view, options.get("engine", "auto"), run, on_round)
        return AlgorithmResult(
            definition.name,
            found.rows,
            found.ran.iterations,
            converged=found.ran.converged,
            engine=found.engine,
            graph_commit_id=snapshot.graph_commit_id,
            modularity=found.modularity,
            write_back=lambda *given: self._write(found.stored, *given),
        )

    def _chosen(
        self, view: View, type_name: str, options: AlgorithmKeywords, moment: Moment
    ) -> pa.Array | None:
        """Return the ids of the nodes that take part; None for all."""
        from omnigraph.algorithms.asked import check_node_type, is_type_name

        nodes, params = options.get("nodes"), options.get("params")
        if nodes is not None and not isinstance(nodes, str):
            raise BadRequest(f"nodes is {nodes!r}; give a node type, or the text of a query")
        if nodes is None or is_type_name(nodes):
            if params is not None:
                raise BadRequest(
                    "params belong to a query for the nodes, and there is none; leave them out"
                )
            if nodes is not None:
                check_node_type(view.catalog, nodes, type_name)
            return None
        return nodes_of(self._state, view, nodes, params, type_name, moment)

    def _write(
        self, found: Storable, name: str, branch: str, actor: str | None, if_commit: str | None
    ) -> GraphCommit | None:
        """Store values in a property, as one commit; None if they are there already."""
        from omnigraph.algorithms.write_back import write_values
        from omnigraph.pipeline.load_plan import LoadPlan

        state, target = self._state, trim_written_branch(branch)
        state.ensure_writable()
        acting = self._access.acting(actor)
        acting.ask(Action.CHANGE, target)

        def accepted() -> tuple[str, Catalog]:
            schema = state.schemas.of(target)
            return schema.ir_hash, schema.catalog

        def view_of(at: BranchState) -> View:
            return state.reader.view(Snapshot.of(target, at.head), state.schemas.at(at).catalog)

        def request(inputs: LoadInput, options: LoadOptions) -> LoadPlan:
            return LoadPlan(
                inputs, options, state.embedder, state.blob_policy, made_from=found.read
            )

        options = check_load_options(
            {"mode": "patch", "branch": target, "engine": "local", "if_commit": if_commit}
        )
        # The values are those of one state, so a lost race is not run again on another.
        options = replace(options, actor=acting.actor, retries=0)
        with TURNS.writing():
            return write_values(state.workspace, accepted, view_of, found, name, request, options)

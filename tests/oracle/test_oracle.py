"""The oracle against answers worked out by hand from the query specification."""

import math

import pytest

from omnigraph.lang.query import ir
from omnigraph.lang.query.ir import Direction
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.lang.schema.shape import Embed
from omnigraph.types import PropType, Scalar
from tests.oracle.graph import Graph
from tests.oracle.interpreter import RefusedError, run, to_json_rows

STRING = PropType(Scalar.STRING)
INT = PropType(Scalar.I64)
F32 = PropType(Scalar.F32)
F64 = PropType(Scalar.F64)
BOOL = PropType(Scalar.BOOL)
DATE = PropType(Scalar.DATE)
DATETIME = PropType(Scalar.DATETIME)
VECTOR = PropType(Scalar.F32, nullable=True, dim=2)
NOW = 1_700_000_000_000


def prop(var, name, type=STRING):
    return ir.PropertyOf(var, name, type.as_nullable())


def const(value, type):
    return ir.Const(value, type)


def compare(left, op, right):
    return ir.Compare(left, op, right)


def column(name, expr, type=STRING):
    return ir.Column(name, expr, type.as_nullable())


def variables(**types):
    return tuple(ir.Variable(name, "node", type_name) for name, type_name in types.items())


def plan(*steps, columns, variables=(), **rest):
    return ir.ReadPlan("q", (), tuple(steps), tuple(columns), tuple(variables), **rest)


def values(answer, name):
    return [row[name] for row in answer]


def items(**rows):
    """A graph of one node type: id -> values."""
    return Graph(nodes={"Item": rows}, edges={})


def matching(graph, *predicates, params=None):
    """The ids of the items that satisfy all predicates on `$x`."""
    found = plan(ir.NodeScan("x", "Item", predicates), columns=[column("x", ir.NodeId("x"))])
    return values(run(found, graph, params or {}, NOW), "x")


class TestComparison:
    @pytest.mark.parametrize(
        ("op", "expected"),
        [
            ("=", ["b"]),
            ("!=", ["a", "c"]),
            ("<", ["a"]),
            ("<=", ["a", "b"]),
            (">", ["c"]),
            (">=", ["b", "c"]),
        ],
    )
    def test_operators_skip_null(self, op, expected):
        graph = items(a={"n": 1}, b={"n": 2}, c={"n": 3}, z={"n": None})
        assert matching(graph, compare(prop("x", "n", INT), op, const(2, INT))) == expected

    def test_operands_are_positional(self):
        graph = items(a={"n": 1}, b={"n": 3})
        assert matching(graph, compare(const(2, INT), "<", prop("x", "n", INT))) == ["b"]

    def test_null_parameter_never_satisfies(self):
        graph = items(a={"n": 1}, z={"n": None})
        given = ir.ParamRef("p", INT.as_nullable())
        for op in ("=", "!="):
            assert (
                matching(graph, compare(prop("x", "n", INT), op, given), params={"p": None}) == []
            )

    def test_numbers_compare_by_mathematical_value(self):
        graph = items(a={"n": 2**53}, b={"n": 2**53 + 1}, c={"n": 95})
        exact = const(float(2**53), F64)
        assert matching(graph, compare(prop("x", "n", INT), "=", exact)) == ["a"]
        assert matching(graph, compare(prop("x", "n", INT), ">", exact)) == ["b"]
        assert matching(graph, compare(prop("x", "n", INT), "=", const(95.5, F64))) == []

    def test_float_literal_is_rounded_against_f32_only(self):
        tenth = 0.10000000149011612
        graph = items(a={"f": tenth, "d": tenth}, b={"f": 0.5, "d": 0.1})
        literal, given = const(0.1, F64), ir.ParamRef("p", F64)
        assert matching(graph, compare(prop("x", "f", F32), "=", literal)) == ["a"]
        assert matching(graph, compare(given, "=", prop("x", "f", F32)), params={"p": 0.1}) == ["a"]
        assert matching(graph, compare(prop("x", "d", F64), "=", literal)) == ["b"]
        assert matching(graph, compare(prop("x", "f", F32), "=", prop("x", "d", F64))) == ["a"]

    def test_integer_against_f32_is_not_rounded(self):
        graph = items(a={"f": 16777216.0})
        assert matching(graph, compare(prop("x", "f", F32), "=", const(16777217, INT))) == []
        assert matching(graph, compare(prop("x", "f", F32), "=", const(16777217.0, F64))) == ["a"]

    def test_text_compares_by_utf8_bytes(self):
        # In UTF-16 the emoji would come before the private-use character; in bytes it does not.
        graph = items(a={"s": "\ue000"}, b={"s": "\U0001f600"}, c={"s": "Z"}, d={"s": "a"})
        assert matching(graph, compare(prop("x", "s"), ">", const("\ue000", STRING))) == ["b"]
        assert matching(graph, compare(prop("x", "s"), "<", const("a", STRING))) == ["c"]

    def test_false_is_less_than_true(self):
        graph = items(a={"b": False}, c={"b": True})
        assert matching(graph, compare(prop("x", "b", BOOL), "<", const(True, BOOL))) == ["a"]

    def test_membership(self):
        texts = PropType(Scalar.STRING, nullable=True, is_list=True)
        graph = items(a={"l": ["u", "v"]}, b={"l": []}, c={"l": None}, d={"l": ["v", None]})
        predicate = compare(ir.PropertyOf("x", "l", texts), "member", const("v", STRING))
        assert matching(graph, predicate) == ["a", "d"]

    def test_membership_in_a_list_of_f32_rounds_the_literal(self):
        floats = PropType(Scalar.F32, is_list=True)
        graph = items(a={"l": [0.10000000149011612]})
        predicate = compare(ir.PropertyOf("x", "l", floats), "member", const(0.1, F64))
        assert matching(graph, predicate) == ["a"]

    @pytest.mark.parametrize(
        ("op", "needle", "expected"),
        [
            ("substring", "_1", ["b"]),
            ("substring", "", ["a", "b"]),
            ("prefix", "A", ["a"]),
            ("prefix", "a", ["b"]),
            ("prefix", "", ["a", "b"]),
        ],
    )
    def test_string_predicates_are_exact(self, op, needle, expected):
        graph = items(a={"s": "Ax1"}, b={"s": "a_1"}, z={"s": None})
        assert matching(graph, compare(prop("x", "s"), op, const(needle, STRING))) == expected

    def test_now_is_a_parameter(self):
        graph = items(a={"t": NOW - 1}, b={"t": NOW + 1})
        now = ir.ParamRef(ir.NOW_PARAM, DATETIME)
        assert matching(graph, compare(prop("x", "t", DATETIME), "<", now)) == ["a"]

    def test_two_scans_are_a_cross_product(self):
        graph = items(a={"n": 1}, b={"n": 2})
        cross = plan(
            ir.NodeScan("x", "Item"),
            ir.NodeScan("y", "Item"),
            ir.Filter(compare(prop("x", "n", INT), "<=", prop("y", "n", INT))),
            columns=[column("x", ir.NodeId("x")), column("y", ir.NodeId("y"))],
            variables=variables(x="Item", y="Item"),
        )
        pairs = [(row["x"], row["y"]) for row in run(cross, graph, {}, NOW)]
        assert pairs == [("a", "a"), ("a", "b"), ("b", "b")]


def stops(*pairs):
    """Nodes named by single letters, edges as pairs `ab`."""
    names = sorted({name for pair in pairs for name in pair})
    edges = [(f"e{at}", pair[0], pair[1], {"at": at}) for at, pair in enumerate(pairs)]
    return Graph(nodes={"Stop": {name: {} for name in names}}, edges={"Next": edges})


def hops(graph, start, low=1, high=1, direction=Direction.OUT, edge_var=None):
    scan = ir.NodeScan("a", "Stop")
    here = ir.Filter(compare(ir.NodeId("a"), "=", const(start, STRING)))
    step = ir.Expand("a", "b", "Next", direction, "Stop", "Stop", low, high, (), edge_var)
    columns = [column("b", ir.NodeId("b"))]
    if edge_var:
        columns.append(column("at", prop(edge_var, "at", INT), INT))
    found = plan(scan, here, step, columns=columns, variables=variables(a="Stop", b="Stop"))
    return run(found, graph, {}, NOW)


class TestTraversal:
    def test_parallel_edges_give_one_pair(self):
        assert values(hops(stops("ab", "ab", "ac"), "a"), "b") == ["b", "c"]

    def test_in_direction(self):
        assert values(hops(stops("ab", "cb"), "b", direction=Direction.IN), "b") == ["a", "c"]

    def test_destination_is_judged_by_its_first_hop(self):
        # a-b-c with the shortcut a-c: c is reached at hop 1, so only d is two or three away.
        graph = stops("ab", "bc", "ac", "cd")
        assert values(hops(graph, "a", 2, 3), "b") == ["d"]
        assert values(hops(graph, "a", 1, 3), "b") == ["b", "c", "d"]

    def test_a_cycle_does_not_return_to_its_start(self):
        assert values(hops(stops("ab", "bc", "ca"), "a", 1, 9), "b") == ["b", "c"]

    def test_self_loop_on_the_start_is_emitted_at_hop_one_only(self):
        graph = stops("aa", "ab")
        assert values(hops(graph, "a", 1, 1), "b") == ["a", "b"]
        assert values(hops(graph, "a", 1, 3), "b") == ["a", "b"]
        assert values(hops(graph, "a", 2, 2), "b") == []

    def test_self_loop_on_a_frontier_node_counts_one_hop_more(self):
        graph = stops("ab", "bb")
        assert values(hops(graph, "a", 2, 2), "b") == ["b"]
        assert values(hops(graph, "a", 1, 2), "b") == ["b"]
        assert values(hops(graph, "a", 3, 3), "b") == []

    def test_undirected_gives_mutual_edges_and_loops_once(self):
        graph = stops("ab", "ba", "ca", "aa")
        assert values(hops(graph, "a", direction=Direction.BOTH), "b") == ["a", "b", "c"]

    def test_undirected_does_not_go_back(self):
        graph = stops("ab", "cb", "cd")
        assert values(hops(graph, "a", 2, 2, Direction.BOTH), "b") == ["c"]

    def test_edge_variable_gives_one_row_per_edge(self):
        graph = stops("ab", "ab", "aa")
        out = hops(graph, "a", edge_var="e")
        assert sorted((row["b"], row["at"]) for row in out) == [("a", 2), ("b", 0), ("b", 1)]
        both = hops(graph, "a", direction=Direction.BOTH, edge_var="e")
        assert sorted((row["b"], row["at"]) for row in both) == [("a", 2), ("b", 0), ("b", 1)]
        back = hops(graph, "b", direction=Direction.BOTH, edge_var="e")
        assert sorted((row["b"], row["at"]) for row in back) == [("a", 0), ("a", 1)]

    def test_edges_between_types_stop_after_one_hop(self):
        # Skipper x commands vessel y, skipper y commands vessel z; x also commands a vessel x.
        graph = Graph(
            nodes={"Skipper": {"x": {}, "y": {}}, "Vessel": {"x": {}, "y": {}, "z": {}}},
            edges={"Commands": [("1", "x", "y", {}), ("2", "y", "z", {}), ("3", "x", "x", {})]},
        )

        def reached(low, high):
            expand = ir.Expand("k", "v", "Commands", Direction.OUT, "Skipper", "Vessel", low, high)
            found = plan(
                ir.NodeScan("k", "Skipper"),
                expand,
                columns=[column("k", ir.NodeId("k")), column("v", ir.NodeId("v"))],
                variables=variables(k="Skipper", v="Vessel"),
            )
            return [(row["k"], row["v"]) for row in run(found, graph, {}, NOW)]

        assert reached(1, 3) == [("x", "x"), ("x", "y"), ("y", "z")]
        assert reached(2, 3) == []

    def test_destination_filters_do_not_block_the_way(self):
        graph = Graph(
            nodes={"Stop": {"a": {"on": True}, "b": {"on": False}, "c": {"on": True}}},
            edges={"Next": [("1", "a", "b", {}), ("2", "b", "c", {})]},
        )
        wanted = (compare(prop("b", "on", BOOL), "=", const(True, BOOL)),)
        found = plan(
            ir.NodeScan("a", "Stop", (compare(ir.NodeId("a"), "=", const("a", STRING)),)),
            ir.Expand("a", "b", "Next", Direction.OUT, "Stop", "Stop", 1, 2, wanted),
            columns=[column("b", ir.NodeId("b"))],
        )
        assert values(run(found, graph, {}, NOW), "b") == ["c"]

    def test_rows_multiply_and_cycles_close_by_id(self):
        graph = stops("ab", "ac", "bd", "cd", "da")
        walk = [
            ir.NodeScan("a", "Stop", (compare(ir.NodeId("a"), "=", const("a", STRING)),)),
            ir.Expand("a", "b", "Next", Direction.OUT, "Stop", "Stop"),
            ir.Expand("b", "c", "Next", Direction.OUT, "Stop", "Stop"),
        ]
        shown = [column("c", ir.NodeId("c"))]
        assert values(run(plan(*walk, columns=shown), graph, {}, NOW), "c") == ["d", "d"]
        closed = [
            *walk,
            ir.Expand("c", "#1", "Next", Direction.OUT, "Stop", "Stop"),
            ir.Filter(compare(ir.NodeId("#1"), "=", ir.NodeId("a"))),
        ]
        assert values(run(plan(*closed, columns=shown), graph, {}, NOW), "c") == ["d", "d"]

    def test_binding_a_variable_twice_is_a_fault_of_the_plan(self):
        twice = plan(ir.NodeScan("x", "Item"), ir.NodeScan("x", "Item"), columns=[])
        with pytest.raises(AssertionError, match="bound twice"):
            run(twice, items(a={}), {}, NOW)


class TestNegation:
    def rows(self, graph, *inner):
        step = ir.AntiJoin(("a",), inner)
        found = plan(
            ir.NodeScan("a", "Stop"),
            step,
            columns=[column("a", ir.NodeId("a"))],
            variables=variables(a="Stop"),
        )
        return values(run(found, graph, {}, NOW), "a")

    def test_drops_rows_with_an_inner_match(self):
        step = ir.Expand("a", "b", "Next", Direction.OUT, "Stop", "Stop")
        assert self.rows(stops("ab", "bc"), step) == ["c"]

    def test_nested(self):
        # Nobody with a neighbour other than b.
        step = ir.Expand("a", "b", "Next", Direction.OUT, "Stop", "Stop")
        is_b = ir.Filter(compare(ir.NodeId("b"), "=", const("b", STRING)))
        assert self.rows(stops("ab", "bc"), step, ir.AntiJoin(("a", "b"), (is_b,))) == ["a", "c"]

    def test_predicate_only_keeps_nulls(self):
        graph = Graph(nodes={"Stop": {"a": {"s": "v"}, "b": {"s": None}, "c": {"s": "w"}}})
        inner = ir.Filter(compare(prop("a", "s"), "=", const("v", STRING)))
        assert self.rows(graph, inner) == ["b", "c"]

    def test_correlation_is_per_row(self):
        graph = items(a={"n": 1}, b={"n": 2})
        less = ir.Filter(compare(prop("x", "n", INT), "<", prop("y", "n", INT)))
        found = plan(
            ir.NodeScan("x", "Item"),
            ir.NodeScan("y", "Item"),
            ir.AntiJoin(("x", "y"), (less,)),
            columns=[column("x", ir.NodeId("x")), column("y", ir.NodeId("y"))],
            variables=variables(x="Item", y="Item"),
        )
        pairs = [(row["x"], row["y"]) for row in run(found, graph, {}, NOW)]
        assert pairs == [("a", "a"), ("b", "a"), ("b", "b")]


def aggregate(graph, *functions, keys=(), order=(), arg=None, limit=None):
    arg = arg or prop("x", "n", INT)
    columns = [column(name, prop("x", name)) for name in keys]
    columns += [column(f, ir.Aggregate(f, arg, F64), F64) for f in functions]
    sort = tuple(ir.SortKey(None, at, descending) for at, descending in order)
    grouped = plan(ir.NodeScan("x", "Item"), columns=columns, order=sort, limit=limit)
    return run(grouped, graph, {}, NOW)


class TestAggregates:
    def test_nulls_are_skipped(self):
        graph = items(a={"n": 1}, b={"n": 4}, z={"n": None})
        answer = aggregate(graph, "count", "sum", "avg", "min", "max")
        assert answer == [{"count": 2, "sum": 5.0, "avg": 2.5, "min": 1, "max": 4}]
        assert isinstance(answer[0]["sum"], float)

    def test_sums_of_integers_are_exact_or_refused(self):
        total = ir.Aggregate("sum", prop("x", "n", INT), PropType(Scalar.I64, True))
        summed = plan(ir.NodeScan("x", "Item"), columns=[column("s", total, total.type)])
        graph = items(a={"n": 2**63 - 1}, b={"n": 1}, c={"n": -1}, z={"n": None})
        assert run(summed, graph, {}, NOW) == [{"s": 2**63 - 1}]
        assert run(summed, items(z={"n": None}), {}, NOW) == [{"s": None}]
        for over in (2**63 - 1, -(2**63)):
            with pytest.raises(RefusedError, match="overflow"):
                run(summed, items(a={"n": over}, b={"n": 1 if over > 0 else -1}), {}, NOW)

    def test_counting_a_node_counts_rows(self):
        assert aggregate(items(a={}, b={}), "count", arg=ir.NodeId("x")) == [{"count": 2}]

    def test_zero_rows_without_keys_is_one_group(self):
        answer = aggregate(items(), "count", "sum", "avg", "min", "max")
        assert answer == [{"count": 0, "sum": None, "avg": None, "min": None, "max": None}]

    def test_zero_rows_with_keys_is_no_group(self):
        assert aggregate(items(), "count", keys=["s"]) == []

    def test_null_is_a_key_and_the_smallest(self):
        graph = items(a={"s": "k", "n": 1}, b={"s": None, "n": 2}, c={"s": None, "n": 3})
        answer = aggregate(graph, "sum", keys=["s"])
        assert answer == [{"s": None, "sum": 5.0}, {"s": "k", "sum": 1.0}]

    def test_ties_are_broken_by_the_key_columns(self):
        rows = {name: {"s": name[0], "t": name[1], "n": 1} for name in ("ba", "ab", "aa", "bb")}
        rows["more"] = {"s": "b", "t": "b", "n": 1}
        answer = aggregate(items(**rows), "count", keys=["t", "s"], order=[(2, True)], limit=3)
        assert answer == [
            {"t": "b", "s": "b", "count": 2},
            {"t": "a", "s": "a", "count": 1},
            {"t": "a", "s": "b", "count": 1},
        ]

    def test_minimum_of_text_is_by_bytes(self):
        graph = items(a={"s": "\U0001f600"}, b={"s": "\ue000"}, z={"s": None})
        answer = aggregate(graph, "min", "max", "count", arg=prop("x", "s"))
        assert answer == [{"min": "\ue000", "max": "\U0001f600", "count": 2}]


class TestOrder:
    def ids(self, graph, *order, limit=None):
        found = plan(
            ir.NodeScan("x", "Item"),
            columns=[column("x", ir.NodeId("x"))],
            variables=variables(x="Item"),
            order=order,
            limit=limit,
        )
        return values(run(found, graph, {}, NOW), "x")

    def test_nulls_are_smallest_and_ids_break_ties(self):
        graph = items(d={"n": 1}, c={"n": None}, b={"n": 2}, a={"n": 1})
        key = prop("x", "n", INT)
        assert self.ids(graph, ir.SortKey(key, None)) == ["c", "a", "d", "b"]
        assert self.ids(graph, ir.SortKey(key, None, descending=True)) == ["b", "a", "d", "c"]

    def test_limit_cuts_after_ordering(self):
        graph = items(b={"n": 1}, a={"n": 2})
        key = ir.SortKey(prop("x", "n", INT), None)
        assert self.ids(graph, key, limit=1) == ["b"]
        assert self.ids(graph, key, limit=0) == []

    def test_a_key_may_be_an_output_column(self):
        assert self.ids(items(a={}, b={}), ir.SortKey(None, 0, descending=True)) == ["b", "a"]

    def test_variables_break_ties_in_alphabetical_order(self):
        graph = Graph(
            nodes={"Stop": {"p": {}, "q": {}}},
            edges={"Next": [("e1", "q", "p", {}), ("e2", "p", "q", {}), ("e0", "p", "q", {})]},
        )
        # Variable b comes before z, whatever the order of the steps; then the hidden edge id.
        found = plan(
            ir.NodeScan("z", "Stop"),
            ir.Expand("z", "b", "Next", Direction.OUT, "Stop", "Stop", edge_var="e"),
            columns=[column("z", ir.NodeId("z")), column("b", ir.NodeId("b"))],
            variables=(
                ir.Variable("z", "node", "Stop"),
                ir.Variable("e", "edge", "Next"),
                ir.Variable("b", "node", "Stop"),
            ),
            order=(ir.SortKey(None, 0),),
        )
        pairs = [(row["z"], row["b"]) for row in run(found, graph, {}, NOW)]
        assert pairs == [("p", "q"), ("p", "q"), ("q", "p")]

    def test_edge_variables_break_ties_by_edge_id(self):
        graph = Graph(
            nodes={"Stop": {"p": {}, "q": {}}},
            edges={"Next": [("e2", "p", "q", {"n": 2}), ("e1", "p", "q", {"n": 1})]},
        )
        found = plan(
            ir.NodeScan("a", "Stop"),
            ir.Expand("a", "b", "Next", Direction.OUT, "Stop", "Stop", edge_var="e"),
            columns=[column("n", prop("e", "n", INT), INT)],
            variables=(*variables(a="Stop", b="Stop"), ir.Variable("e", "edge", "Next")),
        )
        assert values(run(found, graph, {}, NOW), "n") == [1, 2]


class TestTextPredicates:
    def found(self, graph, function, query, edits=None):
        edits = None if edits is None else const(edits, INT)
        field = prop("x", "s")
        return matching(graph, ir.TextMatch(function, field, const(query, STRING), edits))

    @pytest.mark.parametrize("function", ["search", "match_text"])
    def test_one_shared_term_is_enough(self, function):
        graph = items(a={"s": "Solar panels, running"}, b={"s": "wind"}, z={"s": None})
        assert self.found(graph, function, "panel of gold") == ["a"]
        assert self.found(graph, function, "RUNS") == ["a"]
        assert self.found(graph, function, "the of and") == []
        assert self.found(graph, function, "sol") == []

    def test_fuzzy_counts_edits(self):
        graph = items(a={"s": "turbine blade"}, b={"s": "tower"}, z={"s": None})
        assert self.found(graph, "fuzzy", "blide", 1) == ["a"]
        assert self.found(graph, "fuzzy", "blxyz", 1) == []
        assert self.found(graph, "fuzzy", "blide", 0) == []
        assert self.found(graph, "fuzzy", "tawar") == ["b"]
        assert self.found(graph, "fuzzy", "xawar") == []

    def test_null_query_matches_nothing(self):
        graph = items(a={"s": "solar"})
        query = ir.ParamRef("q", STRING.as_nullable())
        text = ir.TextMatch("search", prop("x", "s"), query)
        assert matching(graph, text, params={"q": None}) == []


def ranked(graph, ranking, *, limit=None, order=(), extra=(), params=None, names=None):
    columns = [column("x", ir.NodeId("x")), column("score", ir.Score(), F64)]
    names = names or {"x": "Item"}
    columns += [column(name, ir.NodeId(name)) for name in names if name != "x"]
    found = plan(
        ir.NodeScan("x", "Item"),
        *extra,
        columns=columns,
        variables=variables(**names),
        ranking=ranking,
        order=order,
        limit=limit,
    )
    return run(found, graph, params or {}, NOW)


def nearest(x, y):
    return ir.Nearest(ir.PropertyOf("x", "v", VECTOR), const([x, y], VECTOR))


def bm25(query):
    return ir.Bm25(prop("x", "s"), const(query, STRING))


class TestNearest:
    def test_squared_distance_ascending_without_the_vectorless(self):
        graph = items(far={"v": [3.0, 4.0]}, near={"v": [1.0, 0.0]}, none={"v": None})
        answer = ranked(graph, nearest(0.0, 0.0), limit=9)
        assert values(answer, "x") == ["near", "far"]
        assert values(answer, "score") == [1.0, 25.0]

    def test_ranks_the_match_and_then_limits(self):
        graph = items(a={"v": [0.0, 0.0], "n": 1}, b={"v": [1.0, 0.0], "n": 2})
        second = ir.Filter(compare(prop("x", "n", INT), "=", const(2, INT)))
        assert values(ranked(graph, nearest(0.0, 0.0), limit=1, extra=[second]), "x") == ["b"]

    def test_further_keys_then_ids_break_ties(self):
        vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [-1.0, 0.0], "d": [0.0, 0.0]}
        rows = {
            name: {"v": vector, "n": 1 if name == "c" else 2} for name, vector in vectors.items()
        }
        graph = items(**rows)
        assert values(ranked(graph, nearest(0.0, 0.0), limit=9), "x") == ["d", "a", "b", "c"]
        order = (ir.SortKey(prop("x", "n", INT), None),)
        answer = ranked(graph, nearest(0.0, 0.0), limit=9, order=order)
        assert values(answer, "x") == ["d", "c", "a", "b"]

    def test_text_is_embedded_by_the_mock(self):
        vector = PropType(Scalar.F32, dim=4)
        graph = items(
            alpha={"v": [-0.542049, -0.471799, 0.160905, 0.676534]},
            beta={"v": [0.665963, -0.56222, -0.416368, 0.258921]},
        )
        ranking = ir.Nearest(ir.PropertyOf("x", "v", vector), const("beta", STRING))
        answer = ranked(graph, ranking, limit=1)
        assert values(answer, "x") == ["beta"]
        assert answer[0]["score"] == pytest.approx(0, abs=1e-9)

    def test_rows_of_one_entity_stay_together(self):
        # p and q are equally far; each meets both tags. The tags sort across, the entities lead.
        graph = Graph(
            nodes={
                "Item": {"p": {"v": [1.0, 0.0]}, "q": {"v": [0.0, 1.0]}},
                "Tag": {"t": {"n": 2}, "u": {"n": 1}},
            }
        )
        extra = [ir.NodeScan("a", "Tag")]
        order = (ir.SortKey(prop("a", "n", INT), None),)
        for keys, tags in (((), "tutu"), (order, "utut")):
            answer = ranked(
                graph,
                nearest(0.0, 0.0),
                limit=9,
                extra=extra,
                order=keys,
                names={"x": "Item", "a": "Tag"},
            )
            assert "".join(values(answer, "x")) == "ppqq"
            assert "".join(values(answer, "a")) == tags


class TestBm25:
    def test_only_matches_remain_best_first(self):
        graph = items(
            coal={"s": "coal furnace solar retrofit"},
            sun={"s": "solar solar solar panel"},
            wind={"s": "wind turbine"},
            none={"s": None},
        )
        answer = ranked(graph, bm25("Solar"))
        assert values(answer, "x") == ["sun", "coal"]
        # Three texts of 4, 4 and 2 terms; two hold the term, 3 and 1 times.
        idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
        norm = 1.2 * (0.25 + 0.75 * 4 / (10 / 3))
        expected = [idf * 3 * 2.2 / (3 + norm), idf * 2.2 / (1 + norm)]
        assert values(answer, "score") == pytest.approx(expected)

    def test_statistics_are_those_of_the_table(self):
        graph = items(a={"s": "solar"}, b={"s": "solar"}, c={"s": "wind"})
        only_a = ir.Filter(compare(ir.NodeId("x"), "=", const("a", STRING)))
        whole, part = ranked(graph, bm25("solar")), ranked(graph, bm25("solar"), extra=[only_a])
        assert values(part, "x") == ["a"]
        assert part[0]["score"] == whole[0]["score"]

    def test_equal_scores_go_by_id(self):
        graph = items(b={"s": "solar"}, a={"s": "solar"})
        assert values(ranked(graph, bm25("solar")), "x") == ["a", "b"]


def rrf(first, second, k=60):
    return ir.Rrf((first, second), const(k, INT))


class TestRrf:
    GRAPH = items(
        e0={"v": [0.0, 0.0], "s": "solar"},
        e1={"v": [1.0, 0.0], "s": "wind"},
        e2={"v": [2.0, 0.0], "s": "solar solar"},
        e3={"v": [3.0, 0.0], "s": "gas"},
    )

    def test_sums_reciprocal_ranks(self):
        # Nearest: e0 e1 e2 e3. Text, average length 1.25: e2 4.4/3.74, then e0 2.2/2.02.
        answer = ranked(self.GRAPH, rrf(nearest(0.0, 0.0), bm25("solar")), limit=4)
        assert values(answer, "x") == ["e0", "e2", "e1", "e3"]
        expected = [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62, 1 / 64]
        assert values(answer, "score") == pytest.approx(expected)

    def test_a_nearest_arm_is_cut_at_the_limit(self):
        # Arms e0 e1 and e3 e2: every entity is in one arm only.
        answer = ranked(self.GRAPH, rrf(nearest(0.0, 0.0), nearest(3.0, 0.0)), limit=2)
        assert values(answer, "x") == ["e0", "e3"]
        assert values(answer, "score") == [1 / 61, 1 / 61]

    def test_a_text_arm_is_cut_at_the_limit(self):
        # The nearest arm holds e0 alone, the text arm e2 alone: e0 is not the second of it.
        answer = ranked(self.GRAPH, rrf(nearest(0.0, 0.0), bm25("solar"), 10), limit=1)
        assert values(answer, "x") == ["e0"]
        assert values(answer, "score") == pytest.approx([1 / 11])

    def test_equal_scores_keep_the_order_of_the_first_arm(self):
        # e3 leads the nearest arm and e2 the text arm, each with 1/11.
        near, text = nearest(3.0, 0.0), bm25("solar")
        assert values(ranked(self.GRAPH, rrf(near, text, 10), limit=1), "x") == ["e3"]
        assert values(ranked(self.GRAPH, rrf(text, near, 10), limit=1), "x") == ["e2"]

    def test_entities_in_no_arm_are_left_out(self):
        answer = ranked(self.GRAPH, rrf(bm25("solar"), bm25("gas")), limit=9)
        assert sorted(values(answer, "x")) == ["e0", "e2", "e3"]

    def test_k_must_be_positive(self):
        with pytest.raises(RefusedError, match="k"):
            ranked(self.GRAPH, rrf(nearest(0.0, 0.0), bm25("solar"), 0), limit=1)


def catalog():
    def properties(**types):
        return {name: Property(name, t, at) for at, (name, t) in enumerate(types.items())}

    embed = Property("vec", PropType(Scalar.F32, True, dim=4), 9, embed=Embed("title"))
    return Catalog(
        nodes={
            "Day": NodeType(
                "Day", 1, 1, properties(on=DATE, note=STRING.as_nullable()), key=("on",)
            ),
            "Slot": NodeType("Slot", 2, 1, properties(bay=INT, lane=STRING), key=("bay", "lane")),
            "Memo": NodeType(
                "Memo", 3, 1, {**properties(title=STRING.as_nullable()), "vec": embed}
            ),
        },
        edges={
            "HeldOn": EdgeType("HeldOn", 4, 1, properties(w=F32), from_type="Slot", to_type="Day")
        },
    )


class TestGraph:
    def test_reads_both_record_shapes(self):
        graph = Graph.load(
            catalog(),
            """
            // a comment
            {"type":"Day","data":{"on":"1970-01-03"}}
            {"type":"Slot","data":{"lane":"A","bay":1}}

            {"edge":"heldon","from":"[\\"1\\",\\"A\\"]","to":"2","data":{"w":0.1}}
            """,
        )
        assert graph.nodes["Day"] == {"2": {"on": 2, "note": None}}
        assert graph.nodes["Slot"] == {'["1","A"]': {"bay": 1, "lane": "A"}}
        ((_, src, dst, row),) = graph.edges["HeldOn"]
        assert (src, dst, row) == ('["1","A"]', "2", {"w": 0.10000000149011612})

    def test_keyless_ids_are_given_or_fresh(self):
        lines = ['{"type":"Memo","data":{"id":"m1"}}', *['{"type":"Memo","data":{}}'] * 2]
        graph = Graph.load(catalog(), "\n".join(lines))
        assert "m1" in graph.nodes["Memo"]
        assert len(graph.nodes["Memo"]) == 3

    def test_embedding_fills_a_missing_vector_only(self):
        lines = [
            '{"type":"Memo","data":{"id":"a","title":"alpha"}}',
            '{"type":"Memo","data":{"id":"b","title":"x","vec":[1,0,0,0]}}',
            '{"type":"Memo","data":{"id":"c"}}',
        ]
        graph = Graph.load(
            catalog(), "\n".join(lines), embed=lambda text, dim: [float(len(text))] * dim
        )
        vectors = {node: row["vec"] for node, row in graph.nodes["Memo"].items()}
        assert vectors == {"a": [5.0] * 4, "b": [1.0, 0.0, 0.0, 0.0], "c": None}


def test_rows_become_json_by_the_column_types():
    shown = plan(
        ir.NodeScan("x", "Item"),
        columns=[column("d", prop("x", "d", DATE), DATE), column("t", prop("x", "t"), DATETIME)],
    )
    rows = run(shown, items(a={"d": 2, "t": 0}, b={"d": None, "t": None}), {}, NOW)
    assert to_json_rows(shown, rows) == [
        {"d": "1970-01-03", "t": "1970-01-01T00:00:00.000Z"},
        {"d": None, "t": None},
    ]

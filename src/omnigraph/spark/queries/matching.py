"""A pattern as joins: variables that nobody asks for are counted first, the others are joined in turn.

    $a: Person  $a knows $b  $b knows $c      return { $a.name, count(*) }
    $c is nobody's: (b, n) is the number of pairs of each b; then a joins b, and the n are added up by name

A variable at the end of one traversal that nobody asks for never makes rows: the pairs of the traversal are grouped by
its neighbour, and the number joins. What is left is joined along its traversals, closed cycles by both ends at once.
Blocks then drop, keep or extend the rows (`blocks`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.lang.query import ir
from omnigraph.read.match.pattern import Negation, Pattern, Traversal, block_of
from omnigraph.read.match.trees import blocks_in
from omnigraph.read.values.expressions import holds
from omnigraph.read.values.operands import OperandRows
from omnigraph.spark.queries import blocks, sources
from omnigraph.spark.queries.needs import block_fields, ids, own_names, read_by
from omnigraph.spark.queries.relations import HOPS, LEFT, RIGHT, Relation
from omnigraph.spark.queries.rows import Job, MatchRows, collapsed, filtered, joined, selected
from omnigraph.spark.queries.searches import matching_ids
from omnigraph.spark.queries.values.fields import ID, LENGTH, Field, plain, searches_in


def solve(
    job: Job,
    pattern: Pattern,
    wanted: Iterable[Field],
    given: MatchRows | None = None,
    *,
    exists: bool = False,
) -> MatchRows:
    """The rows of a pattern with the fields that are wanted.

    ``given`` are rows of the variables from outside, each once. With ``exists`` nobody asks how many rows there are,
    and a row may come more than once.
    """
    return _Solver(job, pattern, set(wanted), given, exists).solve()


class _Solver:
    def __init__(
        self, job: Job, pattern: Pattern, wanted: set[Field], given: MatchRows | None, exists: bool
    ) -> None:
        self.job, self.pattern = job, pattern
        self.wanted, self.given, self.exists = wanted, given, exists
        self.pushed: dict[str, list[ir.Condition]] = {}
        """Conditions on one variable that tables are read with."""
        self.sets: dict[str, list[tuple[MatchRows, bool]]] = {}
        """Ids that a variable must be, or must not be (True), one of."""
        self.messages: dict[str, list[MatchRows]] = {}
        self.waiting: list[ir.Condition] = []
        """Conditions that rows are judged by, as soon as these have all fields."""
        self.blocks: list[Negation] = []
        self.unit: list[MatchRows] = []
        """Counts that join with nothing that is left: frames of a single row."""
        self._sort_conditions()
        self.need = self._needed()
        self.traversals = list(pattern.traversals)
        self.own = [
            name
            for name, kind in pattern.nodes.items()
            if name not in pattern.given and not kind.startswith("#")
        ]

    # -------------------------------------------------------------- what is asked of whom

    def _sort_conditions(self) -> None:
        pattern = self.pattern
        for var, tests in pattern.tests.items():
            for test in tests:
                self._sort(var, test)
        self.waiting += pattern.joins
        for negation in pattern.negations:
            if not self._as_set(negation, anti=True):
                self.blocks.append(negation)

    def _sort(self, var: str, test: ir.Condition) -> None:
        anti = isinstance(test, ir.Not)
        inner = test.part if isinstance(test, ir.Not) else test
        if isinstance(inner, ir.TextMatch) and self._is_own_node(var):
            found = matching_ids(self.job, inner, self.pattern.nodes[var], var)
            self.sets.setdefault(var, []).append((found, anti))
        elif isinstance(inner, ir.Exists):
            block = block_of(inner, self.pattern)
            if not self._as_set(block, anti=anti):
                self.waiting.append(test)
        elif any(blocks_in(test)) or any(searches_in(test)):
            self.waiting.append(test)
        elif self._is_own_node(var) or (
            var in self.pattern.edges and var not in self.pattern.given
        ):
            self.pushed.setdefault(var, []).append(plain(test))
        else:
            self.waiting.append(test)

    def _is_own_node(self, var: str) -> bool:
        kind = self.pattern.nodes.get(var, "#")
        return var not in self.pattern.given and not kind.startswith("#")

    def _as_set(self, block: Negation, *, anti: bool) -> bool:
        """Judge a block about one node variable by itself: the nodes that have a match are a set."""
        if len(block.outer) != 1:
            return False
        (var,) = block.outer
        if not self._is_own_node(var) or not blocks.stands_alone(block.pattern, {var}):
            return False
        alone = replace(block.pattern, given=frozenset())
        found = solve(self.job, alone, [Field(var, ID)], exists=True)
        self.sets.setdefault(var, []).append((found, anti))
        return True

    def _needed(self) -> set[Field]:
        pattern = self.pattern
        need = {field for field in self.wanted if field.var in own_names(pattern)}
        for condition in (*self.waiting, *pattern.late):
            need |= read_by(condition, pattern)
        for negation in self.blocks:
            need |= block_fields(negation)
        for optional in pattern.optionals:
            need |= block_fields(optional)
        for var, one in pattern.lists.items():
            need.add(Field(one.var, one.property))
            need |= set(ids(pattern, [var]))
        return need

    def _is_kept(self, hop: Traversal) -> bool:
        """Whether the edge or the path of a traversal is used elsewhere in the query."""
        if hop.edge_var is not None and self._asks(hop.edge_var):
            return True
        paths = (path for path, one in self.pattern.paths.items() if one == hop)
        return any(self._asks(path) for path in paths)

    def _asks(self, var: str) -> bool:
        return any(field.var == var for field in self.need)

    # -------------------------------------------------------------- counting

    def solve(self) -> MatchRows:
        self._sum_away()
        rows = self._enumerated()
        for block in self.blocks:
            rows = blocks.without_matches(self.job, rows, block, solve)
        for optional in self.pattern.optionals:
            rows = blocks.extended(
                self.job, rows, optional, self._asked_of(optional.pattern), solve
            )
        if self.pattern.late:
            rows = self._judged(rows, self.pattern.late)
        if not self._is_possible():
            from pyspark.sql import functions as F  # noqa: N812

            rows = replace(rows, frame=rows.frame.where(F.lit(False)))
        return selected(self.job, rows, self.wanted)

    def _is_possible(self) -> bool:
        """Whether the conditions on no variable are satisfied."""
        known = OperandRows({}, {}, self.job.params, 1)
        return all(bool(holds(plain(one), known)[0]) for one in self.pattern.conditions)

    def _asked_of(self, block: Pattern) -> set[Field]:
        own = own_names(block)
        late = {field for one in self.pattern.late for field in read_by(one, self.pattern)}
        later = {field for one in self.pattern.optionals for field in block_fields(one)}
        return {field for field in self.wanted | late | later if field.var in own}

    def _sum_away(self) -> None:
        while True:
            ends = [name for name in self.own if not self._asks(name) and self._is_end(name)]
            if not ends:
                return
            # Those with conditions last: what is left then begins with few rows.
            name = min(ends, key=lambda one: (one in self.pushed, one in self.sets))
            self.own.remove(name)
            hops = [hop for hop in self.traversals if name in hop.ends]
            if not hops:
                self.unit.append(
                    collapsed(self.job, selected(self.job, self._candidates(name), []))
                )
                continue
            (hop,) = hops
            self.traversals.remove(hop)
            (parent,) = hop.ends - {name}
            self.messages.setdefault(parent, []).append(self._message(hop, name, parent))

    def _is_end(self, name: str) -> bool:
        hops = [hop for hop in self.traversals if name in hop.ends]
        if any(one.var == name for one in self.pattern.lists.values()):
            return False
        return len(hops) == 0 or (
            len(hops) == 1 and len(hops[0].ends) == 2 and not self._is_kept(hops[0])
        )

    def _message(self, hop: Traversal, name: str, parent: str) -> MatchRows:
        """For each binding of the parent, how many of the variable go with it."""
        found = self._relation(hop, self.given)
        if self._has_candidates(name):
            found = joined(self.job, found, self._candidates(name), [Field(name, ID)])
        found = selected(self.job, found, [Field(parent, ID)])
        if self.exists:
            return replace(found, frame=found.frame.distinct(), is_weighted=False)
        return collapsed(self.job, found)

    # -------------------------------------------------------------- candidates and relations

    def _has_candidates(self, name: str) -> bool:
        """Whether a variable is narrowed or read: otherwise it is whatever its traversals reach."""
        if name in self.pattern.given:
            return False
        reads = any(field.var == name and field.what != ID for field in self.need)
        return bool(reads or name in self.pushed or name in self.sets or name in self.messages)

    def _candidates(self, name: str) -> MatchRows:
        """The nodes a variable may be, with the fields of it that are asked for."""
        job, node = self.job, self.job.view.catalog.nodes[self.pattern.nodes[name]]
        whats = {field.what for field in self.need if field.var == name} | {ID}
        messages = list(self.messages.get(name, ()))
        if whats == {ID} and messages and not (name in self.pushed or name in self.sets):
            rows = messages.pop(0)
        else:
            columns = {what: job.names.of(Field(name, what)) for what in whats}
            pushed = self.pushed.get(name, [])
            frame = job.tables.read(node, columns, pushed)
            most = 1 if _is_one(pushed, node.id_property) else job.tables.rows(node)
            rows = MatchRows(frame, frozenset(Field(name, what) for what in whats), most=most)
        for found, anti in self.sets.get(name, ()):
            how = "left_anti" if anti else "left_semi"
            rows = joined(job, rows, found, [Field(name, ID)], how=how)
        for message in messages:
            rows = joined(job, rows, message, [Field(name, ID)])
        return rows

    def _relation(self, hop: Traversal, rows: MatchRows | None) -> MatchRows:
        """The pairs of a traversal as rows of its variables; ``rows`` are those it goes on from."""
        job, relations = self.job, self.job.relations
        fields = {Field(hop.left, ID): LEFT, Field(hop.right, ID): RIGHT}
        if not hop.is_single_hop:
            found = self._reached(hop, rows)
            paths = [path for path, one in self.pattern.paths.items() if one == hop]
            fields |= {Field(path, LENGTH): HOPS for path in paths if self._asks(path)}
        elif hop.edge_var is not None:
            whats = {field.what for field in self.need if field.var == hop.edge_var}
            columns = {what: job.names.of(Field(hop.edge_var, what)) for what in whats}
            found = relations.of_edges(hop, columns, tuple(self.pushed.get(hop.edge_var, ())))
        else:
            found = relations.pairs(hop, distinct=not self.exists)
        from pyspark.sql import functions as F  # noqa: N812

        frame = found.frame
        if hop.left == hop.right:
            frame = frame.where(F.col(LEFT) == F.col(RIGHT))
            fields[Field(hop.left, ID)] = LEFT
        shown = [F.col(column).alias(job.names.of(field)) for field, column in fields.items()]
        edge = {field for field in self.need if field.var == hop.edge_var}
        shown += [F.col(job.names.of(field)) for field in edge]
        most = (
            sum(map(job.tables.rows, relations.edge_types(hop))) * 2 if hop.is_single_hop else None
        )
        return MatchRows(frame.select(*shown), frozenset(fields) | edge, most=most)

    def _reached(self, hop: Traversal, rows: MatchRows | None) -> Relation:
        job = self.job
        for name in (hop.left, hop.right):
            if rows is not None and rows.has(name):
                starts = rows.frame.select(job.names.of(Field(name, ID)))
                return job.relations.reached(hop, starts, from_right=name != hop.left)
        narrowed = [name for name in (hop.left, hop.right) if self._has_candidates(name)]
        name = next((one for one in narrowed if one in self.pushed), hop.left)
        starts = self._candidates(name).frame.select(job.names.of(Field(name, ID)))
        return job.relations.reached(hop, starts, from_right=name != hop.left)

    # -------------------------------------------------------------- joining

    def _enumerated(self) -> MatchRows:
        rows = self.given
        if rows is not None:
            for name in sorted(self.pattern.given):
                for message in self.messages.get(name, ()):
                    rows = joined(self.job, rows, message, [Field(name, ID)])
            rows = self._judged_now(rows)
        open_lists = {name for name in self.pattern.lists if name not in self.pattern.given}
        loose = [name for name in self.pattern.sources if name not in self.pattern.given]
        while True:
            step = self._next(rows)
            if step is not None:
                rows = self._along(rows, step)
            elif rows is not None and (ready := self._unrollable(rows, open_lists)):
                open_lists.remove(ready)
                rows = sources.unrolled(self.job, rows, ready, self.pattern.lists[ready])
            elif loose:
                name = loose.pop(0)
                found = sources.rows_of(self.job, self.pattern.sources[name], name, self.need)
                rows = self._beside(rows, found)
            elif root := self._root(rows):
                rows = self._rooted(rows, root)
            else:
                break
            rows = self._judged_now(rows)
        for one in self.unit:
            rows = self._beside(rows, one)
        assert rows is not None, "a pattern has a variable"
        return rows

    def _rooted(self, rows: MatchRows | None, name: str) -> MatchRows:
        """The rows beside a variable that nothing leads to; without conditions on it, its first pairs do."""
        hop = next((one for one in self.traversals if name in one.ends), None)
        if rows is None and hop is not None and not self._has_candidates(name):
            return self._along(None, hop)
        return self._beside(rows, self._candidates(name))

    def _beside(self, rows: MatchRows | None, other: MatchRows) -> MatchRows:
        return other if rows is None else joined(self.job, rows, other, [])

    def _next(self, rows: MatchRows | None) -> Traversal | None:
        """The traversal to join next: one whose ends are both bound, else one with an end."""
        if rows is None:
            return None
        for bound in (2, 1):
            for hop in self.traversals:
                if sum(map(rows.has, hop.ends)) >= min(bound, len(hop.ends)):
                    return hop
        return None

    def _along(self, rows: MatchRows | None, hop: Traversal) -> MatchRows:
        self.traversals.remove(hop)
        found = self._relation(hop, rows)
        new = [name for name in hop.ends if rows is None or not rows.has(name)]
        if rows is not None:
            shared = [Field(name, ID) for name in sorted(hop.ends) if rows.has(name)]
            found = joined(self.job, rows, found, shared)
        for name in new:
            if self._has_candidates(name):
                found = joined(self.job, found, self._candidates(name), [Field(name, ID)])
        return found

    def _root(self, rows: MatchRows | None) -> str | None:
        """The variable to go on with where nothing leads on: a narrow one."""
        left = [name for name in self.own if rows is None or not rows.has(name)]
        tables = self.job.tables
        nodes = self.job.view.catalog.nodes

        def cost(name: str) -> tuple[bool, int]:
            return name not in self.pushed, tables.rows(nodes[self.pattern.nodes[name]])

        return min(left, key=cost, default=None)

    def _unrollable(self, rows: MatchRows, names: set[str]) -> str | None:
        lists = self.pattern.lists
        return next((name for name in sorted(names) if rows.has(lists[name].var)), None)

    def _judged_now(self, rows: MatchRows) -> MatchRows:
        """The rows that satisfy what can be judged by now."""
        ready = [one for one in self.waiting if read_by(one, self.pattern) <= rows.fields]
        self.waiting = [one for one in self.waiting if one not in ready]
        return self._judged(rows, ready)

    def _judged(self, rows: MatchRows, conditions: Iterable[ir.Condition]) -> MatchRows:
        marked, tests = blocks.marked(self.job, rows, self.pattern, conditions, solve)
        return filtered(self.job, marked, tests) if tests else marked


def _is_one(conditions: Iterable[ir.Condition], key: str | None) -> bool:
    """Whether a condition names the key of a single node."""
    for one in conditions:
        match one:
            case ir.Compare(ir.PropertyOf() as read, "=", ir.Const() | ir.ParamRef()):
                if read.property == key and not read.type.is_list:
                    return True
            case _:
                pass
    return False

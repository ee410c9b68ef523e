"""Expressions over the rows of a match, with codes that agree between its batches.

    $a.city                   codes of the column of all cities, looked up by the code of $a
    $a.city + $b.city         a code for every text that has come up so far, in any batch

A code stands for a value (null is -1); groups are made of codes, and only those that are shown become values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.output.selection import Integers
from omnigraph.read.values.column import Column, Space
from omnigraph.read.values.expressions import (
    column_of,
    evaluate,
    has_path,
    type_of,
    variables_of,
)
from omnigraph.read.values.operands import Judge, OperandRows, Supply, is_worth_all
from omnigraph.read.values.other_spaces import OptionalSpace
from omnigraph.types import PropType


@dataclass(frozen=True, slots=True)
class RowSource:
    """Where the values of rows come from. ``nullable`` variables may be bound to nothing: they range over an
    ``OptionalSpace``."""

    spaces: Mapping[str, Space]
    params: Mapping[str, Any]
    nullable: frozenset[str] = frozenset()
    judge: Judge | None = None
    supply: Supply | None = None

    def rows(self, codes: Mapping[str, Codes], length: int) -> OperandRows:
        """These rows, as expressions read them."""
        return OperandRows(
            self.spaces, codes, self.params, length, judge=self.judge, supply=self.supply
        )


class RowValue:
    """A scalar or list expression in the rows of all batches.

    An expression over one variable is computed once for all its entities if the rows are many.
    """

    def __init__(self, expr: ir.Expr, source: RowSource) -> None:
        self.expr, self._source = expr, source
        self.variables = variables_of(expr)
        self._var = None if has_path(expr) else _only_variable(expr, self.variables, source)
        self._whole: Column | None = None
        self._batch: Bindings | None = None
        self.last: Column | None = None
        """The column that the latest rows were read from."""

    @property
    def is_by_row(self) -> bool:
        """Whether it is always computed row by row: it is about no variable, about several, or judged."""
        return self._var is None

    @property
    def is_text(self) -> bool:
        """Whether its values are texts, whose ranks compare within one column only."""
        return type_of(self.expr).scalar.is_text

    @property
    def is_wide(self) -> bool:
        """Whether its values are integers that leave no room for nulls among 64 bits."""
        return type_of(self.expr).scalar.fills_64_bits

    def read(self, batch: Bindings, few: bool) -> tuple[Column, Codes | None]:
        """The values by code, and the codes of the rows; or (None) the values row by row.

        ``few`` says that these are all the rows there are.
        """
        codes = None
        if self._is_worth_all(batch, few):
            assert self._var is not None
            if self._whole is None:
                space, source = self._source.spaces[self._var], self._source
                self._whole = column_of(self.expr, space, source.params, source.judge)
            column, codes = self._whole, batch.codes[self._var]
        elif self._batch is batch and self.last is not None:
            column = self.last
        else:
            column = evaluate(self.expr, self._source.rows(batch.codes, batch.count))
        self._batch, self.last = batch, column
        return column, codes

    def _is_worth_all(self, batch: Bindings, few: bool) -> bool:
        if self._var is None:
            return False
        if self._whole is not None or not few:
            return True
        return is_worth_all(batch.count, self._source.spaces[self._var].size)


def _only_variable(expr: ir.Expr, names: set[str], source: RowSource) -> str | None:
    """The variable by whose codes an expression can be read. Blocks and searches are judged of rows that have one."""
    if len(names) != 1 or (names & source.nullable and _is_judged(expr)):
        return None
    [name] = names
    return name if name in source.spaces else None


def _is_judged(tree: ir.Output | ir.Condition) -> bool:
    return isinstance(tree, ir.Exists | ir.TextMatch) or any(map(_is_judged, ir.parts_of(tree)))


class Coder(ABC):
    """Turns the values of rows into codes, and codes into values."""

    @abstractmethod
    def codes(self, batch: Bindings, few: bool) -> Codes:
        """The code of each row; null is -1."""

    @abstractmethod
    def ranks(self, codes: Codes) -> Integers:
        """Integers that sort like the values of these codes, null first; for codes of any batch so far."""

    @abstractmethod
    def values(self, codes: Codes, kind: pa.DataType) -> pa.Array:
        """The values of these codes."""


class RowValues:
    """The expressions that an answer is made of; none is computed twice."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self._known: list[RowValue] = []

    def of(self, expr: ir.Expr) -> RowValue:
        """An expression; equal ones are the same object."""
        # Constants may be lists, so expressions have no hashes.
        for known in self._known:
            if known.expr == expr:
                return known
        self._known.append(RowValue(expr, self._source))
        return self._known[-1]

    def coder(self, expr: ir.Output) -> Coder:
        """The coder of an expression; nodes, edges and shapes have the codes of their entities."""
        if isinstance(expr, ir.NodeId | ir.EdgeId | ir.Shape):
            return _Entities(expr, self._source)
        assert not isinstance(expr, ir.Score), "rankings are not grouped"
        return _Values(self.of(expr))


class _Entities(Coder):
    """Entities by identity."""

    def __init__(self, expr: ir.NodeId | ir.EdgeId | ir.Shape, source: RowSource) -> None:
        self._expr, self._space = expr, source.spaces[expr.var]
        self._is_nullable = expr.var in source.nullable

    def codes(self, batch: Bindings, few: bool) -> Codes:  # noqa: ARG002 - codes are there already
        codes = batch.codes[self._expr.var]
        if not self._is_nullable:
            return codes
        assert isinstance(self._space, OptionalSpace)
        return np.where(self._space.is_there(codes), codes, -1).astype(np.int32)

    def ranks(self, codes: Codes) -> Integers:
        if not self._is_nullable:
            return self._space.ranks(codes)
        ranks = np.full(len(codes), -1, np.int64)
        ranks[codes >= 0] = self._space.ranks(codes[codes >= 0])
        return ranks

    def values(self, codes: Codes, kind: pa.DataType) -> pa.Array:
        known = codes >= 0
        if not self._is_nullable or known.all():
            return entities_shown(self._expr, self._space, codes, kind)
        found = entities_shown(self._expr, self._space, codes[known], kind)
        places = np.cumsum(known) - 1
        return found.take(pa.array(places, mask=~known))


def entities_shown(
    expr: ir.NodeId | ir.EdgeId | ir.Shape, space: Space, codes: Codes, kind: pa.DataType
) -> pa.Array:
    """The ids of entities, or the objects that a shape makes of them."""
    if not isinstance(expr, ir.Shape):
        ids = space.ids(codes)
        return ids if ids.type == kind else ids.cast(kind)
    if expr.kind == "row":
        return space.values(expr.column, codes)
    fields = [kind.field(at) for at in range(kind.num_fields)]
    if not fields:
        # Made of no arrays, it would have no length.
        return pa.array([{}] * len(codes), kind)
    arrays = []
    for field in fields:
        values = space.values(field.name, codes) if len(codes) else pa.nulls(0, field.type)
        arrays.append(values if values.type == field.type else values.cast(field.type))
    return pa.StructArray.from_arrays(arrays, fields=fields)


class _Values(Coder):
    """Values by the dictionary of a column; of columns made row by row, by all values so far."""

    def __init__(self, value: RowValue) -> None:
        self._value = value
        self._known: pa.Array | None = None
        self._type: PropType | None = None
        self._ranks: Codes | None = None
        self._is_whole = False

    def codes(self, batch: Bindings, few: bool) -> Codes:
        column, at = self._value.read(batch, few)
        if at is not None:
            assert self._known is None or self._is_whole, "an expression is read in one way"
            self._is_whole, self._known = True, column.dictionary
            return column.codes[at]
        return self._numbered(column)

    def _numbered(self, column: Column) -> Codes:
        """The codes of a column that was made row by row: values have numbers in the order they come up."""
        distinct, self._type = column.dictionary, column.type
        if pa.types.is_floating(distinct.type):
            # Adding zero turns -0.0 into 0.0, of which there is one.
            distinct = pc.add(distinct, pa.scalar(0, distinct.type))
        if self._known is None:
            self._known = distinct
            return column.codes
        distinct = (
            distinct if distinct.type == self._known.type else distinct.cast(self._known.type)
        )
        found = _places(distinct, self._known)
        new = distinct.filter(found.is_null())
        numbers = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
        fresh = found.is_null().to_numpy(zero_copy_only=False)
        numbers[fresh] = len(self._known) + np.arange(len(new), dtype=np.int32)
        self._known, self._ranks = pa.concat_arrays([self._known, new]), None
        # One place more, at the end: where a null (-1) looks its code up.
        codes: Codes = np.append(numbers, np.int32(-1))[column.codes]
        return codes

    def ranks(self, codes: Codes) -> Integers:
        if self._is_whole or self._known is None:
            return codes
        if self._ranks is None:
            assert self._type is not None
            ranks = Column(self._type, self._known).codes
            self._ranks = np.append(ranks, np.int32(-1))
        return self._ranks[codes]

    def values(self, codes: Codes, kind: pa.DataType) -> pa.Array:
        if self._known is None or not len(codes):
            return pa.nulls(len(codes), kind)
        found = self._known.take(pa.array(codes, mask=codes < 0))
        return found if found.type == kind else found.cast(kind)


def _places(values: pa.Array, known: pa.Array) -> pa.Array:
    """Where each value stands among known ones, all of them different; null where it does not."""
    if not pa.types.is_nested(values.type):
        return pc.index_in(values, value_set=known)
    # Arrow looks up no lists.
    at = {repr(value): place for place, value in enumerate(known.to_pylist())}
    return pa.array([at.get(repr(value)) for value in values.to_pylist()], pa.int32())

"""Every operator and function of the language on columns, under the names of ``lang.query.functions``.

A kernel gets the type of its result and its arguments: columns of equal length, and values that are the same
for all rows. At least one is a column, none of the values is null, and a row in which an argument is null has
no value, except in ``coalesce``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.read.kernels.arrays import Mask
from omnigraph.read.values import date_functions, number_functions, text_functions
from omnigraph.read.values.column import Column
from omnigraph.read.values.derived import Computed
from omnigraph.read.values.number_functions import Argument, Numbers, reals, wholes, without
from omnigraph.read.values.operands import Given
from omnigraph.types import PropType

Kernel = Callable[..., Column]

SEES_NULLS = frozenset({"coalesce"})
"""The functions that may have a value where an argument has none; `if` is no kernel."""


def coalesce(type: PropType, *args: Argument) -> Column:
    """The first value that is not null."""
    args = tuple(one for one in args if not isinstance(one, Given) or one.value is not None)
    rows = max(len(one) for one in args if isinstance(one, Column))
    found = _as(type, args[-1], rows)
    for one in args[-2::-1]:
        if isinstance(one, Given):
            found = _as(type, one, rows)
        else:
            here = one.valid
            found = found if here is not None and not here.any() else _first(type, one, found)
    return found


def _first(type: PropType, one: Column, other: Column) -> Column:
    here = one.valid
    column = _as(type, one, len(one))
    return column if here is None else chosen(type, here, column, other)


def chosen(type: PropType, held: Mask, then: Column, otherwise: Column | None) -> Column:
    """One column where the mask holds, and the other, or null, elsewhere."""
    rows = len(held)
    if type.is_text or type.is_list or type.is_vector:
        kinds = {one.kind for one in (then, otherwise) if one is not None}
        wide = pa.large_string() in kinds
        arrays = [
            pa.nulls(rows, then.kind) if one is None else one.array for one in (then, otherwise)
        ]
        if wide:
            arrays = [one.cast(pa.large_string()) for one in arrays]
        return Column(type, pc.if_else(pa.array(held), *arrays))
    one = _as(type, then, rows)
    if otherwise is None:
        return Computed(type, one.numbers, held if one.valid is None else held & one.valid)
    two = _as(type, otherwise, rows)
    valid = [np.ones(rows, np.bool_) if side.valid is None else side.valid for side in (one, two)]
    return Computed(type, np.where(held, one.numbers, two.numbers), np.where(held, *valid))


def _as(type: PropType, arg: Argument, rows: int) -> Column:
    """An argument as a column of the result's type."""
    if isinstance(arg, Given):
        kind = arg.type.arrow_type()
        arg = Column(arg.type, pa.repeat(pa.scalar(arg.value, kind), rows))
    if arg.type.scalar is type.scalar or not type.is_numeric:
        return arg
    numbers: Numbers
    if type.is_float:
        return Computed(type, reals(arg).astype(type.arrow_type().to_pandas_dtype()), arg.valid)
    numbers, bad = wholes(arg)
    return Computed(type, numbers, without(arg.valid, bad))


KERNELS: dict[str, Kernel] = {
    "+": number_functions.add,
    "-": number_functions.subtract,
    "*": number_functions.multiply,
    "/": number_functions.divide,
    "%": number_functions.remainder,
    "neg": number_functions.negate,
    "to_f64": number_functions.to_f64,
    "abs": number_functions.absolute,
    "floor": number_functions.floor,
    "ceil": number_functions.ceil,
    "round": number_functions.round_half_away,
    "concat": text_functions.concat,
    "lower": text_functions.lower,
    "upper": text_functions.upper,
    "trim": text_functions.trim,
    "length": text_functions.length,
    "substring": text_functions.substring,
    "replace": text_functions.replace,
    "text": text_functions.text,
    "part": date_functions.part,
    "floor_date": date_functions.floor_date,
    "shift": date_functions.shift,
    "elapsed": date_functions.elapsed,
    "date": date_functions.date,
    "datetime": date_functions.datetime,
    "coalesce": coalesce,
}

"""Arrow tables as frames of the libraries people work with, and those libraries, if they are there."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadRequest

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def pandas_frame(table: pa.Table) -> pd.DataFrame:
    """The table as a pandas frame; integers and booleans keep their type beside missing values."""
    pandas = library("pandas", "to_pandas")
    kept = {
        "bool": pandas.BooleanDtype(),
        "int32": pandas.Int32Dtype(),
        "int64": pandas.Int64Dtype(),
        "uint32": pandas.UInt32Dtype(),
        "uint64": pandas.UInt64Dtype(),
    }
    return table.to_pandas(types_mapper=lambda kind: kept.get(str(kind)))


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """The table as a polars frame."""
    frame: pl.DataFrame = library("polars", "to_polars").from_arrow(table)
    return frame


def library(name: str, method: str, instead: str = "use to_arrow") -> Any:
    """Return a library that is not a dependency; refuse in words that say how to get it."""
    try:
        return import_module(name)
    except ImportError:
        raise BadRequest(
            f"{method} needs {name}, which is not installed; install it (pip install {name}), or "
            f"{instead}"
        ) from None

"""What lint says of the columns of a query, held against the columns that came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from omnigraph.lang.query.lint import lint
from omnigraph.lang.schema.catalog import Catalog

SCALARS: dict[str, Callable[[pa.DataType], bool]] = {
    "string": kinds.is_string,
    "bool": kinds.is_boolean,
    "int": lambda kind: kind in (pa.int32(), pa.uint32()),
    "bigint": lambda kind: kind in (pa.int64(), pa.uint64()),
    "float": kinds.is_floating,
    "date": kinds.is_date,
    "datetime": kinds.is_timestamp,
}


def check_descriptor(catalog: Catalog, source: str, name: str | None, table: pa.Table) -> None:
    """Fail unless the columns have the names, kinds and nulls that lint tells of the query."""
    report = lint(catalog, source)
    [linted] = [one for one in report.results if name is None or one.name == name][-1:]
    assert linted.failure is None, linted.failure
    assert linted.operation is not None
    told = linted.operation["result"]
    assert [column["name"] for column in told] == table.column_names
    for column in told:
        found = table.column(column["name"])
        assert fits(column, found.type), (column, found.type)
        if not column["nullable"]:
            assert found.null_count == 0, column
        check_values(column, found.to_pylist())


def fits(told: Mapping[str, Any], kind: pa.DataType) -> bool:
    """Whether a column that is described so may have this type."""
    if told["kind"] == "object":
        fields = list(kind) if kinds.is_struct(kind) else []
        return [field.name for field in fields] == [one["name"] for one in told["fields"]] and all(
            fits(one, field.type) for one, field in zip(told["fields"], fields, strict=True)
        )
    if told["kind"] == "vector":
        return kinds.is_fixed_size_list(kind) and kind.list_size == told["vector_dim"]
    if told["kind"] == "list":
        item = {**told, "kind": told["item_kind"]}
        return kinds.is_list(kind) and fits(item, kind.value_type)
    return SCALARS[told["kind"]](kind)


def check_values(told: Mapping[str, Any], values: Iterable[Any]) -> None:
    """No null inside of an object where its field is told to have none."""
    for value in values:
        if value is None or "fields" not in told:
            continue
        for one in value if isinstance(value, list) else [value]:
            for field in told["fields"]:
                assert field["nullable"] or one[field["name"]] is not None, (field, one)
                check_values(field, [one[field["name"]]])

"""The data of the load benchmarks: two fifths people, three fifths acquaintances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

SCHEMA = """
node Person { name: String @key  age: I32?  city: String?  @range(age, 0..150) }
edge Knows: Person -> Person { since: Date? }
"""
SPARK_SCHEMA = (
    "type string, edge string, `from` string, `to` string, "
    "data struct<name: string, age: int, city: string, since: date>"
)


def split(total: int) -> tuple[int, int]:
    """How many of the records are nodes, and how many edges."""
    nodes = total * 2 // 5
    return nodes, total - nodes


def write_lines(path: Path, total: int) -> Path:
    """The records as JSON lines; a file that is there already is used again."""
    if not path.exists():
        with path.open("w", encoding="utf-8") as file:
            file.writelines(_lines(total))
    return path


def _lines(total: int) -> Iterator[str]:
    nodes, edges = split(total)
    for n in range(nodes):
        data = f'{{"name": "person-{n}", "age": {n % 90}, "city": "city-{n % 977}"}}'
        yield f'{{"type": "Person", "data": {data}}}\n'
    for n in range(edges):
        ends = f'"from": "person-{n % nodes}", "to": "person-{n * 7919 % nodes}"'
        yield f'{{"edge": "Knows", {ends}, "data": {{"since": "2024-05-01"}}}}\n'


def write_columns(directory: Path, total: int) -> tuple[Path, Path]:
    """The same records as two Parquet files; edges have their ends in `from` and `to`."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    def named(prefix: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
        return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.utf8()), "-")

    count, edges = split(total)
    n, e = np.arange(count), np.arange(edges)
    people = {
        "name": named("person", n),
        "age": pa.array((n % 90).astype(np.int32)),
        "city": named("city", n % 977),
    }
    knows = {
        "from": named("person", e % count),
        "to": named("person", e * 7919 % count),
        "since": pa.array(np.full(edges, np.datetime64("2024-05-01"))),
    }
    paths = directory / "people.parquet", directory / "knows.parquet"
    for path, columns in zip(paths, (people, knows), strict=True):
        pq.write_table(pa.table(columns), path, row_group_size=250_000)
    return paths

"""Rows merged on the way are the rows they stand for, counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import omnigraph as og
from omnigraph.read.kernels import pairs
from omnigraph.read.kernels.csr import csr_of
from omnigraph.read.kernels.twins import in_numpy
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.listing import merging
from tests.read.csr_helpers import only


def random_csr(rng, rows, columns, count):
    ends = (rows * rng.random(count) ** 2).astype(np.int32), rng.integers(0, columns, count)
    return csr_of(ends[0], ends[1].astype(np.int32), (rows, columns))


@pytest.fixture(params=["numpy", "numba"], autouse=True)
def world(request, monkeypatch):
    only(request.param, monkeypatch)


@pytest.mark.parametrize("needed", [{"a"}, {"a", "d"}])
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_each_neighbour_of_a_group_once(needed, is_sorted, weighted):
    rng = np.random.default_rng(5)
    csr = random_csr(rng, 60, 40, 900)
    columns = {name: rng.integers(0, 9, 3000).astype(np.int32) for name in ("a", "d")}
    if is_sorted:
        order = np.lexsort((columns["d"], columns["a"]))
        columns = {name: column[order] for name, column in columns.items()}
    columns["b"] = rng.integers(0, 60, 3000).astype(np.int32)
    weights = rng.integers(1, 5, 3000) if weighted else None
    given = Bindings(3000, {name: columns[name] for name in (*sorted(needed), "b")}, weights)
    merged = merging.expand_merged(given, frozenset({*needed, "c"}), "b", csr, "c", 100)
    assert merged is not None
    found = Counter()
    for part in merged:
        assert part.codes.keys() == {*needed, "c"}
        rows = zip(*(part.codes[name].tolist() for name in sorted(part.codes)), strict=True)
        for row, weight in zip(rows, part.weights.tolist(), strict=True):
            found[row] += weight
    expected = Counter()
    for place in range(3000):
        for target in csr.indices[csr.indptr[columns["b"][place]] :][
            : csr.degrees[columns["b"][place]]
        ]:
            row = {**{name: columns[name][place] for name in needed}, "c": target}
            expected[tuple(int(row[name]) for name in sorted(row))] += (
                1 if weights is None else int(weights[place])
            )
    assert found == expected


def test_rows_that_would_hardly_meet_are_left_alone():
    rng = np.random.default_rng(6)
    csr = random_csr(rng, 2000, 100_000, 4000)
    codes = {name: np.arange(2000, dtype=np.int32) for name in ("a", "b")}
    rows = Bindings(2000, codes)
    assert merging.expand_merged(rows, frozenset({"a", "c"}), "b", csr, "c", 100) is None
    few = rows.at(slice(0, 10))
    assert merging.expand_merged(few, frozenset({"a", "c"}), "b", csr, "c", 100) is None


def test_sums_that_might_pass_64_bits_are_left_alone():
    csr = csr_of(np.zeros(2, np.int32), np.arange(2, dtype=np.int32), (1, 2))
    zeros = np.zeros(2000, np.int32)
    for weight, is_merged in ((2**40, True), (2**52, False)):
        rows = Bindings(2000, {"a": zeros, "b": zeros}, np.full(2000, weight))
        merged = merging.expand_merged(rows, frozenset({"a", "c"}), "b", csr, "c", 100)
        assert (merged is not None) == is_merged


def test_groups_that_only_together_pass_64_bits_are_merged():
    csr = csr_of(np.zeros(2, np.int32), np.arange(2, dtype=np.int32), (1, 2))
    groups = np.arange(500, dtype=np.int32).repeat(4)
    rows = Bindings(2000, {"a": groups, "b": np.zeros(2000, np.int32)}, np.full(2000, 2**58 + 1))
    merged = merging.expand_merged(rows, frozenset({"a", "c"}), "b", csr, "c", 10**6)
    assert merged is not None
    (found,) = merged
    assert found.codes["a"].tolist() == np.arange(500).repeat(2).tolist()
    assert found.weights.tolist() == [2**60 + 4] * 1000


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A graph in which each of 40 people knows each, themselves too."""
    names = [f"p{number}" for number in range(40)]
    schema = "node P { name: String @key } edge Knows: P -> P"
    with og.init(tmp_path_factory.mktemp("full") / "g", schema) as graph:
        people = [{"type": "P", "data": {"name": name}} for name in names]
        known = [{"edge": "Knows", "from": one, "to": other} for one in names for other in names]
        graph.load([*people, *known])
        yield graph


def around(length, shown):
    """A circle of so many people who know the next one."""
    known = " ".join(f"$v{at} knows $v{(at + 1) % length}" for at in range(length))
    return f"query q() {{ match {{ $v0: P {known} }} return {{ {shown} }} }}"


@pytest.mark.parametrize("length", [7, 11, 12, 13])
def test_counts_between_31_and_63_bits_are_exact(full, length):
    pairs = "$v0.name as a, $v1.name as b, count($v2) as ways"
    # Without merging this takes years.
    rows = full.query(around(length, pairs), timeout=300).rows
    assert {row["ways"] for row in rows} == {40 ** (length - 2)}
    assert len({(row["a"], row["b"]) for row in rows}) == 1600


def test_a_count_beyond_63_bits_is_refused(full):
    assert full.query(around(11, "count($v0) as ways")).rows == [{"ways": 40**11}]
    with pytest.raises(og.errors.ResourceLimit, match="the largest I64"):
        full.query(around(12, "count($v0) as ways"))


@pytest.mark.parametrize("cells", [150, 1 << 19])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_ways_between_pairs_are_counted_together(cells, weighted, is_sorted, monkeypatch):
    rng = np.random.default_rng(7)
    first, second = random_csr(rng, 50, 70, 600), random_csr(rng, 40, 70, 600)
    back = csr_of(
        second.indices, np.repeat(np.arange(40, dtype=np.int32), second.degrees), (70, 40)
    )
    a, b = rng.integers(0, 50, 5000), rng.integers(0, 40, 5000)
    a, b = (np.sort(a) if is_sorted else a).astype(np.int32), b.astype(np.int32)
    weights = rng.integers(0, 9, 70) if weighted else None
    expected = in_numpy(pairs.common_count)(first, a, second, b, weights)
    compared = []
    monkeypatch.setattr(
        merging.pairs, "common_count", lambda *given: compared.append(given) or expected
    )
    found = merging.common_counts(first, a, second, b, back, weights, cells=cells)
    assert found.tolist() == expected.tolist()
    # Pairs in no order are compared one by one where the table would not hold them all.
    assert bool(compared) == (cells == 150 and not is_sorted)

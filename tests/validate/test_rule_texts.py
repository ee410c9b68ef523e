"""The texts of the rules keep to the SQL that DuckDB and Spark read alike."""

from __future__ import annotations

import re

import pytest

from omnigraph.validate import moments, rules

TEXTS = {
    "taken ids": rules.taken_ids(),
    "repeated ids": rules.repeated_ids(),
    "losing records": rules.losing_records(),
    "winning rows": rules.winning_rows(),
    "unique within": rules.unique_within(("order", "userName")),
    "unique against": rules.unique_against(("order", "userName")),
    "endpoints": rules.missing_endpoints("src"),
    "endpoints, counted": rules.count_missing_endpoints(("src", "dst")),
    "stranded": rules.stranded_edges("dst", replaced=False),
    "stranded, replaced": rules.stranded_edges("dst", replaced=True),
    "touched": rules.touched_sources(),
    "touched, replaced": rules.touched_by_replacing(),
    "touched, replaced, deserted": rules.touched_by_replacing(deserted=True),
    "changed": rules.changed_ids(),
    "cardinality": rules.cardinality(1, 2, replaced_sources=False),
    "cardinality, replaced": rules.cardinality(0, None, replaced_sources=True),
    "later of id": rules.later_of_id(),
    "later of tuple": rules.later_of_tuple(("order", "userName")),
    "too many edges": rules.too_many_edges(2),
    "too few edges": rules.too_few_edges(1),
    "all orders": rules.all_orders(),
    "edges by tuple and beginning": rules.identified_edges(("src", "userName"), "order"),
    "misled by tuple and beginning": rules.misled_edges(("src", "userName"), "order"),
    "crowded tuples": moments.crowded_tuples(("order",), ("userName", "until"), 20),
    "rows of crowded tuples": moments.rows_of_tuples(("order",), ("userName", "until")),
    "crowded tuples, counted": moments.count_crowded_tuples(("order",), ("userName", "until")),
    "overlapping rows": moments.overlapping_rows(("order",), ("userName", "until")),
    "unique at one moment": moments.unique_against(("order",), ("userName", "until")),
    "cardinality at one moment": moments.cardinality(1, 2, ("userName", "until"), False),
    "sources with too many at one moment": moments.wrong_sources(1, 2, ("userName", "until")),
    "edges of such sources": moments.edges_of_wrong_sources(("userName", "until"), 2),
}

# What the two engines read differently, or one of them not at all.
DIFFER = (
    r"LEFT ANTI", r"<=>", r'"', r"//", r"\bDIV\b", r"\bMINUS\b", r"\bVARCHAR\b", r"\bTEXT\b",
    r"\\", r"\bregexp_", r"\bstarts_?with\b", r"\bstrpos\b", r"\bsha2", r"\bhash\b",
    r"\barray_agg\b", r"\bunnest\b", r"\bexplode\b", r"\bEXCLUDE\b", r"\bconcat\(", r"'", r"%",
)  # fmt: skip


@pytest.mark.parametrize("rule", TEXTS)
def test_no_construct_on_which_the_engines_differ(rule):
    for pattern in DIFFER:
        assert not re.search(pattern, TEXTS[rule], re.IGNORECASE), pattern


@pytest.mark.parametrize("rule", TEXTS)
def test_property_names_stand_in_backticks_and_other_names_in_small_letters(rule):
    bare = re.sub("`[^`]*`", "", TEXTS[rule])
    assert "userName" not in bare
    words = set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", bare))
    assert all(word.isupper() or word == word.lower() for word in words)


@pytest.mark.parametrize("rule", TEXTS)
def test_a_limited_answer_has_an_order(rule):
    text = re.sub(r"OVER \([^)]*\)", "", TEXTS[rule])
    assert ("LIMIT" in text) == ("ORDER BY" in text)

"""Questions about the values of columns, which set rules come down to."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.pipeline import rule_questions as questions
from omnigraph.pipeline.spark.rule_proof import answer


class Rows(questions.RowsPiece):
    """Rows of this process in place of a file."""

    __slots__ = ("table",)

    def __init__(self, **columns):
        object.__setattr__(self, "table", pa.table(columns))
        super().__init__(None, self.table.num_rows)

    def batches(self, columns):
        return iter(self.table.select(columns).to_batches(max_chunksize=3))


def values(*columns):
    """Pieces with these columns each."""
    names = [f"c{at}" for at in range(len(columns[0]))]
    pieces = [Rows(**dict(zip(names, some, strict=True))) for some in columns]
    return tuple(questions.ColumnValues(piece, tuple(names)) for piece in pieces)


def asked(kind, mine, others=((),), **more):
    """Ask, undivided and divided among tasks; both must answer the same."""
    question = questions.ValueQuestion(
        kind, values(*mine), values(*others) if others[0] else (), **more
    )
    answers = {any(answer(part) for part in question.divided(cores)) for cores in (1, 2, 5)}
    assert len(answers) == 1
    return answers.pop()


def test_values_that_repeat_are_found_wherever_they_are():
    texts = [f"v{n}" for n in range(10)]
    assert not asked("repeated", [[texts[:5]], [texts[5:]]])
    assert asked("repeated", [[texts], [["v3"]]])
    assert asked("repeated", [[["a", "b", "a"]]])
    # Tuples are compared as a whole, and a null exempts.
    assert not asked("repeated", [[["a", "a", "a", "a"], ["x", "y", None, None]]])
    assert asked("repeated", [[["a", "b", "a"], ["x", "x", "x"]]])
    assert not asked("repeated", [[pa.array([None, None], pa.utf8())]])
    # Equal though they are spelled unlike.
    assert asked("repeated", [[pa.array([0.0, 1.0, -0.0])]])
    assert not asked("repeated", [[pa.array([0.0, 1.0, -1.0])]])


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_values_may_come_as_often_as_is_said(most):
    for times in range(1, 5):
        found = asked("repeated", [[["x", "a", *["b"] * times]], [["y"]]], most=most)
        assert found == (max(times, 1) > most)


def test_values_are_divided_by_their_hashes(monkeypatch):
    monkeypatch.setattr(questions, "PART_ROWS", 2)
    texts = [f"v{n}" for n in range(10)]
    assert not asked("repeated", [[texts]])
    assert asked("repeated", [[[*texts, "v7"]]])


def test_values_among_others_and_values_that_are_missing():
    mine, others = [[["a", "b"]], [["c"]]], [[["c", "d"]], [["e"]]]
    assert asked("shared", mine, others)
    assert asked("shared", others, mine)
    assert not asked("shared", mine, [[["d", "e"]]])
    assert not asked("missing", mine, [[["a", "b"]], [["c", "d"]]])
    assert asked("missing", mine, [[["a", "b"]], [["d"]]])
    # As tuples, and a null is neither among others nor missing.
    assert not asked("shared", [[["a", "b", None], ["x", "y", "z"]]], [[["a", None], ["y", "z"]]])
    assert not asked("missing", [[["a", None]]], [[["a"]]])
    assert asked("missing", mine, [[pa.array([], pa.utf8())]])
    assert not asked("shared", mine, [[pa.array([], pa.utf8())]])

"""The exception tree as its users meet it: in other processes, in logs, under long lines."""

import copy
import pickle

import pytest

from omnigraph import errors
from omnigraph.errors import BadRequest, KeyConflict, OmniGraphError, ParseError, Span


def every_class(kind=OmniGraphError):
    yield kind
    for child in kind.__subclasses__():
        yield from every_class(child)


def example(kind):
    return kind("what happened", **{name: f"<{name}>" for name in kind.fields})


@pytest.mark.parametrize("kind", sorted(set(every_class()), key=lambda kind: kind.__name__))
@pytest.mark.parametrize("transport", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_a_copy_and_the_way_to_another_process(kind, transport):
    error = example(kind)
    arrived = transport(error)
    assert type(arrived) is kind
    assert str(arrived) == str(error)
    assert arrived.body() == error.body()


def test_a_source_error_keeps_its_place_and_its_snippet_on_the_way():
    error = ParseError(
        "no", span=Span(5, 6, 1, 6), source="node {}", filename="s.pg", hint="name it", extra=1
    )
    arrived = pickle.loads(pickle.dumps(error))
    assert arrived.render() == error.render()
    assert (arrived.span, arrived.hint, arrived.details) == (error.span, "name it", {"extra": 1})
    assert arrived.__notes__ == error.__notes__


def test_an_error_without_its_facts_is_a_mistake_of_the_product():
    with pytest.raises(TypeError, match="table_key"):
        KeyConflict("no", entity_id="1")
    assert BadRequest("no").details == {}


def place(text, start, end):
    """The error at a stretch of one line, as a person sees it: the line and the underline."""
    error = errors.ParseError("no", span=Span(start, end, 1, start + 1), source=text)
    *_, line, underline = error.render().split("\n")
    return line.removeprefix("1 | "), underline.removeprefix("  | ")


def test_a_long_line_is_cut_around_the_fault():
    text = "a" * 10_000 + "!!" + "b" * 10_000
    line, underline = place(text, 10_000, 10_002)
    assert len(line) < 210
    assert line.startswith("…a")
    assert line.endswith("b…")
    assert line[underline.index("^") : underline.index("^") + 2] == "!!"
    assert underline.count("^") == 2


def test_a_fault_longer_than_what_is_shown_is_underlined_to_the_cut():
    line, underline = place("x" * 10_000, 0, 10_000)
    assert len(line) == len(underline) < 210
    assert set(underline) == {"^"}


def test_a_short_line_is_shown_whole_and_tabs_stay_under_tabs():
    assert place("\tab\tc", 4, 5) == ("\tab\tc", "\t  \t^")
    assert place("ab", 0, 2) == ("ab", "^^")

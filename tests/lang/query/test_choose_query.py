"""Which query of a source runs, and through which entry point."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest, QueryNotFound
from omnigraph.lang.query.compile import choose
from omnigraph.lang.query.syntax.parser import parse

READ = "query find_all() { match { $x: T } return { $x } }"
WRITE = "query drop() { delete T where a = 1 }"


def test_by_name():
    file = parse(READ + WRITE)
    assert choose(file, "drop").name == "drop"
    assert choose(file, "find_all").name == "find_all"


@pytest.mark.parametrize("source", [READ, WRITE])
def test_the_only_query_needs_no_name(source):
    file = parse(source)
    assert choose(file) is file.queries[0]


def test_unknown_name():
    with pytest.raises(QueryNotFound) as caught:
        choose(parse(READ + WRITE), "nope")
    assert "'nope' not found" in caught.value.message
    assert "`find_all`" in caught.value.message
    assert caught.value.details["name"] == "nope"


def test_unknown_name_gets_the_nearest():
    with pytest.raises(QueryNotFound, match="did you mean `find_all`"):
        choose(parse(READ + WRITE), "findall")


def test_unknown_name_in_an_empty_source():
    with pytest.raises(QueryNotFound, match="'q' not found"):
        choose(parse(""), "q")


def test_an_empty_name_is_a_name():
    with pytest.raises(QueryNotFound, match="not found"):
        choose(parse(READ), "")


def test_several_queries_need_a_name():
    with pytest.raises(QueryNotFound) as caught:
        choose(parse(READ + WRITE))
    assert "name" in caught.value.message
    assert "`find_all`, `drop`" in caught.value.message


def test_no_query_at_all():
    with pytest.raises(QueryNotFound, match="no query"):
        choose(parse("// nothing"))


@pytest.mark.parametrize(("name", "want"), [("find_all", "read"), ("drop", "mutation")])
def test_the_right_entry_point(name, want):
    assert choose(parse(READ + WRITE), name, want).name == name


@pytest.mark.parametrize(
    ("source", "name", "want", "other"),
    [
        (WRITE, "drop", "read", "`mutate`"),
        (READ, "find_all", "mutation", "`query`"),
    ],
)
def test_the_wrong_entry_point(source, name, want, other):
    for asked in (name, None):
        with pytest.raises(BadRequest) as caught:
            choose(parse(source), asked, want)
        assert not isinstance(caught.value, QueryNotFound)
        assert f"`{name}`" in caught.value.message
        assert other in caught.value.message


ANONYMOUS = "match { $x: T } return { $x }"
CHANGE = "insert T { a: 1 }"


@pytest.mark.parametrize("source", [ANONYMOUS, READ + ANONYMOUS, WRITE + READ + ANONYMOUS])
def test_without_a_name_the_anonymous_query_runs(source):
    file = parse(source)
    assert choose(file) is file.queries[-1]
    assert choose(file).name is None


def test_a_name_chooses_among_the_declarations_before_an_anonymous_query():
    assert choose(parse(READ + ANONYMOUS), "find_all").name == "find_all"
    for name in ("nope", "None", ""):
        with pytest.raises(
            QueryNotFound, match=f"query '{name}' not found in the source; it holds `find_all`$"
        ):
            choose(parse(READ + ANONYMOUS), name)
    with pytest.raises(
        QueryNotFound, match="query 'q' not found in the source; it holds no query of a name"
    ):
        choose(parse(ANONYMOUS), "q")


def test_an_anonymous_query_has_an_entry_point_too():
    with pytest.raises(
        BadRequest, match="the query is a read and cannot run as a mutation; use `query`"
    ):
        choose(parse(ANONYMOUS), None, "mutation")
    with pytest.raises(
        BadRequest, match="the query is a mutation and cannot run as a read; use `mutate`"
    ):
        choose(parse(READ + CHANGE), None, "read")
    assert choose(parse(READ + CHANGE), None, "mutation").name is None

"""Loads that stop at a point: the points, what is loaded, and what must be there afterwards."""

from __future__ import annotations

from tests.stored import read_back

SCHEMA = """
node Person { name: String @key  age: I64? }
node Team { code: String @key }
edge In: Person -> Team @card(0..1)
"""
# Whether the load stands after its writer died there and the graph was opened again.
LOAD_POINTS = {
    "load.before_locks": False,
    "load.before_phase_a": False,
    "load.before_phase_b": False,
    "load.before_fork": False,
    "load.after_fork": False,
    "load.before_table_commit": False,
    "load.after_table_commit": False,
    "load.after_phase_b_before_phase_c": True,
    "publish.before_write": True,
    "publish.after_write": True,
    "publish.before_compact": True,
    "load.after_phase_c_before_phase_d": True,
}


def whole(name, age):
    """One record for each table, all of the same name."""
    return [
        {"type": "Person", "data": {"name": name, "age": age}},
        {"type": "Team", "data": {"code": name}},
        {"edge": "In", "from": name, "to": name, "data": {"id": f"in-{name}"}},
    ]


def content(graph, branch):
    """Ages of the people, codes of the teams, ends of the edges."""
    plain = read_back(graph, branch)
    ages = {name: row["age"] for name, row in plain.nodes["Person"].items()}
    ends = {row_id: (src, dst) for row_id, src, dst, _ in plain.edges["In"]}
    return ages, set(plain.nodes["Team"]), ends


def expected(ages):
    """The content of a graph into which every name was loaded whole."""
    return ages, set(ages), {f"in-{name}": (name, name) for name in ages}

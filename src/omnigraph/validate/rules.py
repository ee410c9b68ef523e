"""Set rules: SQL texts that DuckDB and Spark SQL read alike, and what their answers mean.

Frames by name in every text: `pend` the incoming rows, `gone` removed ids, `com` committed rows.
"""

from __future__ import annotations

from collections.abc import Sequence

LIMIT = 20

ALIVE = "NOT EXISTS (SELECT 1 FROM gone d WHERE d.id = c.id)"
UNTOUCHED = f"{ALIVE} AND NOT EXISTS (SELECT 1 FROM pend q WHERE q.id = c.id)"


def taken_ids() -> str:
    """Strict insert of an id that is there already."""
    return (
        f"SELECT p.id, p.__rec AS rec FROM pend p JOIN com c ON c.id = p.id WHERE {ALIVE} "
        f"ORDER BY p.__rec LIMIT {LIMIT}"
    )


def unique_within(members: Sequence[str]) -> str:
    """Two incoming rows with one tuple; a tuple with a null member is exempt."""
    names = ", ".join(_q(name) for name in members)
    present = " AND ".join(f"{_q(name)} IS NOT NULL" for name in members)
    return (
        f"SELECT MIN(id) AS other, MAX(id) AS id, MAX(__rec) AS rec, {names} FROM pend "
        f"WHERE {present} GROUP BY {names} HAVING COUNT(*) > 1 ORDER BY MAX(__rec) LIMIT {LIMIT}"
    )


def unique_against(members: Sequence[str]) -> str:
    """An incoming row with the tuple of a committed row that stays as it is."""
    names = ", ".join(f"p.{_q(name)}" for name in members)
    equal = " AND ".join(f"c.{_q(name)} = p.{_q(name)}" for name in members)
    return (
        f"SELECT p.id, c.id AS other, p.__rec AS rec, {names} FROM pend p JOIN com c ON {equal} "
        f"WHERE c.id <> p.id AND {UNTOUCHED} ORDER BY p.__rec LIMIT {LIMIT}"
    )


def missing_endpoints(side: str) -> str:
    """Incoming edges one end of which is no node after the change.

    Here `pend` are the edges, `nodes` incoming nodes, `com` committed ones, `gone` removed ids.
    """
    return (
        f"SELECT e.id, e.{side} AS node, e.__rec AS rec FROM pend e "
        f"WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = e.{side}) "
        f"AND NOT EXISTS (SELECT 1 FROM com c WHERE c.id = e.{side} AND {ALIVE}) "
        f"ORDER BY e.__rec LIMIT {LIMIT}"
    )


def stranded_edges(side: str, *, replaced: bool) -> str:
    """Committed edges that stay while the node at one end goes.

    Here `com` are the edges, `nodes` incoming nodes, `left` the ids of removed nodes.
    """
    lost = "" if replaced else f"AND EXISTS (SELECT 1 FROM left_nodes l WHERE l.id = c.{side}) "
    return (
        f"SELECT c.id, c.{side} AS node FROM com c WHERE {UNTOUCHED} "
        f"AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = c.{side}) {lost}"
        f"ORDER BY c.id LIMIT {LIMIT}"
    )


def touched_sources() -> str:
    """Sources that gain or lose an edge. Here `com` are the committed edges that change or go."""
    return (
        "SELECT DISTINCT src FROM (SELECT src FROM pend UNION ALL "
        "SELECT c.src FROM com c WHERE EXISTS (SELECT 1 FROM pend q WHERE q.id = c.id) "
        "OR EXISTS (SELECT 1 FROM gone d WHERE d.id = c.id)) u"
    )


def cardinality(low: int, high: int | None, *, replaced_sources: bool) -> str:
    """Touched sources whose number of edges is out of bounds after the change.

    Here `touched` are the sources, `com` committed edges of them, `left_nodes` removed source nodes,
    `nodes` incoming source nodes. Sources that go themselves are exempt.
    """
    above = "" if high is None else f" OR COUNT(l.id) > {high}"
    exempt = (
        "NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = t.src)"
        if replaced_sources
        else "EXISTS (SELECT 1 FROM left_nodes g WHERE g.id = t.src) "
        "AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = t.src)"
    )
    live = f"SELECT id, src FROM pend UNION ALL SELECT c.id, c.src FROM com c WHERE {UNTOUCHED}"
    return (
        f"SELECT t.src, COUNT(l.id) AS n FROM touched t LEFT JOIN ({live}) l ON l.src = t.src "
        f"WHERE NOT ({exempt}) GROUP BY t.src HAVING COUNT(l.id) < {low}{above} "
        f"ORDER BY t.src LIMIT {LIMIT}"
    )


def _q(name: str) -> str:
    return f"`{name}`"

"""Set rules: SQL that DuckDB and Spark SQL read alike, and what the answers mean.

Every text reads frames by these names: `pend` holds the incoming rows, `gone` removed ids, `com`
committed rows. Property names are quoted with backticks and never become column names of the
answer: the members of a unique group come back as `v0`, `v1`, and so on.

For example, ``unique_within(["email"])`` over the incoming rows

  id   0rec  email
  ann  1     a@x
  bob  2     b@x
  cy   3     a@x

answers one row: other_id ann, row_id cy, rec 3, v0 a@x.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.validate.change_set import SHOWN

ALIVE = "NOT EXISTS (SELECT 1 FROM gone d WHERE d.id = c.id)"
_LIVE_NODES = f"SELECT n.id FROM nodes n UNION ALL SELECT c.id FROM com c WHERE {ALIVE}"
_BROUGHT = "NOT EXISTS (SELECT 1 FROM com c WHERE c.id = p.id AND c.src = p.src)"
UNTOUCHED = f"{ALIVE} AND NOT EXISTS (SELECT 1 FROM pend q WHERE q.id = c.id)"


def taken_ids(limit: int | None = SHOWN) -> str:
    """Find incoming ids that exist already; for strict inserts."""
    return (
        f"SELECT p.id, p.`0rec` AS rec FROM pend p JOIN com c ON c.id = p.id WHERE {ALIVE} "
        f"ORDER BY rec{limited(limit)}"
    )


def repeated_ids() -> str:
    """Find ids that several incoming rows have, with their last record."""
    return (
        "SELECT id, MAX(`0rec`) AS rec FROM pend GROUP BY id HAVING COUNT(*) > 1 "
        f"ORDER BY rec LIMIT {SHOWN}"
    )


def later_of_id() -> str:
    """Find incoming records whose id an earlier record has."""
    return (
        "SELECT p.id, p.`0rec` AS rec FROM pend p JOIN "
        "(SELECT id, MIN(`0rec`) AS f FROM pend GROUP BY id HAVING COUNT(*) > 1) d "
        "ON d.id = p.id WHERE p.`0rec` > d.f"
    )


def later_of_tuple(members: Sequence[str]) -> str:
    """Find incoming rows with the tuple of an earlier row; the answer is that of ``unique_within``.

    Here `com` are the committed rows of incoming ids. A row that has its tuple already comes first.
    """
    names = ", ".join(quoted(name) for name in members)
    values = ", ".join(f"p.{quoted(name)} AS v{at}" for at, name in enumerate(members))
    present = " AND ".join(f"p.{quoted(name)} IS NOT NULL" for name in members)
    same, equal, first = (
        " AND ".join(f"{other}.{quoted(name)} = p.{quoted(name)}" for name in members)
        for other in "cdf"
    )
    return (
        "WITH held AS (SELECT p.*, CASE WHEN c.id IS NULL THEN p.`0rec` ELSE -1 END AS `0at` "
        f"FROM pend p LEFT JOIN com c ON c.id = p.id AND {same} WHERE {present}), "
        f"firsts AS (SELECT {names}, MIN(`0at`) AS `0at` FROM held "
        f"GROUP BY {names} HAVING COUNT(*) > 1) "
        f"SELECT f.id AS other_id, p.id AS row_id, p.`0rec` AS rec, {values} "
        f"FROM held p JOIN firsts d ON {equal} JOIN held f ON {first} AND f.`0at` = d.`0at` "
        "WHERE p.`0at` > d.`0at`"
    )


def all_orders() -> str:
    """Select the records of two frames together."""
    return "SELECT a.`0rec` FROM a UNION ALL SELECT b.`0rec` FROM b"


def losing_records() -> str:
    """Find incoming records that a later record of the same id replaces: the later record wins."""
    return (
        "SELECT p.`0rec` FROM pend p JOIN "
        "(SELECT id, MAX(`0rec`) AS last FROM pend GROUP BY id HAVING COUNT(*) > 1) d "
        "ON d.id = p.id WHERE p.`0rec` < d.last"
    )


def winning_rows() -> str:
    """Select the incoming rows without those of `losers`, the answer of ``losing_records``."""
    return (
        "SELECT p.* FROM pend p WHERE NOT EXISTS (SELECT 1 FROM losers l WHERE l.`0rec` = p.`0rec`)"
    )


def repeated_tuples(members: Sequence[str], *also: str) -> str:
    """Select the tuples of values that several incoming rows have; a tuple with a null member is exempt."""
    names = ", ".join(quoted(name) for name in members)
    present = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in members)
    chosen = ", ".join([names, *also])
    return f"SELECT {chosen} FROM pend WHERE {present} GROUP BY {names} HAVING COUNT(*) > 1"


def unique_within(members: Sequence[str], limit: int | None = SHOWN) -> str:
    """Find incoming rows that share one tuple of values; a tuple with a null member is exempt."""
    values = ", ".join(f"g.{quoted(name)} AS v{at}" for at, name in enumerate(members))
    ends = "MIN(`0rec`) AS `0first`", "MAX(`0rec`) AS `0last`"
    return (
        # Only the ids of the few repeated tuples are fetched: comparing all ids takes longer.
        f"WITH repeated AS ({repeated_tuples(members, *ends)}) "
        f"SELECT f.id AS other_id, l.id AS row_id, l.`0rec` AS rec, {values} FROM repeated g "
        "JOIN pend f ON f.`0rec` = g.`0first` JOIN pend l ON l.`0rec` = g.`0last` "
        f"ORDER BY rec{limited(limit)}"
    )


def sharing_rows(members: Sequence[str]) -> str:
    """Find the ids of all rows that share one tuple of values, the first ones, and how many there are."""
    equal = " AND ".join(f"g.{quoted(name)} = p.{quoted(name)}" for name in members)
    return (
        f"WITH repeated AS ({repeated_tuples(members)}) "
        f"SELECT p.id, COUNT(*) OVER () AS n FROM pend p JOIN repeated g ON {equal} "
        f"ORDER BY p.id{limited(SHOWN)}"
    )


def wrong_sources(low: int, high: int | None) -> str:
    """Find the sources of edges whose number of edges is out of bounds, the first ones, and how many there are."""
    return (
        "SELECT p.src AS id, COUNT(*) OVER () AS n FROM pend p "
        f"GROUP BY p.src HAVING {_out_of_bounds('COUNT(*)', low, high)} ORDER BY p.src{limited(SHOWN)}"
    )


def unique_against(members: Sequence[str], limit: int | None = SHOWN) -> str:
    """Find incoming rows with the tuple of a committed row that stays as it is."""
    values = ", ".join(f"p.{quoted(name)} AS v{at}" for at, name in enumerate(members))
    equal = " AND ".join(f"c.{quoted(name)} = p.{quoted(name)}" for name in members)
    return (
        f"SELECT p.id AS row_id, c.id AS other_id, p.`0rec` AS rec, {values} "
        f"FROM pend p JOIN com c ON {equal} WHERE c.id <> p.id AND {UNTOUCHED} "
        f"ORDER BY rec, other_id{limited(limit)}"
    )


def identified_edges(members: Sequence[str], since: str | None = None) -> str:
    """Find incoming edges with a generated id whose tuple identifies another edge, and that edge's id.

    The other edge is the committed edge with that tuple (`com`), or else the first incoming one. Their
    ids may be the same already. ``since`` belongs to the tuple, and its nulls are equal.
    """
    every = members if since is None else [*members, since]
    names = ", ".join(f"p.{quoted(name)}" for name in every)
    present = " AND ".join(f"p.{quoted(name)} IS NOT NULL" for name in members)
    first, stored = (_same_edge(members, since, other) for other in "fc")
    return (
        # Only the ids of the few repeated tuples are fetched: comparing all ids takes longer.
        f"WITH repeated AS (SELECT {names}, MIN(p.`0rec`) AS rec FROM pend p "
        f"WHERE {present} GROUP BY {names} HAVING COUNT(*) > 1), "
        "firsts AS (SELECT g.*, q.id FROM repeated g JOIN pend q ON q.`0rec` = g.rec) "
        "SELECT p.`0rec`, COALESCE(c.id, f.id) AS id FROM pend p "
        f"LEFT JOIN firsts f ON {first} LEFT JOIN com c ON {stored} "
        "WHERE p.`0made` AND (c.id IS NOT NULL OR f.rec <> p.`0rec`)"
    )


def _same_edge(members: Sequence[str], since: str | None, other: str) -> str:
    """Whether another row has the tuple of `p` that identifies an edge."""
    equal = [f"{other}.{quoted(name)} = p.{quoted(name)}" for name in members]
    if since is not None:
        equal.append(f"{other}.{quoted(since)} IS NOT DISTINCT FROM p.{quoted(since)}")
    return " AND ".join(equal)


def misled_edges(members: Sequence[str], since: str | None = None) -> str:
    """Find incoming edges whose generated id is the one of an edge with another tuple.

    Here `com` are committed edges with these tuples, `ids` committed edges with these ids. The answer
    has the first record of the tuple as well, whose place gives all of them a new id. Edges that take
    the id of a committed or earlier edge are not among them.
    """
    names = ", ".join(quoted(name) for name in (members if since is None else [*members, since]))
    same, first, stored = (_same_edge(members, since, other) for other in "hqc")
    return (
        f"WITH holders AS (SELECT id, {names} FROM ids UNION ALL SELECT id, {names} FROM pend "
        # A patch may leave the ends out: it says nothing about the tuple then.
        "WHERE NOT `0made` AND src IS NOT NULL AND dst IS NOT NULL), "
        "misled AS (SELECT DISTINCT p.`0rec` FROM pend p JOIN holders h ON h.id = p.id "
        f"WHERE p.`0made` AND NOT COALESCE({same}, FALSE)), "
        "firsts AS (SELECT p.`0rec`, MIN(q.`0rec`) AS rec FROM misled m "
        f"JOIN pend p ON p.`0rec` = m.`0rec` JOIN pend q ON {first} "
        f"WHERE NOT EXISTS (SELECT 1 FROM com c WHERE {stored}) GROUP BY p.`0rec`) "
        "SELECT f.`0rec`, f.rec FROM firsts f JOIN pend q ON q.`0rec` = f.rec WHERE q.`0made`"
    )


def made_ids_in_use() -> str:
    """Find incoming edges whose generated id another edge has: a committed one, or one whose record names it.

    Here `ids` are committed edges with these ids.
    """
    return (
        "SELECT DISTINCT p.`0rec`, p.`0rec` AS rec FROM pend p JOIN "
        "(SELECT id FROM ids UNION ALL SELECT id FROM pend WHERE NOT `0made`) h ON h.id = p.id "
        "WHERE p.`0made`"
    )


def other_ids() -> str:
    """Select the ids that records take, those of `misled` records instead of those of `taken`."""
    return (
        "SELECT t.`0rec`, t.id FROM taken t WHERE NOT EXISTS "
        "(SELECT 1 FROM misled m WHERE m.`0rec` = t.`0rec`) "
        "UNION ALL SELECT m.`0rec`, m.id FROM misled m"
    )


def with_taken_ids(others: Sequence[str]) -> str:
    """Select the incoming rows with their own ids replaced by those of `taken`, matched by record."""
    columns = ", ".join(f"p.{quoted(name)}" for name in others)
    return (
        f"SELECT COALESCE(t.id, p.id) AS id, {columns} FROM pend p "
        "LEFT JOIN taken t ON t.`0rec` = p.`0rec`"
    )


def count_missing_endpoints(sides: Sequence[str]) -> str:
    """Count the ends of incoming edges that are not nodes after the change.

    The frames are those of ``missing_endpoints``. One pass over the nodes serves both ends.
    """
    ends = " UNION ALL ".join(f"SELECT e.{side} AS node FROM pend e" for side in sides)
    return f"SELECT COUNT(*) AS n FROM ({ends}) t ANTI JOIN ({_LIVE_NODES}) l ON l.id = t.node"


def missing_endpoints(side: str, limit: int | None = SHOWN) -> str:
    """Find incoming edges one end of which is not a node after the change.

    Here `pend` are the edges, `nodes` incoming nodes, `com` committed nodes, `gone` removed ids.
    """
    return (
        f"SELECT e.id, e.{side} AS node, e.`0rec` AS rec FROM pend e "
        f"LEFT JOIN ({_LIVE_NODES}) l ON l.id = e.{side} WHERE l.id IS NULL "
        f"ORDER BY rec{limited(limit)}"
    )


def stranded_edges(side: str, limit: int | None = SHOWN, *, replaced: bool) -> str:
    """Find committed edges that stay although the node at one end is removed.

    Here `com` are the edges, `nodes` incoming nodes, `left_nodes` the ids of removed nodes.
    """
    lost = "" if replaced else f"AND EXISTS (SELECT 1 FROM left_nodes l WHERE l.id = c.{side}) "
    return (
        f"SELECT c.id, c.{side} AS node FROM com c WHERE {UNTOUCHED} "
        f"AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = c.{side}) {lost}"
        f"ORDER BY c.id{limited(limit)}"
    )


def edges_at_nodes(side: str) -> str:
    """Find committed edges (`com`) that stay as they are and have one of `nodes` at that end."""
    return f"SELECT c.id FROM com c JOIN nodes n ON n.id = c.{side} WHERE {UNTOUCHED}"


def touched_sources() -> str:
    """Find sources that gain or lose an edge. Here `com` are the committed edges that change or go."""
    return (
        "SELECT DISTINCT u.src FROM (SELECT p.src FROM pend p "
        "UNION ALL SELECT c.src FROM com c JOIN pend q ON q.id = c.id "
        "UNION ALL SELECT c.src FROM com c JOIN gone d ON d.id = c.id) u"
    )


def touched_by_replacing(*, deserted: bool = False) -> str:
    """Find sources that gain or lose an edge when all committed edges (`com`) are removed, and those of `deserted`."""
    others = " UNION ALL SELECT d.src FROM deserted d" if deserted else ""
    return (
        "SELECT DISTINCT u.src FROM "
        f"(SELECT p.src FROM pend p UNION ALL SELECT c.src FROM com c{others}) u"
    )


def changed_ids() -> str:
    """Select the ids of edges that are new, changed or removed."""
    return "SELECT p.id FROM pend p UNION ALL SELECT d.id FROM gone d"


def source_stays(replaced_sources: bool) -> tuple[str, str]:
    """Return the table of removed sources, and whether a touched source stays; frames as in ``cardinality``."""
    stays = (
        "EXISTS (SELECT 1 FROM nodes n WHERE n.id = t.src)"
        if replaced_sources
        else "NOT EXISTS (SELECT 1 FROM lost g WHERE g.id = t.src)"
    )
    lost = (
        "lost AS (SELECT g.id FROM left_nodes g "
        "WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = g.id))"
    )
    return lost, stays


def cardinality(
    low: int, high: int | None, replaced_sources: bool, limit: int | None = SHOWN
) -> str:
    """Find touched sources whose number of edges is out of bounds after the change.

    Here `touched` are the sources, `com` their committed edges, `left_nodes` removed source nodes,
    `nodes` incoming source nodes. Sources that are removed themselves are exempt.
    """
    lost, stays = source_stays(replaced_sources)
    return (
        f"WITH {lost}, "
        "live AS (SELECT p.id, p.src FROM pend p "
        f"UNION ALL SELECT c.id, c.src FROM com c WHERE {UNTOUCHED}) "
        "SELECT t.src, COUNT(l.id) AS n FROM touched t LEFT JOIN live l ON l.src = t.src "
        f"WHERE {stays} GROUP BY t.src "
        f"HAVING {_out_of_bounds('COUNT(l.id)', low, high)} "
        f"ORDER BY t.src{limited(limit)}"
    )


def too_many_edges(high: int) -> str:
    """Find the last records that bring an edge to a source which then has more than ``high``.

    Here `wrong` are the sources with their number of edges, `com` the committed rows of incoming ids.
    An edge that the source has already is none that a record brings.
    """
    return (
        "WITH brought AS (SELECT p.id, p.src, p.`0rec` AS rec, w.n, "
        "ROW_NUMBER() OVER (PARTITION BY p.src ORDER BY p.`0rec` DESC) AS place "
        f"FROM pend p JOIN wrong w ON w.src = p.src AND w.n > {high} WHERE {_BROUGHT}) "
        f"SELECT b.id, b.src, b.rec FROM brought b WHERE b.place <= b.n - {high}"
    )


def too_few_edges(low: int) -> str:
    """Find the record that makes a source have fewer than ``low`` edges; frames as above.

    That is the last one that takes an edge from it, or else the last one that brings it an edge.
    """
    return (
        "WITH moves AS (SELECT p.id, c.src, p.`0rec` AS rec, 0 AS kind "
        "FROM pend p JOIN com c ON c.id = p.id WHERE c.src <> p.src "
        f"UNION ALL SELECT p.id, p.src, p.`0rec` AS rec, 1 AS kind FROM pend p WHERE {_BROUGHT}), "
        "placed AS (SELECT m.id, m.src, m.rec, "
        "ROW_NUMBER() OVER (PARTITION BY m.src ORDER BY m.kind, m.rec DESC) AS place "
        f"FROM moves m JOIN wrong w ON w.src = m.src AND w.n < {low}) "
        "SELECT s.id, s.src, s.rec FROM placed s WHERE s.place = 1"
    )


def _out_of_bounds(count: str, low: int, high: int | None) -> str:
    return f"{count} < {low}" if high is None else f"({count} < {low} OR {count} > {high})"


def limited(rows: int | None) -> str:
    """Return the `limit` clause for this many rows, empty for None."""
    return "" if rows is None else f" LIMIT {rows}"


def quoted(name: str) -> str:
    """Return the name of a column as a query has it."""
    return f"`{name}`"

"""Set rules of types with a period: they count what holds at one moment.

The SQL is read by DuckDB and Spark alike, from the frames that ``validate/rules.py`` names. A row holds from its
first bound, included, to its second, excluded; null is open, and a row whose bounds are equal holds never. No
rule asks what time it is.

Rows are compared by sweeping over those with one tuple, ordered by when they begin: one of them overlaps an
earlier one if it begins before the latest end so far.

    since       until       latest end before    overlaps
    2019-01-01  2021-06-01                       no
    2021-06-01  null        2021-06-01           no
    2023-01-01  null        open                 yes
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.validate.change_set import SHOWN
from omnigraph.validate.rules import UNTOUCHED, limited, quoted, source_stays

Bounds = tuple[str, str]
"""The names of the two properties of a period."""


def holds_ever(row: str, bounds: Bounds) -> str:
    """Whether there is a moment at which a row holds."""
    since, until = (f"{row}.{quoted(name)}" for name in bounds)
    return f"NOT COALESCE({since} = {until}, FALSE)"


def overlap(one: str, other: str, bounds: Bounds) -> str:
    """Whether two rows, each of which holds at some moment, hold together at one."""
    since, until = map(quoted, bounds)
    return (
        f"COALESCE({one}.{since} < {other}.{until}, TRUE) "
        f"AND COALESCE({other}.{since} < {one}.{until}, TRUE)"
    )


def _swept(members: Sequence[str], bounds: Bounds, columns: str) -> str:
    """Select columns of the rows with a whole tuple, and whether another row with it holds beside them."""
    since, until = (f"p.{quoted(name)}" for name in bounds)
    names = ", ".join(f"p.{quoted(name)}" for name in members)
    present = " AND ".join(f"p.{quoted(name)} IS NOT NULL" for name in members)
    order = f"PARTITION BY {names} ORDER BY {since} NULLS FIRST, {until}"
    before = f"OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    return (
        f"SELECT {columns}, {since} AS `0since`, {until} AS `0until`, COUNT(*) {before} AS `0before`, "
        f"MAX({until}) {before} AS `0ended`, "
        f"MAX(CASE WHEN {until} IS NULL THEN 1 ELSE 0 END) {before} AS `0open`, "
        f"LEAD({since}) OVER ({order}) AS `0next`, COUNT(*) OVER (PARTITION BY {names}) AS `0all` "
        f"FROM pend p WHERE {present} AND {holds_ever('p', bounds)}"
    )


_OVERLAPS_EARLIER = (
    "(s.`0before` > 0 AND (s.`0since` IS NULL OR s.`0open` = 1 OR s.`0ended` > s.`0since`))"
)
_OVERLAPS_LATER = (
    "(s.`0before` + 1 < s.`0all` AND "
    "(s.`0until` IS NULL OR s.`0next` IS NULL OR s.`0next` < s.`0until`))"
)


def crowded_tuples(members: Sequence[str], bounds: Bounds, limit: int | None = None) -> str:
    """Find the tuples of which two incoming rows hold at one moment, those of the first records first."""
    names = ", ".join(quoted(name) for name in members)
    columns = ", ".join(f"p.{quoted(name)}" for name in members)
    return (
        f"SELECT {names}, MIN(`0first`) AS `0first` FROM "
        f"({_swept(members, bounds, f'{columns}, p.`0rec` AS `0first`')}) s "
        f"WHERE {_OVERLAPS_EARLIER} GROUP BY {names} ORDER BY `0first`{limited(limit)}"
    )


def rows_of_tuples(members: Sequence[str], bounds: Bounds) -> str:
    """Select the incoming rows of the tuples in `crowded` that hold ever, with the place at which each comes.

    Here `com` are the committed rows of incoming ids. A row that is as it was comes before all others.
    """
    equal = " AND ".join(f"g.{quoted(name)} = p.{quoted(name)}" for name in members)
    kept = " AND ".join(
        f"c.{quoted(name)} IS NOT DISTINCT FROM p.{quoted(name)}" for name in (*members, *bounds)
    )
    values = ", ".join(f"p.{quoted(name)} AS v{at}" for at, name in enumerate(members))
    since, until = map(quoted, bounds)
    return (
        f"SELECT p.id, p.`0rec` AS rec, {values}, p.{since} AS since, p.{until} AS until, "
        "g.`0first` AS tuple_no, CASE WHEN c.id IS NULL THEN p.`0rec` ELSE -1 END AS place "
        f"FROM pend p JOIN crowded g ON {equal} LEFT JOIN com c ON c.id = p.id AND {kept} "
        f"WHERE {holds_ever('p', bounds)}"
    )


def count_crowded_tuples(members: Sequence[str], bounds: Bounds) -> str:
    """Count rows that hold beside an earlier one with their tuple; `pend` is read once and needs no ids."""
    return (
        f"SELECT COUNT(*) AS n FROM ({_swept(members, bounds, '1 AS one')}) s "
        f"WHERE {_OVERLAPS_EARLIER}"
    )


def overlapping_rows(members: Sequence[str], bounds: Bounds) -> str:
    """Find the ids of all rows that hold beside another with their tuple, the first ones, and how many there are."""
    return (
        f"SELECT s.id, COUNT(*) OVER () AS n FROM ({_swept(members, bounds, 'p.id')}) s "
        f"WHERE {_OVERLAPS_EARLIER} OR {_OVERLAPS_LATER} ORDER BY s.id{limited(SHOWN)}"
    )


def unique_against(members: Sequence[str], bounds: Bounds, limit: int | None = SHOWN) -> str:
    """Find incoming rows that hold beside a committed row with their tuple that stays as it is."""
    values = ", ".join(f"p.{quoted(name)} AS v{at}" for at, name in enumerate(members))
    equal = " AND ".join(f"c.{quoted(name)} = p.{quoted(name)}" for name in members)
    return (
        f"SELECT p.id AS row_id, c.id AS other_id, p.`0rec` AS rec, {values} "
        f"FROM pend p JOIN com c ON {equal} WHERE c.id <> p.id AND {UNTOUCHED} "
        f"AND {holds_ever('p', bounds)} AND {holds_ever('c', bounds)} AND {overlap('p', 'c', bounds)} "
        f"ORDER BY rec, other_id{limited(limit)}"
    )


# ------------------------------------------------------------------ cardinality


def _peaks(bounds: Bounds) -> str:
    """Select the largest number of edges in `live` that a source has at one moment.

    Of what happens at one moment the ends count before the beginnings.
    """
    since, until = map(quoted, bounds)
    ever = holds_ever("l", bounds)
    return (
        f"SELECT r.src, MAX(r.n) AS n FROM (SELECT e.src, SUM(e.step) OVER (PARTITION BY e.src "
        "ORDER BY e.moment NULLS FIRST, e.step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n "
        f"FROM (SELECT l.src, l.{since} AS moment, 1 AS step FROM live l WHERE {ever} "
        f"UNION ALL SELECT l.src, l.{until} AS moment, -1 AS step FROM live l "
        f"WHERE l.{until} IS NOT NULL AND {ever}) e) r GROUP BY r.src"
    )


def _live(bounds: Bounds) -> str:
    """Select the edges of touched sources after the change; frames as in ``rules.cardinality``."""
    since, until = map(quoted, bounds)
    return (
        f"SELECT p.id, p.src, p.{since}, p.{until} FROM pend p "
        f"UNION ALL SELECT c.id, c.src, c.{since}, c.{until} FROM com c "
        f"WHERE EXISTS (SELECT 1 FROM touched t WHERE t.src = c.src) AND {UNTOUCHED}"
    )


def cardinality(
    low: int, high: int, bounds: Bounds, replaced_sources: bool, limit: int | None = SHOWN
) -> str:
    """Find touched sources with fewer stored edges than ``low``, or more than ``high`` at one moment."""
    lost, stays = source_stays(replaced_sources)
    return (
        f"WITH {lost}, live AS ({_live(bounds)}), peaks AS ({_peaks(bounds)}), "
        "counted AS (SELECT t.src, COUNT(l.id) AS n FROM touched t LEFT JOIN live l "
        f"ON l.src = t.src WHERE {stays} GROUP BY t.src) "
        f"SELECT s.src, CAST(CASE WHEN s.n < {low} THEN s.n ELSE k.n END AS BIGINT) AS n "
        "FROM counted s LEFT JOIN peaks k ON k.src = s.src "
        f"WHERE s.n < {low} OR k.n > {high} ORDER BY s.src{limited(limit)}"
    )


def wrong_sources(low: int, high: int, bounds: Bounds) -> str:
    """Find the sources of edges with fewer than ``low``, or more than ``high`` at one moment."""
    since, until = map(quoted, bounds)
    return (
        f"WITH live AS (SELECT p.src, p.{since}, p.{until} FROM pend p), peaks AS ({_peaks(bounds)}), "
        "counted AS (SELECT l.src, COUNT(*) AS n FROM live l GROUP BY l.src) "
        "SELECT s.src AS id, COUNT(*) OVER () AS n FROM counted s "
        "LEFT JOIN peaks k ON k.src = s.src "
        f"WHERE s.n < {low} OR k.n > {high} ORDER BY s.src{limited(SHOWN)}"
    )


def edges_of_wrong_sources(bounds: Bounds, high: int) -> str:
    """Select the edges that hold ever of sources in `wrong` with more than ``high`` at one moment.

    Here `com` are all committed edges of those sources, `before` the committed rows of incoming ids. An edge that
    is as it was, and a committed one that is not touched, has the place -1.
    """
    since, until = map(quoted, bounds)
    same = " AND ".join(
        f"b.{quoted(name)} IS NOT DISTINCT FROM p.{quoted(name)}" for name in bounds
    )
    is_kept = f"EXISTS (SELECT 1 FROM before b WHERE b.id = p.id AND b.src = p.src AND {same})"
    return (
        f"SELECT u.* FROM (SELECT p.id, p.src, p.{since} AS since, p.{until} AS until, "
        f"CASE WHEN {is_kept} THEN -1 ELSE p.`0rec` END AS place FROM pend p "
        f"WHERE {holds_ever('p', bounds)} "
        f"UNION ALL SELECT c.id, c.src, c.{since} AS since, c.{until} AS until, -1 AS place "
        f"FROM com c WHERE {UNTOUCHED} AND {holds_ever('c', bounds)}) u "
        f"JOIN wrong w ON w.src = u.src AND w.n > {high}"
    )

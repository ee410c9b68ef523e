"""What a load means, said with plain dicts: the oracle of the tests of modes and of skipped records.

A state is {type: {id: row}}; a row is a dict of its properties, and of its ends `from` and `to`. It
knows one schema, ``SCHEMA``. Ids that a load makes up are named after their record here.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import omnigraph as og
from omnigraph.errors import OmniGraphError
from tests.stored import read_back

SCHEMA = """
node Port { code: String @key }
node Ship {
  imo: String @key
  call: String? @unique
  rank: enum(mate, cook)
  age: I32?
  @range(age, 0..9)
}
edge Calls: Ship -> Port @card(1..2) { visits: I32?  day: I32?  @unique(src, dst) }
edge Moored: Ship -> Port @card(0..1) { note: String? }
"""
PROPERTIES = {
    "Port": ("code",),
    "Ship": ("imo", "call", "rank", "age"),
    "Calls": ("visits", "day"),
    "Moored": ("note",),
}
KEYS = {"Port": "code", "Ship": "imo"}
REQUIRED = {"Port": ("code",), "Ship": ("imo", "rank"), "Calls": ("from", "to"), "Moored": ("from", "to")}  # fmt: skip
UNIQUE = {"Ship": ("call",), "Calls": ("from", "to")}
BOUNDS = {"Calls": (1, 2), "Moored": (0, 1)}
ENDS = {"from": "Ship", "to": "Port"}

START = [
    {"type": "Port", "data": {"code": "p"}},
    {"type": "Port", "data": {"code": "q"}},
    {"type": "Ship", "data": {"imo": "a", "call": "x", "rank": "mate", "age": 3}},
    {"type": "Ship", "data": {"imo": "b", "rank": "cook"}},
    {"edge": "Calls", "from": "a", "to": "p", "data": {"id": "c1", "visits": 1, "day": 1}},
    {"edge": "Calls", "from": "a", "to": "q", "data": {"id": "c2"}},
    {"edge": "Calls", "from": "b", "to": "p", "data": {"id": "c3", "visits": 3}},
    {"edge": "Moored", "from": "a", "to": "p", "data": {"id": "m1", "note": "n"}},
]


class Refused(Exception):
    """The load changes nothing."""


def plain_load(
    start: dict[str, Any], records: list[dict[str, Any]], mode: str, on_bad: str
) -> tuple[dict[str, Any], set[int]]:
    """The state after a load, and the records that it left out."""
    load = _PlainLoad(start, records, mode)
    while True:
        found = load.offenders()
        if not found:
            return load.state(), load.out
        if on_bad == "fail":
            raise Refused
        load.out |= found


class _PlainLoad:
    def __init__(self, start, records, mode):
        self.start, self.records, self.mode = start, records, mode
        self.out: set[int] = set()
        self.types = [record.get("type") or record["edge"] for record in records]
        self.unreadable = {at for at in range(len(records)) if not self._is_readable(at)}
        self.ids = {at: self._id(at) for at in range(len(records)) if at not in self.unreadable}

    def given(self, at):
        record = self.records[at]
        ends = {end: record[end] for end in ENDS if end in record}
        return {**ends, **{k: v for k, v in record["data"].items() if k != "id"}}

    def _is_readable(self, at):
        given, kind = self.given(at), self.types[at]
        if any(given.get(name) == "wrong" for name in ("age", "visits")):
            return False
        if KEYS.get(kind) and given.get(KEYS[kind]) is None:
            return False
        return self.mode == "patch" or self._fits(kind, given)

    def _fits(self, kind, row):
        if any(row.get(name) is None for name in REQUIRED[kind]):
            return False
        return kind != "Ship" or not self._wrong(row)

    def _wrong(self, row):
        """The properties of a ship whose values no rule allows."""
        wrong = {"rank"} if row.get("rank") not in ("mate", "cook", None) else set()
        age = row.get("age")
        return wrong | ({"age"} if age is not None and not 0 <= age <= 9 else set())

    def _id(self, at):
        kind, data = self.types[at], self.records[at]["data"]
        if kind in KEYS:
            return data[KEYS[kind]]
        if "id" in data:
            return data["id"]
        if kind == "Calls" and self.mode in ("merge", "patch"):
            mine = self._ends(at)
            for id_, row in self.start["Calls"].items():
                if mine == (row["from"], row["to"]):
                    return id_
            alike = (
                other
                for other in range(at)
                if other not in self.unreadable
                and self.types[other] == kind
                and None not in mine
                and self._ends(other) == mine
            )
            for other in alike:
                return self._id(other)
        return f"new {at}"

    def _ends(self, at):
        return self.records[at].get("from"), self.records[at].get("to")

    # -- rows

    def rows(self):
        """By type and id: the final row, and the records that gave each of its values."""
        found = {kind: {} for kind in PROPERTIES}
        for at, id_ in self.ids.items():
            if at in self.out:
                continue
            kind = self.types[at]
            given = self.given(at)
            old = found[kind].get(id_)
            if self.mode == "patch":
                if old is None:
                    stored = self.start[kind].get(id_)
                    row = dict(stored) if stored else {}
                    old = (row, {}, at)
                row, givers, _ = old
                row.update(given)
                givers.update(dict.fromkeys(given, at))
                found[kind][id_] = (row, givers, at)
            else:
                found[kind][id_] = (given, dict.fromkeys(given, at), at)
        return found

    def order(self, kind, entry):
        """The record to blame for a rule about many rows."""
        _, givers, last = entry
        if self.mode != "patch":
            return last
        looked_at = ("from", "to") if kind in BOUNDS else UNIQUE.get(kind, ())
        return max((givers[name] for name in looked_at if name in givers), default=last)

    def state(self):
        after = copy.deepcopy(self.start)
        for kind, rows in self.rows().items():
            for id_, (row, _, _) in rows.items():
                names = (*(ENDS if kind in BOUNDS else ()), *PROPERTIES[kind])
                after[kind][id_] = {name: row.get(name) for name in names}
        return after

    # -- rules, in the order in which they are judged

    def offenders(self):
        self_evident = self.unreadable - self.out
        if self_evident:
            return self_evident
        rules = (self._repeated, self._broken_rows, self._taken, self._clashes, self._loose_ends,
                 self._counts)  # fmt: skip
        return next((found for rule in rules if (found := rule())), set())

    def _repeated(self):
        if self.mode != "append":
            return set()
        seen, found = set(), set()
        for at, id_ in self.ids.items():
            if at not in self.out:
                key = self.types[at], id_
                if key in seen:
                    found.add(at)
                seen.add(key)
        return found

    def _broken_rows(self):
        found = set()
        for kind, rows in self.rows().items() if self.mode == "patch" else ():
            for row, givers, last in rows.values():
                wrong = {name for name in REQUIRED[kind] if row.get(name) is None}
                wrong |= self._wrong(row) if kind == "Ship" else set()
                found |= {givers.get(name, last) for name in wrong}
        return found

    def _taken(self):
        if self.mode != "append":
            return set()
        return {
            at for at, id_ in self.ids.items()
            if at not in self.out and id_ in self.start[self.types[at]]
        }  # fmt: skip

    def _clashes(self):
        for kind, group in sorted(UNIQUE.items(), key=lambda item: item[0] == "Ship"):
            rows = self.rows()[kind]
            tuples = {}
            for id_, entry in rows.items():
                values = tuple(entry[0].get(name) for name in group)
                if None not in values:
                    stored = self.start[kind].get(id_)
                    has_it = stored and tuple(stored[name] for name in group) == values
                    place = -1 if has_it else self.order(kind, entry)
                    tuples.setdefault(values, []).append((place, id_))
            later = {at for held in tuples.values() for at, _ in sorted(held)[1:]}
            if later:
                return later
            stays = {
                tuple(row[name] for name in group)
                for id_, row in self.start[kind].items() if id_ not in rows
            }  # fmt: skip
            found = {held[0][0] for values, held in tuples.items() if values in stays}
            if found:
                return found
        return set()

    def _loose_ends(self):
        rows = self.rows()
        return {
            self.order(kind, entry)
            for kind in BOUNDS for entry in rows[kind].values() for end, of in ENDS.items()
            if entry[0][end] not in self.start[of] and entry[0][end] not in rows[of]
        }  # fmt: skip

    def _counts(self):
        for kind, (low, high) in sorted(BOUNDS.items()):
            rows, start = self.rows()[kind], self.start[kind]
            after = {id_: row["from"] for id_, row in start.items()}
            after |= {id_: entry[0]["from"] for id_, entry in rows.items()}
            touched = {entry[0]["from"] for entry in rows.values()}
            touched |= {start[id_]["from"] for id_ in rows if id_ in start}
            found = set()
            for source in touched:
                count = list(after.values()).count(source)
                brought, taken = [], []
                for id_, entry in rows.items():
                    before = start.get(id_, {}).get("from")
                    if entry[0]["from"] == source and before != source:
                        brought.append(self.order(kind, entry))
                    if before == source and entry[0]["from"] != source:
                        taken.append(self.order(kind, entry))
                if count > high:
                    found |= set(sorted(brought)[high - count :])
                elif count < low:
                    found.add(max(taken or brought))
            if found:
                return found
        return set()


# ------------------------------------------------------------------ the real thing beside it


def stored_state(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    """The same form, read from a graph."""
    plain = read_back(graph, branch)
    state: dict[str, Any] = {kind: dict(rows) for kind, rows in plain.nodes.items()}
    for kind, edges in plain.edges.items():
        state[kind] = {id_: {"from": src, "to": dst, **values} for id_, src, dst, values in edges}
    return state


def comparable(state: dict[str, Any]) -> dict[str, Any]:
    """A state without the ids that a load made up."""
    known = {"c1", "c2", "c3", "c4", "m1", "m2", "m3"}
    return {
        kind: sorted(
            json.dumps([id_ if kind in KEYS or id_ in known else None, row], sort_keys=True)
            for id_, row in rows.items()
        )
        for kind, rows in state.items()
    }


def check_load(graph, records, mode, on_bad, directory, files=1, **options):
    """Load records both ways and compare what is stored and what was left out.

    ``directory`` is for the input, in some files, and for the records that are left out.
    """
    before = stored_state(graph)
    try:
        wanted, left_out = plain_load(before, records, mode, on_bad)
    except Refused:
        wanted, left_out = None, set()
    places, sources = {}, []
    for number in range(files):
        sources.append(directory / f"{number}.jsonl")
        mine = range(number * len(records) // files, (number + 1) * len(records) // files)
        sources[-1].write_text("".join(json.dumps(records[at]) + "\n" for at in mine))
        places |= {(str(sources[-1]), line): at for line, at in enumerate(mine, start=1)}
    rejects = directory / "rejects"
    try:
        result = graph.load(sources, mode=mode, on_bad=on_bad, rejects=rejects, **options)
    except OmniGraphError as error:
        assert wanted is None, error
        assert comparable(stored_state(graph)) == comparable(before)
        return
    assert wanted is not None, "the load was accepted"
    entries = [json.loads(line) for line in rejects.read_text("utf-8").splitlines()]
    found = [places[entry["source"], entry["line"]] for entry in entries]
    assert found == sorted(left_out), entries
    assert [entry["record"] for entry in entries] == [records[at] for at in found]
    assert result.skipped == len(left_out)
    assert comparable(stored_state(graph)) == comparable(wanted)

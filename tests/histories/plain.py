"""Entities of the histories: their schema, random changes of them, and how the graph spells them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from tests.histories.model import ONE_AT_A_TIME, Conflict, Content, Key, crowded

PERSONS = [f"p{at}" for at in range(6)]
PLACES = [f"q{at}" for at in range(3)]
KNOWS = [f"k{at}" for at in range(6)]
LIVES = [f"l{at}" for at in range(4)]
KEYS = {"node:Person": "name", "node:Place": "code"}
MUTATIONS = """
query set_n($name: String, $n: I32) { update Person set { n: $n } where name = $name }
query set_note($name: String, $note: String) { update Person set { note: $note } where name = $name }
query set_size($code: String, $size: I32) { update Place set { size: $size } where code = $code }
query drop_person($name: String) { delete Person where name = $name }
query drop_place($code: String) { delete Place where code = $code }
query drop_knows($name: String) { delete Knows where from = $name }
query end_homes($name: String, $day: Date) { end LivesIn where from = $name at $day }
query end_held($name: String, $day: Date) {
  match { $p: Person { name: $name }  $p $e:livesIn $q } as of $day
  end $e at $day
}
query move($name: String, $code: String, $day: Date) {
  assert LivesIn { from: $name, to: $code } at $day
}
"""
DAYS = [f"2024-01-0{day}" for day in range(1, 7)]


def schema(epoch: int) -> str:
    """The schema after so many changes: each adds a property to Place."""
    extra = "".join(f"\n  extra{at}: I32?" for at in range(epoch))
    return (
        "node Person {\n  name: String @key\n  n: I32?\n  note: String?\n}\n"
        f"node Place {{\n  code: String @key\n  size: I32?{extra}\n}}\n"
        "edge Knows: Person -> Person { w: I32? }\n"
        "edge LivesIn: Person -> Place @card(0..1) {\n"
        "  since: Date?\n  until: Date?\n  @valid(since, until)\n}\n"
    )


def random_rows(rnd: Random, content: Content, epoch: int) -> Content:
    """Some entities to write; edges only between persons and places that are there then."""
    rows: Content = {}
    for _ in range(rnd.randint(1, 4)):
        if rnd.random() < 0.75:
            name = rnd.choice(PERSONS)
            rows["node:Person", name] = {
                "name": name,
                "n": rnd.choice([None, 1, 2]),
                "note": rnd.choice([None, "", "x"]),
            }
        else:
            code = rnd.choice(PLACES)
            extra = {f"extra{at}": rnd.choice([None, 5]) for at in range(epoch)}
            rows["node:Place", code] = {"code": code, "size": rnd.choice([None, 1]), **extra}
    there = content.keys() | rows.keys()
    persons = sorted(key[1] for key in there if key[0] == "node:Person")
    places = sorted(key[1] for key in there if key[0] == "node:Place")
    for _ in range(rnd.randint(0, 3)):
        if persons and rnd.random() < 0.45:
            ends = {"from": rnd.choice(persons), "to": rnd.choice(persons)}
            rows["edge:Knows", rnd.choice(KNOWS)] = {**ends, "w": rnd.choice([None, 1, 2])}
        elif persons and places:
            ends = {"from": rnd.choice(persons), "to": rnd.choice(places)}
            since, until = sorted(rnd.choice(DAYS) for _ in range(2))
            period = {"since": rnd.choice([None, since]), "until": rnd.choice([None, until, until])}
            home = {("edge:LivesIn", rnd.choice(LIVES)): {**ends, **period}}
            if not crowded({**content, **rows, **home}):
                rows |= home
    return rows


def random_mutation(rnd: Random, before: Content) -> tuple[str, dict[str, Any], Content]:
    person, place = rnd.choice(PERSONS), rnd.choice(PLACES)
    match rnd.choice(["set_n", "set_note", "set_size", "drop_person", "drop_place", "drop_knows"]):
        case "set_n":
            n = rnd.choice([None, 1, 2, 3])
            params = {"name": person, "n": n} if n else {"name": person, "n": 4}
            return "set_n", params, updated(before, ("node:Person", person), n=params["n"])
        case "set_note":
            text = rnd.choice(["", "x", "y"])
            return (
                "set_note",
                {"name": person, "note": text},
                updated(before, ("node:Person", person), note=text),
            )
        case "set_size":
            size = rnd.choice([1, 2])
            return (
                "set_size",
                {"code": place, "size": size},
                updated(before, ("node:Place", place), size=size),
            )
        case "drop_person":
            return "drop_person", {"name": person}, without(before, ("node:Person", person))
        case "drop_place":
            return "drop_place", {"code": place}, without(before, ("node:Place", place))
        case _:
            left = {
                key: image
                for key, image in before.items()
                if key[0] != "edge:Knows" or image["from"] != person
            }
            return "drop_knows", {"name": person}, left


def at_home(content: Content) -> list[str]:
    """The persons that live somewhere at some time."""
    return sorted({image["from"] for key, image in content.items() if key[0] == ONE_AT_A_TIME})


def read_content(lines: bytes) -> Content:
    """The content of an export."""
    content: Content = {}
    for line in lines.splitlines():
        record = json.loads(line)
        data = record["data"]
        row_id = data.pop("id")
        if "edge" in record:
            image = {"from": record["from"], "to": record["to"], **data}
            content[f"edge:{record['edge']}", row_id] = image
        else:
            content[f"node:{record['type']}", row_id] = data
    return content


def as_record(key: Key, image: Mapping[str, Any]) -> dict[str, Any]:
    """The record that loads an entity."""
    kind, _, name = key[0].partition(":")
    if kind == "node":
        return {"type": name, "data": dict(image)}
    rest = {k: v for k, v in image.items() if k not in {"from", "to"}}
    return {"edge": name, "from": image["from"], "to": image["to"], "data": {"id": key[1], **rest}}


def is_loose(key: Key, image: Mapping[str, Any], content: Content) -> bool:
    """Whether it is an edge without one of its ends."""
    if key[0].startswith("node:"):
        return False
    kind = "node:Person" if key[0] == "edge:Knows" else "node:Place"
    return ("node:Person", image["from"]) not in content or (kind, image["to"]) not in content


def updated(content: Content, key: Key, **values: Any) -> Content:
    """The content after an update, if there is such an entity."""
    return {**content, key: {**content[key], **values}} if key in content else content


def without(content: Content, key: Key) -> Content:
    """The content without a node and the edges at it."""
    left = {one: image for one, image in content.items() if one != key}
    return {one: image for one, image in left.items() if not is_loose(one, image, left)}


def conflicts_of(reported: Any) -> set[Conflict]:
    """The conflicts of a report, as the model has them."""
    found = set()
    for one in reported:
        record = one if isinstance(one, Mapping) else one.to_json()
        detail = record.get("detail") or {}
        found.add(
            Conflict(
                record["kind"],
                record["table_key"],
                record["row_id"],
                tuple(detail.get("properties", ())) if record["kind"] == "divergent_update" else (),
            )
        )
    return found


def images_of(changes: Any) -> dict[Key, tuple[Any, Any]]:
    """The changes of a diff, as the model has them."""
    found = {}
    for one in changes:
        record = one if isinstance(one, Mapping) else one.to_json()
        sides = tuple(
            None if image is None else {**(image.get("endpoints") or {}), **image["properties"]}
            for image in (record.get("before"), record.get("after"))
        )
        found[f"{record['kind']}:{record['type']}", record["id"]] = sides
    return found


def count_ops(changes: Mapping[Key, tuple[Any, Any]]) -> tuple[int, int, int]:
    """Inserts, updates and deletes."""
    inserts = sum(before is None for before, _ in changes.values())
    deletes = sum(after is None for _, after in changes.values())
    return inserts, len(changes) - inserts - deletes, deletes

"""A made-up supply chain of any size, always the same for the same numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

COUNTRIES = ("NO", "SE", "DE", "PL", "PT", "KR")
Record = dict[str, Any]


def chain(parts: int = 40, suppliers: int = 8, products: int = 6) -> Iterator[Record]:
    """Suppliers, parts that are made of later parts, products, and what joins them."""
    chance = random.Random(parts)
    for number in range(suppliers):
        rating = round(chance.uniform(2, 5), 1)
        country = COUNTRIES[number % len(COUNTRIES)]
        yield {
            "type": "Supplier",
            "data": {"code": f"s{number}", "country": country, "rating": rating},
        }
    for number in range(parts):
        stock = chance.randrange(0, 500)
        yield {
            "type": "Part",
            "data": {"sku": f"p{number}", "name": f"Part {number}", "stock": stock},
        }
    for number in range(products):
        data = {
            "code": f"x{number}",
            "name": f"Product {number}",
            "demand": chance.randrange(10, 90),
        }
        yield {"type": "Product", "data": data}
    raw = parts // 2  # the second half is bought, the first half is built from what comes after it
    for number in range(raw, parts):
        for supplier in chance.sample(range(suppliers), chance.choice((1, 1, 2, 3))):
            terms = {"price": round(chance.uniform(1, 50), 2), "days": chance.randrange(2, 40)}
            yield _edge("Supplies", f"s{supplier}", f"p{number}", terms)
    for number in range(raw):
        for part in chance.sample(range(number + 1, parts), min(2, parts - number - 1)):
            yield _edge("MadeOf", f"p{number}", f"p{part}", {"quantity": chance.randrange(1, 9)})
    for number in range(products):
        for part in chance.sample(range(raw), min(2, raw)):
            yield _edge("Needs", f"x{number}", f"p{part}", {"quantity": chance.randrange(1, 5)})


def new_prices(month: int, parts: int = 40, suppliers: int = 8) -> Iterator[Record]:
    """The supplies of a later month: the same edges, dearer."""
    for record in chain(parts, suppliers):
        if record.get("edge") == "Supplies":
            rise = 1 + 0.04 * month * ((int(record["from"][1:]) % 3) + 1) / 2
            yield record | {
                "data": record["data"] | {"price": round(record["data"]["price"] * rise, 2)}
            }


def _edge(name: str, from_: str, to: str, data: dict[str, Any]) -> Record:
    return {"edge": name, "from": from_, "to": to, "data": data}

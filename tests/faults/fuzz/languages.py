"""Texts that people write: schemas, queries, parameters."""

from __future__ import annotations

from pathlib import Path

from omnigraph import errors
from omnigraph.cli import shared_options as cli_source
from omnigraph.lang.query.compile import compile_query
from omnigraph.lang.query.params import bind
from tests.faults.fuzz.inputs import ODD_TEXTS, damaged, damaged_json
from tests.faults.fuzz.parser import Parser, parser
from tests.lang.query.fuzz_helpers import PIECES, answer
from tests.lang.query.schema_of_tests import catalog
from tests.lang.query.sources import SOURCES
from tests.lang.schema.fuzz_helpers import SEEDS, WORDS, check


@parser
def _schema_text(_place: Path) -> Parser:
    return Parser(lambda chance: damaged(chance, SEEDS, (*WORDS, *ODD_TEXTS)), check, ())


@parser
def _query_text(_place: Path) -> Parser:
    def read(text: str) -> None:
        if not isinstance(answer(text), errors.ParseError):
            compile_query(catalog(), text)

    refused = (errors.TypeCheckError, errors.ConstraintError, errors.QueryNotFound)
    return Parser(lambda chance: damaged(chance, QUERIES, (*PIECES, *ODD_TEXTS)), read, refused)


QUERIES = (
    *SOURCES,
    'query q($a: I32?) { match { $p: Person { rank: "junior" } $p.age > $a $p knows $x } return { $x.name } }',
    "query q($v: Vector(3)) { match { $d: Doc } return { $d.slug } order { nearest($d.vec, $v) } limit 3 }",
    'query w($d: Date) { insert Person { handle: "h", name: "n", rank: "senior", born: $d } }',
    'query w() { update Person set { age: 3 } where handle = "h" delete Knows where from = "h" }',
)
PARAMETERS = compile_query(
    catalog(),
    "query q($s: String, $i: I32?, $u: U64?, $f: F32?, $b: Bool?, $d: Date?, $t: DateTime?, $l: [I32]?, "
    "$v: Vector(3)?) { match { $p: Person { handle: $s } } return { $p.name } }",
).params
GOOD_PARAMETERS = {
    "s": "x",
    "i": 1,
    "u": 2**64 - 1,
    "f": 0.5,
    "b": True,
    "d": "2020-02-29",
    "t": "2020-02-29T12:00:00.123Z",
    "l": [1, 2],
    "v": [0.1, 0.2, 0.3],
}


@parser
def _parameters(_place: Path) -> Parser:
    def read(text: str) -> None:
        bind(PARAMETERS, cli_source.read_params(text, None))

    documents = [GOOD_PARAMETERS, {"s": ""}]
    refused = (errors.ParamError, errors.BadRequest)
    return Parser(lambda chance: damaged_json(chance, documents), read, refused)

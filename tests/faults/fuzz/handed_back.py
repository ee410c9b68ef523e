"""What callers hand back or name (tokens, resolutions, targets, addresses), and what providers answer."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from random import Random

from omnigraph import errors
from omnigraph.changes import cursors
from omnigraph.cli import shared_options as cli_source
from omnigraph.cli.address import scope
from omnigraph.cli.operator import config, credentials
from omnigraph.embeddings.http_calls import _explanation
from omnigraph.embeddings.http_clients import GeminiClient, OpenAiClient
from omnigraph.embeddings.pacing import CallLimits
from omnigraph.manifest.branch_names import check_branch_name, check_tag_name
from omnigraph.manifest.history.records import parse_filter
from omnigraph.manifest.snapshot import Target
from omnigraph.storage.blob_policy import NO_POLICY
from omnigraph.write.merge.resolutions import read_resolutions
from omnigraph.yaml_files import read_yaml
from tests.faults.fuzz.inputs import ODD_TEXTS, damaged, damaged_json
from tests.faults.fuzz.parser import GRAPH, ULID, Parser, parser
from tests.faults.fuzz.records import EVERY
from tests.pipeline.read_helpers import CATALOG

PLACE = cursors.ChangePlace.of("node", "Ship", "S1")
SCOPE = cursors.TokenScope(ULID, "review/may", "0b9f", cursors.filter_digest([]))
TOKENS = [
    cursors.CursorToken(SCOPE, ULID),
    cursors.FeedToken(SCOPE, ULID, ULID, SCOPE.filter, PLACE),
    cursors.CommitToken(ULID, SCOPE.filter, PLACE),
    cursors.DiffToken(ULID, ULID, SCOPE.filter, PLACE),
]
KINDS = [type(one) for one in TOKENS]


def _token(chance: Random) -> str:
    """A damaged token, or one with a wrong content and the right check sum: a caller can make it."""
    if chance.random() < 0.4:
        good = [cursors.write_token(GRAPH, one) for one in TOKENS]
        return damaged(chance, good, (*ODD_TEXTS, "=", "-", "_", "A", "A" * 5000))
    documents = [json.loads(cursors._json([one.kind, *astuple(one)])) for one in TOKENS]
    body = damaged_json(chance, documents).encode("utf-8", "surrogatepass")
    return cursors._encode(cursors._check(GRAPH, body) + body)


@parser
def _tokens(_place: Path) -> Parser:
    def read(text: str) -> None:
        for kind in KINDS:
            with suppress(errors.CursorRejected):
                found = cursors.read_token(GRAPH, text, kind)
                assert cursors.write_token(GRAPH, found)
                assert isinstance(found, kind)

    return Parser(_token, read, ())


RESOLUTIONS = [
    {"resolutions": [
        {"table_key": "node:Person", "row_id": "a", "take": "ours"},
        {"table_key": "node:Person", "row_id": "b", "image": None},
        {"table_key": "node:Person", "row_id": "c",
         "image": {"properties": {"name": "c", "age": 3, "email": None}}},
        {"table_key": "edge:Knows", "row_id": "k",
         "image": {"properties": {"since": "2020-01-01"}, "endpoints": {"from": "a", "to": "b"}}},
    ]},
    {"resolutions": [{"table_key": "node:Every", "row_id": "e", "image": {"properties": EVERY["data"]}}]},
]  # fmt: skip


@parser
def _resolutions(place: Path) -> Parser:
    file = place / "resolutions.json"

    def read(text: str) -> None:
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        given = cli_source.read_resolve(str(file))
        read_resolutions(CATALOG, given, NO_POLICY)

    refused = (errors.BadRequest, errors.InputError)
    return Parser(lambda chance: damaged_json(chance, RESOLUTIONS), read, refused)


WORDS_OF_TARGETS = ("main", "review/may", "main@3", f"commit:{ULID}", "tag:v1.0", " main @ 3 ")
TIMES = (
    "2020-02-29",
    "2020-02-29T12:00:00Z",
    "2020-02-29T12:00:00.123456+05:30",
    "2020-02-29 12:00",
)
ADDRESSES = (
    "/data/g",
    "file:///data/g",
    "s3://bucket/a/b",
    "s3a://bucket/a",
    "./g",
    "~/g",
    "http://h/g",
)
FILTERS = (
    "actor=ada",
    "branch=main",
    "operation=load",
    f"operation_id={ULID}",
    f"operation={ULID}",
)


@parser
def _targets(_place: Path) -> Parser:
    def read(text: str) -> None:
        for one in (
            Target.of_text,
            lambda time: Target.of(time=time),
            lambda tag: Target.of(tag=tag),
            lambda name: Target.of(snapshot=name),
            check_branch_name,
            check_tag_name,
            parse_filter,
            lambda text: scope("store", text, None, config.Operator()),
            lambda text: scope("server", text, None, config.Operator()),
            lambda text: scope("cluster", text, "g", config.Operator()),
        ):
            with suppress(errors.BadRequest):
                one(text)

    seeds = (*WORDS_OF_TARGETS, *TIMES, *ADDRESSES, *FILTERS)
    words = (*ODD_TEXTS, ":", "@", "/", "tag:", "commit:", "s3://", "file://", "T", "Z", "+", "..")
    return Parser(lambda chance: damaged(chance, seeds, words), read, ())


OPERATOR_FILES = [
    "operator: { actor: act-x }\nservers: { prod: { url: https://h/p } }\nclusters: { c: { root: s3://b/p } }\n",
    "profiles:\n  p: { server: prod, default_graph: g }\n  q: { store: /data/g }\n",
    "aliases: { t: { server: prod, graph: g, query: q, args: [a], params: { n: 1 }, format: table } }\n",
    "defaults: { output: table, store: g, table_max_column_width: 80, table_cell_layout: wrap }\n",
]


@parser
def _operator_file(place: Path) -> Parser:
    file = place / "config.yaml"

    def read(text: str) -> None:
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        parsed = config._File(file).parse(read_yaml(file))
        assert all(isinstance(fault, errors.BadRequest) for fault in parsed.faults.values())

    words = (
        *ODD_TEXTS,
        ": ",
        "- ",
        "{",
        "}",
        "[",
        "&a ",
        "*a",
        "!!str ",
        "? ",
        "|\n",
        "\t",
        "---\n",
        "<<: ",
    )
    return Parser(lambda chance: damaged(chance, OPERATOR_FILES, words), read, (errors.BadRequest,))


TOKEN_FILES = ["[prod]\ntoken = abc\n", "# mine\n[a-b]\ntoken=x\n[c]\ntoken = y=z\n"]


@parser
def _credentials(place: Path) -> Parser:
    def read(text: str) -> None:
        found = credentials._parse(place / "credentials", text.encode("utf-8", "surrogatepass"))
        assert all(isinstance(token, str) for token in found.values())

    words = (*ODD_TEXTS, "[", "]", "=", "token", "%(x)s", "\n", "[DEFAULT]\n", "[]\n")
    return Parser(lambda chance: damaged(chance, TOKEN_FILES, words), read, (errors.BadRequest,))


ANSWERS = [
    {"data": [{"embedding": [0.1, 0.2], "index": 1}, {"embedding": [0.3, 0.4], "index": 0}]},
    {"embeddings": [{"values": [0.1, 0.2]}, {"values": [0.3, 0.4]}]},
    {"error": {"message": "no such model"}},
]


@parser
def _provider_answer(_place: Path) -> Parser:
    limits = CallLimits.current()
    clients = [one("http://h", "m", "key", limits) for one in (OpenAiClient, GeminiClient)]

    def read(text: str) -> None:
        raw = text.encode("utf-8", "surrogatepass")
        assert _explanation(raw).isprintable()
        for client in clients:
            client._calls.post = lambda *_: raw  # type: ignore[method-assign]
            with suppress(errors.ProviderError):
                vectors = client.embed(["a", "b"], 2, "document")
                assert len(vectors) == 2
                assert all(type(one) is float for vector in vectors for one in vector)

    return Parser(lambda chance: damaged_json(chance, ANSWERS), read, ())

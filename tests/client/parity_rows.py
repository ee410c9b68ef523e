"""Command lines that must give the same on both sides of the command line, by the command they show.

A row is a line as a person types it behind `omnigraph COMMAND`, without the graph. `{load}` is the commit of
a load on `main`, `{side}` the last one of the branch `side`, `{head}` where `main` stood before any row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SCHEMA: Final = """\
node Person {
  name: String @key
  age: I64?
  bio: String?
  photo: Blob?
  vec: Vector(4)? @embed("bio")
  @range(age, 0..9007199254740999)
}
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
NEW_SCHEMA: Final = SCHEMA.replace("since: I32?", "since: I32? note: String?")
DROPPED: Final = NEW_SCHEMA.replace("node City { name: String @key }\n", "")
FILES: Final = {
    "people.jsonl": (
        '{"type": "Person", "data": {"name": "ann", "age": 30, "bio": "likes graphs"}}\n'
        '{"type": "Person", "data": {"name": "bob", "age": 9007199254740993, "photo": "base64:aGVsbG8="}}\n'
        '{"type": "Person", "data": {"name": "cy", "photo": "base64:"}}\n'
        '{"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k1", "since": 2020}}\n'
    ),
    "more.jsonl": '// two more\n{"type": "Person", "data": {"name": "dan", "age": 4}}',
    "edges.jsonl": '{"edge": "Knows", "from": "dan", "to": "ann", "data": {"id": "k2"}}\n',
    "bad.jsonl": (
        '{"type": "Person", "data": {"name": "eve", "age": "old"}}\n'
        '{"type": "Person", "data": {"name": "fay"}}\n'
    ),
    "people.csv": "Full;age;extra\ngus;5;x\nhal;?;y\n",
    "bare.csv": "ida,6\n",
    "knows.csv": "id,a,b\nk3,ann,cy\n",
    "reads.gq": (
        "query people() { match { $p: Person } return { $p.name as name, $p.age as age } "
        "order { name } }\n"
        "query one($n: String) { match { $p: Person { name: $n } } return { $p.name, $p } }\n"
        "query pairs() { match { $p: Person $q: Person $r: Person $s: Person } "
        "return { count($p) as n } }\n"
    ),
    "writes.gq": (
        "query add($n: String, $a: I64?) { insert Person { name: $n, age: $a } }\n"
        'query none() { delete Person where name = "nobody" }\n'
    ),
    "wrong.gq": "query q() {\n  match { $p: Persn }\n  return { $p.name }\n}\n",
    "broken.gq": "query q( {\n",
    "purge.txt": "Person=ann\nedge:Knows=k1\n",
    "params.json": '{"n": "ann"}',
    "new.pg": NEW_SCHEMA,
    "dropped.pg": DROPPED,
    "bad.pg": "node Person { name String\n",
    "photo.bin": "a picture",
    "resolve.json": '{"resolutions": []}',
}


@dataclass(frozen=True)
class Row:
    """One command line; ``out`` is a file that it writes. ``text``: it has no `--json`."""

    line: str
    stdin: str | None = None
    out: str | None = None
    text: bool = False


def _rows(*given: str | Row) -> list[Row]:
    return [one if isinstance(one, Row) else Row(one) for one in given]


OPERATION: Final = "01J0000000000000000000000"
NOWHERE: Final = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
TARGETS: Final = (
    "--branch side",
    "--branch main --at-version 2",
    "--at-time 2030-01-01",
    "--snapshot {load}",
    "--tag v1",
)

ROWS: Final[dict[str, list[Row]]] = {
    "query": _rows(
        "people --query reads.gq",
        *(f"people --query reads.gq {target}" for target in TARGETS),
        'one --query reads.gq --params \'{{"n": "bob"}}\'',
        "one --query reads.gq --params-file params.json",
        Row('one --query - --params \'{{"n": "cy"}}\'', stdin=FILES["reads.gq"]),
        "-e 'query q() {{ match {{ $p: City }} return {{ $p.name }} }}'",
        "--query-string 'query q() {{ match {{ $p: Person }} return {{ $p.name as n }} order {{ n }} }}' --max-rows 2",
        *(
            Row(f"people --query reads.gq --format {one}", text=True)
            for one in ("csv", "kv", "jsonl")
        ),
        "people --query reads.gq --timeout 1m",
        "people --query reads.gq --as-of 2020-01-01",
        "people --query reads.gq --as-of ever",
        # Failures.
        "people --query reads.gq --as-of soon",
        "--query reads.gq",
        "ghost --query reads.gq",
        "--query wrong.gq",
        "--query broken.gq",
        "-e ' '",
        "one --query reads.gq",
        "one --query reads.gq --params '{{\"n\": 7}}'",
        'one --query reads.gq --params \'{{"n": "x", "m": 1}}\'',
        "one --query reads.gq --params '[1]'",
        'add --query writes.gq --params \'{{"n": "x", "a": 1}}\'',
        "people --query reads.gq --branch ghost",
        "people --query reads.gq --tag ghost",
        f"people --query reads.gq --snapshot {NOWHERE}",
        "people --query reads.gq --branch main --at-version 999",
        "people --query reads.gq --at-time 1999-01-01",
        "people --query reads.gq --at-time soon",
        "people --query reads.gq --branch ' '",
        "people --query reads.gq --branch __x",
    ),
    "explain": _rows(
        "people --query reads.gq",
        "people --query reads.gq --profile",
        "people --query reads.gq --as-of 2020-01-01T10:00:00Z",
        *(f"people --query reads.gq {target}" for target in TARGETS),
        "one --query reads.gq --params-file params.json --timeout 1m",
        "-e 'query q() {{ match {{ $p: City }} return {{ $p.name }} }}' --params '{{}}'",
        "--query-string 'query q() {{ match {{ $p: City }} return {{ $p.name }} }}'",
        "add --query writes.gq",
        "--query wrong.gq",
        "people --query reads.gq --branch ghost",
    ),
    "mutate": _rows(
        'add --query writes.gq --params \'{{"n": "new", "a": 1}}\'',
        'add --query writes.gq --params \'{{"n": "big", "a": "9007199254740995"}}\' -m \'why not\'',
        f'add --query writes.gq --params \'{{{{"n": "once"}}}}\' --operation-id {OPERATION}1',
        f'add --query writes.gq --params \'{{{{"n": "once"}}}}\' --operation-id {OPERATION}1',
        "add --query writes.gq --params-file params.json --branch side --message 'on side'",
        "none --query writes.gq",
        "-e 'query q() {{ update Person set {{ age: 31 }} where name = \"ann\" }}' --if-commit {now}",
        "--query-string 'query q() {{ insert City {{ name: \"Rome\" }} }}'",
        "-e 'query q() {{ insert City {{ name: \"Oslo\" }} }}' --if-commit {load}",
        "-e 'query q() {{ insert City {{ name: \"Oslo\" }} }}' --if-commit nope",
        "-e 'query q() {{ insert City {{ name: \"Oslo\" }} }}' --branch ghost",
        "-e 'query q() {{ insert City {{ name: \"Oslo\" }} }}' --branch __x",
        "-e 'query q() {{ insert City {{ name: \"Oslo\" }} }}' --operation-id nope",
        "-e 'query q() {{ insert Person {{ name: \"x\", age: -1 }} }}'",
        '-e \'query q() {{ insert Knows {{ from: "ann", to: "ghost" }} }}\'',
        "-e 'query q() {{ insert Town {{ name: \"x\" }} }}'",
        "people --query reads.gq",
        "add --query writes.gq",
        f"none --query writes.gq --operation-id {OPERATION}1",
    ),
    "lint": _rows(
        "--query reads.gq",
        "--query writes.gq",
        Row("--query -", stdin=FILES["reads.gq"]),
        "--query wrong.gq",
        "--query broken.gq",
        "--query absent.gq",
    ),
    "load": _rows(
        "--data more.jsonl --mode merge",
        "--data more.jsonl --data edges.jsonl -m 'two files'",
        Row(
            "--data - --mode patch", stdin='{"type": "Person", "data": {"name": "ann", "age": 32}}'
        ),
        "--node Person people.csv --delimiter ';' --map Full=name --ignore-extra --null '?'",
        "--node Person bare.csv --no-header --names name,age --encoding utf-8",
        "--node City cities.parquet",
        "--node City cities.arrow",
        "--edge Knows knows.csv --from-col a --to-col b",
        "--data more.jsonl --branch made --from main",
        "--data more.jsonl --check",
        "--data bad.jsonl --on-bad skip --message 'some are bad'",
        f"--data more.jsonl --operation-id {OPERATION}2",
        f"--data more.jsonl --operation-id {OPERATION}2",
        "--data more.jsonl --if-commit {now} --embed",
        "--node City cities.parquet --mode overwrite --yes",
        "--node City cities.parquet --mode overwrite --check",
        # Failures.
        "--data more.jsonl --if-commit {load}",
        "--data more.jsonl --if-commit nope",
        "--data more.jsonl --mode append",
        "--data bad.jsonl",
        "--data bad.jsonl --check",
        "--data more.jsonl --branch ghost",
        "--data more.jsonl --branch made2 --from ghost",
        "--data absent.jsonl",
        "--node Town cities.parquet",
        "--node Person people.csv",
        "--edge Knows knows.csv",
        Row(
            "--data -",
            stdin='{"type": "Person", "data": {"name": "x", "photo": {"$file": "nowhere/x"}}}',
        ),
        Row("--data -", stdin="not JSON"),
        Row("--data -", stdin=""),
    ),
    "ingest": _rows(
        "--data more.jsonl --branch ingested",
        "--data more.jsonl --mode append",
        "--data bad.jsonl --from main",
    ),
    "embed": _rows(
        "--type Person --limit 1 -m 'a vector'",
        f"--branch main --operation-id {OPERATION}3 --message 'the rest'",
        "--type City",
        "--type Town",
        "--branch ghost",
    ),
    "branch create": _rows(
        "b1",
        "b2 --from side",
        "b3 --from tag:v1",
        "b4 --from commit:{load}",
        "b5 --from main@2",
        "b1",
        "main",
        "__x",
        "'a b'",
        "b6 --from ghost",
        "b6 --from tag:ghost",
        "b6 --from x:y",
    ),
    "branch list": _rows(""),
    "branch delete": _rows("made-first --yes", "made-first --yes", "main --yes", "ghost --yes"),
    "branch merge": _rows(
        "quick",
        "quick",
        "clash --dry-run",
        "clash --dry-run --images --granularity property",
        "clash",
        "clash --resolve-schema node:Person.name=ours",
        "clash --resolve ours -m decided",
        "done --delete-branch --yes --message away",
        f"later --into side --operation-id {OPERATION}4",
        "main",
        "ghost",
        "quick --into ghost",
        "clash2 --resolve resolve.json",
        "quick --dry-run --delete-branch",
    ),
    "tag create": _rows(
        "t1", "t2 side", "t3 commit:{load}", "t4 tag:v1", "t5 main@2", "t1", "t6 ghost", "'a b'"
    ),
    "tag list": _rows(""),
    "tag delete": _rows("old --yes", "old --yes", "ghost --yes"),
    "commit list": _rows(
        "",
        "--branch side --limit 2",
        "--filter operation=load",
        "--filter operation=load --filter actor=ada",
        f"--filter operation_id={NOWHERE}",
        "--branch ghost",
        "--filter nonsense",
        "--filter colour=red",
    ),
    "commit show": _rows("{load}", "{head}", NOWHERE, "x/../y", "%2e"),
    "commit changes": _rows(
        "{load}",
        "{load} --limit 2 --no-images",
        "{load} --kind node --type Person --op insert",
        "{load} --page-token nonsense",
        "{load} --limit 99999",
        NOWHERE,
    ),
    "commit revert": _rows(
        "{undone} --dry-run --images --granularity property",
        "{undone} -m undone",
        f"{{undone2}} --branch side --operation-id {OPERATION}5 --resolve theirs",
        "{undone} --resolve-schema mine",
        "{genesis}",
        f"{NOWHERE} --message x",
        "{undone} --branch ghost",
    ),
    "log": _rows(
        "",
        "--branch main --branch side",
        "--limit 2",
        "--before {load} --flat",
        "--branch ghost",
        f"--before {NOWHERE}",
    ),
    "changes poll": _rows(
        "--start beginning",
        "--start after:{load} --branch main",
        "--start beginning --kind node --type Person --op insert --no-images --limit 2",
        "--start now",
        "--cursor nonsense",
        "--start nonsense",
        "--start now --cursor x",
        "--branch ghost",
        "--limit 99999",
    ),
    "changes baseline": _rows(
        Row("--out base.jsonl", out="base.jsonl"),
        Row(
            "--out base.jsonl --branch side --kind node --type Person --op insert", out="base.jsonl"
        ),
        "--out base.jsonl --branch ghost",
        "--out base.jsonl --type Town",
        "--out absent/base.jsonl",
    ),
    "diff": _rows(
        "main side",
        "tag:v1 main --no-images",
        "commit:{load} main@2",
        "main side --kind node --type Person --op insert --limit 1",
        "main side --page-token nonsense",
        "main ghost",
        "main tag:ghost",
        "main x:y",
    ),
    "history": _rows(
        "node Person ann",
        "node Person ann --edges --limit 1",
        "edge Knows k1",
        *(f"node Person ann {target}" for target in TARGETS),
        "node Person ann --before {load}",
        # Failures.
        "node Person ghost",
        "node Town ann",
        "tree Person ann",
        "edge Knows k1 --edges",
        "node Person ann --limit 0",
        "node Person ann --limit 201",
        f"node Person ann --before {NOWHERE}",
        "node Person ann --branch ghost",
    ),
    "blame": _rows(
        "node Person ann",
        "node Person ann --edges",
        "edge Knows k1 --branch side",
        *(f"node Person ann {target}" for target in TARGETS),
        "node Person ghost",
        "node Town ann",
        "tree Person ann",
        "edge Knows k1 --edges",
        "node Person ann --tag ghost",
    ),
    "purge": _rows(
        "Person=ann",
        "Person=ann Person=nobody edge:Knows=k1 --reason request",
        "Town=ann",
        "Person=",
        "ann",
        "--from-file purge.txt --reason request",
        "--from-file ghost.txt",
        f"Person=nobody --confirm --yes --operation-id {OPERATION}7",
    ),
    "export": _rows(
        Row("", text=True),
        *(Row(f"--type Person {target}", text=True) for target in TARGETS),
        Row("--out all.jsonl", out="all.jsonl", text=True),
        Row("--output all.jsonl.gz --type City --type Knows", text=True),
        Row("--format jsonl", text=True),
        Row("--branch ghost", text=True),
        Row("--type Town", text=True),
        Row("--out absent/x.jsonl", text=True),
    ),
    "snapshot": _rows("", *TARGETS, "--branch ghost", "--tag ghost", f"--snapshot {NOWHERE}"),
    "status": _rows(""),
    "schema show": _rows("", "--clean", *TARGETS, "--branch ghost"),
    "schema diff": _rows("main side", "tag:v1 main", "main ghost", "main x:y"),
    "schema plan": _rows(
        "--schema new.pg",
        "--schema new.pg --check --branch side",
        "--schema new.pg --branch ghost",
        "--schema dropped.pg --allow-data-loss",
        "--schema bad.pg",
        "--schema absent.pg",
    ),
    "schema apply": _rows(
        "--schema same.pg",
        "--schema bad.pg",
        f"--schema new.pg -m 'a note' --operation-id {OPERATION}6",
        "--schema new.pg --branch ghost",
        "--schema dropped.pg --allow-data-loss --message x",
    ),
    "blob get": _rows(
        Row("node Person bob photo", text=True),
        Row("node Person bob photo --offset 1 --length 3", text=True),
        Row("node Person bob photo --offset 4 --length 99", text=True),
        Row("node Person cy photo", text=True),
        Row("node Person cy photo --length 9", text=True),
        *(Row(f"node Person bob photo {target}", text=True) for target in TARGETS),
        Row("node Person bob photo --out blob.bin", out="blob.bin", text=True),
        Row("node Person bob photo --offset 99", text=True),
        Row("node Person bob photo --length 0", text=True),
        Row("node Person bob photo --offset -1", text=True),
        Row("node Person ann photo", text=True),
        Row("node Person ghost photo", text=True),
        Row("node Person bob age", text=True),
        Row("node Town bob photo", text=True),
        Row("leaf Person bob photo", text=True),
    ),
    "blob stat": _rows(
        "node Person bob photo",
        "node Person cy photo",
        *(f"node Person bob photo {target}" for target in TARGETS),
        "node Person ann photo",
        "node Person bob age",
        "edge Knows k1 photo",
    ),
    "blob put": _rows(
        "node Person ann photo --data photo.bin -m picture",
        Row("node Person ann photo --data - --branch side", stdin="from stdin"),
        f"node Person ann photo --clear --operation-id {OPERATION}7 --message gone",
        "node Person bob photo --data photo.bin --if-commit {now}",
        "node Person bob photo --data photo.bin --if-match nonsense",
        "node Person bob photo --data photo.bin --if-commit {load}",
        "node Person bob photo --data photo.bin --if-commit nope",
        "node Person ghost photo --data photo.bin",
        "node Person bob age --data photo.bin",
        "node Person bob photo --data absent.bin",
        "node Person bob photo",
    ),
    "shell": _rows(
        Row(
            "",
            stdin="query q() { match { $p: Person } return { $p.name as n } order { n } }\n",
            text=True,
        ),
        Row(
            "--branch side",
            stdin='.branch\n.schema Person\n.params {"n": "ann"}\n.explain query q() { match { $c: City } '
            "return { $c.name } }\n.at tag:v1\nquery one($n: String) { match { $p: Person { name: $n } } "
            "return { $p.age } }\n.at\n.format csv\nquery q() { match { $c: City } return { $c.name as n } order { n } }\n"
            'query w() { insert City { name: "Bern" } }\n.load more.jsonl\n',
            text=True,
        ),
        Row("", stdin=".at commit:ghost\n", text=True),
        Row("", stdin="query q() { match { $p: Persn } return { $p.name } }\n", text=True),
        Row("--branch ghost", stdin="", text=True),
    ),
}
"""Every command that works on a graph wherever it is, with what it does and how it fails."""

ELSEWHERE: Final = {
    "mcp": "it speaks a protocol and ends with its caller: tests/mcp",
    "ui": "it serves a page until it is ended, or opens that of a server: tests/explorer",
}
"""Commands that answer with no document, with the reason and the place of their tests."""

ONE_SIDE: Final = {
    **dict.fromkeys(
        ("--rejects", "--engine", "--spark-master", "--spark-conf"),
        "a server refuses it; see below",
    ),
    "--schema": "lint with a file asks no graph",
    "--uri": "an older spelling of --store",
}
"""Options that have no other side, with the reason."""

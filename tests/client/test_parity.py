"""Every command of the manual gives the same on a graph that it opens and on one behind a server.

Each row of ``parity_rows`` runs twice, on two graphs with the same history. Exit codes, documents, texts,
files and errors are equal but for ids, times, addresses, and what it cost.
"""

import json
import re
import shlex
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli.command import COMMANDS
from tests.cli.running import Result
from tests.cli.test_manual import COMMANDS as DOCUMENTED
from tests.cli.test_manual import SHARED, mentioned, options, sections
from tests.client.parity_rows import ELSEWHERE, FILES, ONE_SIDE, ROWS, SCHEMA
from tests.client.serving import serving
from tests.sampling import runs_all

ANY = [
    name
    for name, command in COMMANDS.items()
    if command.capability == "any" and name not in ELSEWHERE
]
QUIET = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_UPKEEP": "0"}

#: Commands that need a graph without branches.
ALONE = {"schema apply"}
#: Commands that only fail where there is no graph.
CANNOT_FAIL = {"branch list", "tag list", "status"}

MASKS = (
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"etag [0-9a-f]{32}"), "ETAG"),
    (re.compile(r"cursor: \S+"), "CURSOR"),
)
#: Members that differ between any two graphs with the same history, or between two runs.
OWN = {
    *("salt", "at"),
    *("created_at", "authored_at", "graph_id", "etag", "last_optimize", "time"),
    *("cursor", "resume_cursor", "next_page_token"),
    *("schema_hash", "schema_hashes", "from_hash", "to_hash"),
    *("timings", "ms", "milliseconds", "bytes", "bytes_read", "rows_read", "candidates"),
    *("tables_skipped", "manifest_bytes", "bytes_by_branch", "manifest"),
    # What a server has in memory already.
    *("cached", "order", "order_unknown", "summed_away"),
    # Which id a write has, and what is kept under it: a server is always sent one.
    *("operation_id", "request"),
}


class Sides:
    """The same graph twice: one that the commands open, and one behind a server."""

    def __init__(self, launcher, place, url):
        self.launcher, self.place, self.url = launcher, place, url
        self.names = {side: marks(place / f"{side}.omni") for side in ("near", "far")}

    def run(self, side, command, row, *, as_json):
        names = (
            {**self.names[side], "now": self.head(side)}
            if "{now}" in row.line
            else self.names[side]
        )
        words = shlex.split(row.line.format(**names))
        address = (
            ["--store", "near.omni"] if side == "near" else ["--server", f"{self.url}/graphs/far"]
        )
        argv = [*command.split(), *words, *address, *(["--json"] if as_json else [])]
        result = self.launcher.run(argv, self.place, QUIET, row.stdin)
        assert "Traceback" not in result.stderr, result.stderr
        written = ""
        if row.out is not None and (path := self.place / row.out).exists():
            written = path.read_text("utf-8", errors="surrogateescape")
            path.unlink()
        return Ran(
            result, self.masked(side, result.stdout), self.masked(side, result.stderr), written
        )

    def head(self, side):
        with og.open(self.place / f"{side}.omni", mode="r") as graph:
            return graph.snapshot().graph_commit_id

    def masked(self, side, text):
        """The text without what is this graph's own."""
        for graph in (f"{side}-alone", side):
            for address in (f"{self.url}/graphs/{graph}", str(self.place / f"{graph}.omni")):
                text = text.replace(address, "URI")
            text = text.replace(f"{graph}.omni", "URI")
        for pattern, mask in MASKS:
            text = pattern.sub(mask, text)
        return text


@dataclass(frozen=True)
class Ran:
    """What came of a command line, without what is the graph's own."""

    result: Result
    stdout: str
    stderr: str
    written: str

    def beside(self, other):
        """What must be equal: its name, and what it was on both sides."""
        yield "exit", self.result.exit, other.result.exit
        if self.stdout.startswith("{"):
            yield "document", self.document(), other.document()
            # People read members in their order.
            yield "members", *(list(one.document()) for one in (self, other))
        else:
            yield "text", self.stdout, other.stdout
        yield "errors", self.errors(), other.errors()
        yield "file", self.written, other.written

    def document(self):
        try:
            return without_own(json.loads(self.stdout))
        except ValueError:  # lines of JSON
            return self.stdout

    def errors(self):
        # Where it writes is not said alike.
        told = ("omnigraph ",)
        return [line for line in self.stderr.splitlines() if not line.startswith(told)]


def without_own(value):
    if isinstance(value, dict):
        return {name: without_own(item) for name, item in value.items() if name not in OWN}
    return [without_own(item) for item in value] if isinstance(value, list) else value


def fill(uri):
    """Make the graph that the rows start with."""
    with og.init(uri, SCHEMA) as graph:
        graph.load(FILES["people.jsonl"].encode(), actor="ada", message="people")
        graph.tags.create("v1")
        graph.tags.create("old")
        graph.load([{"type": "City", "data": {"name": "Bonn"}}])
        for name in ("side", "quick", "clash", "clash2", "done", "later", "made-first"):
            graph.branches.create(name)
        graph.mutate('query q() { insert City { name: "Kiel" } }', branch="side")
        graph.mutate('query q() { insert City { name: "Ulm" } }', branch="side")
        for name in ("quick", "done", "later"):
            graph.mutate(f'query q() {{ insert City {{ name: "{name}" }} }}', branch=name)
        for name, age in (("clash", 41), ("clash2", 42)):
            graph.mutate(
                f'query q() {{ update Person set {{ age: {age} }} where name = "ann" }}',
                branch=name,
            )
        graph.mutate('query q() { update Person set { age: 40 } where name = "ann" }')
        graph.mutate('query q() { insert City { name: "Wien" } }')


def marks(uri):
    """The commits that rows name."""
    with og.open(uri, mode="r") as graph:
        chain = [commit.graph_commit_id for commit in graph.commits.list()]
        side = [commit.graph_commit_id for commit in graph.commits.list("side")]
    return {
        "head": chain[0],
        "undone": chain[0],
        "undone2": side[0],
        "load": chain[-2],
        "genesis": chain[-1],
        "side": side[0],
    }


@pytest.fixture(scope="module")
def sides(launcher, tmp_path_factory):
    """Two graphs with the same history, which rows change alike, and two without branches."""
    place = tmp_path_factory.mktemp("sides")
    for name, text in FILES.items():
        (place / name).write_text(text, "utf-8")
    (place / "same.pg").write_text(SCHEMA, "utf-8")
    cities = pa.table({"name": ["Rom", "Genf"]})
    pq.write_table(cities, place / "cities.parquet")
    with pa.ipc.new_file(str(place / "cities.arrow"), cities.schema) as out:
        out.write_table(cities)
    for side in ("near", "far"):
        fill(place / f"{side}.omni")
        with og.init(place / f"{side}-alone.omni", SCHEMA):
            pass
    served = [f"--graph={name}={name}.omni" for name in ("far", "far-alone")]
    with serving([*served, "--unauthenticated"], place, QUIET) as url:
        yield Sides(launcher, place, url)


def test_every_command_of_the_manual_has_rows():
    documented = {name.removeprefix("omnigraph ") for name in DOCUMENTED}
    wanted = {name for name in documented if COMMANDS[name].capability == "any"}
    assert wanted == ROWS.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("name", ANY)
def test_every_option_of_a_command_is_in_a_row(name):
    shown = options(DOCUMENTED[f"omnigraph {name}"])
    assert shown - SHARED <= mentioned(sections()[f"`omnigraph {name}`"])
    used = {word for row in ROWS.get(name, ()) for word in mentioned(row.line)}
    if name == "ingest":  # its options are those of load
        used |= {word for row in ROWS["load"] for word in mentioned(row.line)}
    assert shown - SHARED - ONE_SIDE.keys() <= used


def forms(name, at):
    """Whether a row is run with `--json`: of reads every other one, and `./dev faults --all` runs both forms."""
    if ROWS[name][at].text:
        return [False]
    # The texts of a status and a profile have sizes in bytes and times.
    is_measured = name in {"status", "explain"}
    if COMMANDS[name].writes or is_measured:
        return [True]
    return [True, False] if runs_all() else [at % 2 == 0]


@pytest.mark.parametrize("name", ANY)
def test_both_sides_give_the_same(name, sides):
    exits, differences = set(), []
    for at, row in enumerate(ROWS[name]):
        for as_json in forms(name, at):
            near, far = (sides.run(side, name, row, as_json=as_json) for side in ("near", "far"))
            exits.add(near.result.exit)
            told = [what for what, one, other in near.beside(far) if one != other]
            if told:
                both = (f"{one.result.stdout}{one.result.stderr}" for one in (near, far))
                differences.append(
                    f"{told} of $ omnigraph {name} {row.line}\n" + "---\n".join(both)
                )
    assert not differences, "\n\n".join(differences)
    assert 0 in exits
    assert exits - {0} or name in CANNOT_FAIL, f"{name} needs a row that fails"

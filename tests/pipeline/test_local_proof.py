"""The proof that all ends of edges exist says the same as the rules, without asking them."""

from random import Random

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ConstraintError
from omnigraph.pipeline.final_rows import FindFinalRows
from omnigraph.pipeline.local import local_engine, local_proof
from omnigraph.storage.tables.indexing.text_order import spelled_integers
from omnigraph.validate.change_set import ORDER
from tests.graphs import graph_of

SCHEMA = """
node A { name: String @key }
node B { name: String @key }
edge Loop: A -> A
edge Cross: A -> B
edge Few: A -> B @card(0..2)
edge Once: A -> B { @unique(src, dst) }
edge Wide: A -> A { text: String? }
"""
TYPES = {"I32": pa.int32(), "I64": pa.int64(), "U32": pa.uint32(), "U64": pa.uint64()}
POOLS = [
    [str(number) for number in range(300)],
    [str(number) for number in range(0, 10**9, 10**7)],
    ["7", "07", "+7", "-7", "7 ", "٧", "0", "00", "", "9" * 30],
    ["a", "A", "é", "e\u0301", "", "a\x00", "🜁", "0x7", "z" * 40],
]


@pytest.fixture(autouse=True)
def _from_the_first_edge_on(monkeypatch):
    monkeypatch.setattr(local_proof, "FEW_EDGES", 0)
    monkeypatch.setattr(local_proof, "KEY_LIMIT", 0)
    monkeypatch.setattr(local_proof, "COMPARED_ROWS", 100)


@pytest.fixture
def proofs(monkeypatch):
    """What the proofs of a test said."""
    said = []

    def watched(*asked):
        said.append(local_proof.proves_rules(*asked))
        return said[-1]

    monkeypatch.setattr(local_engine, "proves_rules", watched)
    return said


graph = graph_of(SCHEMA)


def nodes(graph, name, ids):
    graph.load_nodes(name, pa.table({"name": pa.array(ids, pa.utf8())}), mode="append")


def edges(graph, name, pairs, **options):
    src, dst = zip(*pairs, strict=True)
    frame = pa.table({"src": pa.array(src, pa.utf8()), "dst": pa.array(dst, pa.utf8())})
    options = {"mode": "append", **options}
    return graph.load_edges(name, frame, from_col="src", to_col="dst", **options)


def is_refused(graph, name, pairs):
    try:
        edges(graph, name, pairs, check=True)
    except ConstraintError:
        return True
    return False


@pytest.mark.sampled(6, every=())
@pytest.mark.parametrize("seed", range(60))
def test_a_proof_holds_exactly_if_no_rule_is_broken(monkeypatch, graph, proofs, seed):
    random = Random(seed)
    pools = [[name for name in random.choice(POOLS) if name] for _ in range(2)]
    known = [random.sample(pool, max(1, len(pool) * 3 // 4)) for pool in pools]
    nodes(graph, "A", known[0])
    nodes(graph, "B", known[1])
    name = random.choice(["Loop", "Cross"])
    targets = known[0] if name == "Loop" else known[1]
    wanted = [
        (random.choice(known[0]), random.choice(targets)) for _ in range(random.choice([1, 500]))
    ]
    if random.random() < 0.5:
        everything = [name for pool in POOLS for name in pool]
        at, side = random.randrange(len(wanted)), random.randrange(2)
        pair = list(wanted[at])
        pair[side] = random.choice(everything)
        wanted[at] = tuple(pair)
    there = all(src in known[0] and dst in targets for src, dst in wanted)
    assert is_refused(graph, name, wanted) is not there
    assert proofs.pop() is there
    with monkeypatch.context() as only_rules:
        only_rules.setattr(local_engine, "proves_rules", lambda *_: False)
        assert is_refused(graph, name, wanted) is not there


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("I32", [-7, 0, 7]),
        ("I64", range(0, 900, 3)),
        ("I64", [-7]),
        ("U32", [0, 5, 2**31 - 1]),
        ("U64", [7, 2**64 - 1]),
    ],
)
def test_integer_keys_are_looked_up_as_they_are_stored(tmp_path, proofs, kind, numbers):
    schema = f"node N {{ old: {kind} @key }}\nedge Link: N -> N"
    with omnigraph.init(tmp_path / "graph", schema) as graph:
        graph.load_nodes("N", pa.table({"old": pa.array(numbers, TYPES[kind])}), mode="append")
        graph.schema.apply(
            f'node N {{ number: {kind} @key @rename_from("old") }}\nedge Link: N -> N'
        )
        known = [str(number) for number in numbers]
        edges(graph, "Link", [(one, known[0]) for one in known])
        assert proofs.pop() is True
        for other in ("1", "-1", "-7", "07", "+7", "7.0", "a", "", str(2**64), known[-1] + "0"):
            if other not in known:
                assert is_refused(graph, "Link", [(known[0], known[0]), (known[-1], other)])


def test_nodes_of_the_same_load_and_other_rules_are_left_to_the_rules(graph, proofs):
    nodes(graph, "A", ["1", "2"])
    nodes(graph, "B", ["1", "2"])
    for name in ("Few", "Once"):
        edges(graph, name, [("1", "2"), ("2", "1")])
    edges(graph, "Cross", [("1", "2")], mode="merge")
    edges(graph, "Cross", [("1", "2")], mode="overwrite")
    assert not any(proofs)
    lines = '{"type": "A", "data": {"name": "3"}}\n{"edge": "Loop", "from": "3", "to": "3"}\n'
    graph.load(lines.encode(), mode="append")
    assert not any(proofs)
    edges(graph, "Loop", [("3", "1")])
    assert proofs[-1]
    with pytest.raises(ConstraintError, match="@unique"):
        edges(graph, "Once", [("1", "2")])


def test_few_edges_are_looked_up_instead(monkeypatch, graph, proofs):
    monkeypatch.setattr(local_proof, "FEW_EDGES", 1000)
    monkeypatch.setattr(local_proof, "KEY_LIMIT", 10_000)
    nodes(graph, "A", [str(number) for number in range(3000)])
    edges(graph, "Loop", [("1", "2")] * 1000)
    assert proofs.pop() is False
    edges(graph, "Loop", [("1", "2")] * 1500)
    assert proofs.pop() is True


def test_too_many_texts_are_left_to_a_query_that_can_spill(monkeypatch, graph, proofs):
    monkeypatch.setattr(local_proof, "MOST_TEXTS", 1)
    nodes(graph, "A", ["a", "b"])
    edges(graph, "Loop", [("a", "b")])
    assert proofs.pop() is False


def test_a_node_that_is_deleted_meanwhile_is_missed(monkeypatch, graph):
    """The tables that the proof read must be the same when the load is published."""
    nodes(graph, "A", ["1", "2"])
    gone = []

    def deletes(*asked):
        said = local_proof.proves_rules(*asked)
        if not gone:
            gone.append(said)
            graph.mutate('query q() { delete A where name = "2" }')
        return said

    monkeypatch.setattr(local_engine, "proves_rules", deletes)
    with pytest.raises(ConstraintError, match="A not found"):
        edges(graph, "Loop", [("1", "2")])
    assert gone == [True]


def test_integers_are_read_only_as_they_are_spelled():
    assert spelled_integers(pa.array(["0", "7", "123456789012345678"])).tolist() == [
        0,
        7,
        123456789012345678,
    ]
    assert spelled_integers(pa.array(["9", "12", "345"]).slice(1)).tolist() == [12, 345]
    assert len(spelled_integers(pa.array([], pa.utf8()))) == 0
    for text in (
        "",
        "07",
        "00",
        "+7",
        "-7",
        " 7",
        "7 ",
        "7.0",
        "0x7",
        "٧",
        "9" * 30,
        "a",
        "/",
        ":",
    ):
        assert spelled_integers(pa.array(["1", text])) is None, text
    assert spelled_integers(pa.array(["1", None])) is None
    assert spelled_integers(pa.array(["", ""])) is None


def test_a_skipped_edge_is_in_again_once_its_node_is_there(monkeypatch, graph, proofs):
    """An attempt that lost its race left the edge out; the next one starts with all of them."""
    nodes(graph, "A", ["1", "2"])
    proofs.clear()
    counts = []
    find = FindFinalRows.find

    def finds(self, *asked):
        found = find(self, *asked)
        counts.append(found.counts["edge:Loop"])
        if len(counts) == 1:
            graph.mutate('query q() { insert A { name: "late" } }')
        return found

    monkeypatch.setattr(FindFinalRows, "find", finds)
    loaded = edges(graph, "Loop", [("1", "2"), ("late", "1"), ("2", "1")], on_bad="skip")
    assert counts == [2, 3]
    assert proofs == [False, True]
    assert loaded.bad_records["total"] == 0
    rows = graph.query("query q() { match { $a: A $a loop $b } return { $a.name as a } }")
    assert sorted(row["a"] for row in rows) == ["1", "2", "late"]


def test_long_ids_are_left_to_a_query_that_can_spill(monkeypatch, graph, proofs):
    nodes(graph, "A", ["a" * 500, "b" * 500])
    edges(graph, "Loop", [("a" * 500, "b" * 500)])
    assert proofs.pop() is True
    monkeypatch.setattr(local_proof, "MOST_BYTES", 999)
    edges(graph, "Loop", [("a" * 500, "b" * 500)])
    assert proofs.pop() is False


def test_only_ends_are_read_and_few_bytes_of_them_at_a_time(monkeypatch, graph, proofs):
    nodes(graph, "A", ["a", "b"])
    groups = []
    look_up = local_proof._are_all

    def looks_up(has, batches, columns):
        groups.append(batches)
        return look_up(has, batches, columns)

    monkeypatch.setattr(local_proof, "_are_all", looks_up)
    monkeypatch.setattr(local_proof, "COMPARED_ROWS", 1 << 30)
    monkeypatch.setattr(local_proof, "COMPARED_BYTES", 1)
    lines = [f'{{"edge": "Wide", "from": "a", "to": "b", "data": {{"text": "{"x" * 9000}"}}}}\n']
    before = pa.total_allocated_bytes()
    graph.load("".join(lines * 1000).encode(), mode="append")
    assert proofs.pop() is True
    assert pa.total_allocated_bytes() - before < 1_000_000
    batches = [batch for group in groups for batch in group]
    assert len(groups) == len(batches) > 1
    assert {name for batch in batches for name in batch.schema.names} == {"src", "dst", ORDER}

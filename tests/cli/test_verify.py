"""`omnigraph verify`: what it prints, and its exit codes."""

import omnigraph as og


def test_problems_are_listed_with_the_way_to_mend_them(omnigraph, place):
    with og.init(place / "g.omni", "node Person { name: String @key  age: I32? @index }") as graph:
        graph.load([{"type": "Person", "data": {"name": name}} for name in ("ada", "bob")])
        graph.ensure_indices()
    whole = omnigraph("verify", "g.omni", "--deep")
    assert (whole.exit, whole.stdout.splitlines()[-1]) == (0, "no problem found")
    lost = list((place / "g.omni").rglob("page_lookup.lance"))
    for path in lost:
        path.unlink()
    found = omnigraph("verify", "g.omni", "--json")
    assert found.exit == 1
    assert set(found.json) == {"uri", "deep", "ok", "tables"}
    problems = [one for row in found.json["tables"] for one in row["problems"]]
    assert {one["file"] for one in problems} == {
        str(path.parent.relative_to(place / "g.omni")) for path in lost
    }
    text = omnigraph("verify", "g.omni").stdout
    assert "mend: omnigraph ensure-indices --rebuild Person.age" in text
    rebuilt = omnigraph("ensure-indices", "g.omni", "--rebuild", "Person.age", "Person.name")
    assert rebuilt.stdout.splitlines() == ["built node:Person id", "built node:Person age"]
    assert omnigraph("cleanup", "g.omni", "--keep", "1", "--confirm").exit == 0
    assert omnigraph("verify", "g.omni", "--deep").exit == 0
    wrong = omnigraph("ensure-indices", "g.omni", "Person.age")
    assert wrong.exit == 2
    assert "--rebuild" in wrong.stderr


def test_a_graph_that_cannot_be_opened_has_that_as_its_problem(omnigraph, place):
    with og.init(place / "g.omni", "node Person { name: String @key }"):
        pass
    for path in (place / "g.omni" / "__manifest" / "data").iterdir():
        path.unlink()
    found = omnigraph("verify", "g.omni", "--json")
    assert found.exit == 1
    ((problem,),) = [row["problems"] for row in found.json["tables"]]
    assert problem["kind"] == "state"
    assert omnigraph("verify", "nowhere.omni").exit == 1

"""Bundles as nobody should write them, and policies that do not answer: what is read is what is decided about."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from omnigraph.errors import BadRequest
from omnigraph.policy import Action, Decision, Question
from omnigraph.policy.bundle import read_bundle
from omnigraph.policy.cedar import CedarChecker, load
from omnigraph.server.handling import read_lane
from tests.policy.calls import ALL
from tests.policy.served import served_world
from tests.policy.untouched import untouched

BUNDLE = """\
version: 1
groups:
  team: %s
protected_branches: %s
rules:
  - id: work
    allow: { actors: { group: team }, actions: [read, change], branch_scope: unprotected }
"""


def write(place: Path, actors: list[str], protected: list[str] | None = None) -> Path:
    path = place / "team.yaml"
    path.write_text(BUNDLE % (_flow(actors), _flow(protected or ["main"])), "utf-8")
    return path


def _flow(values: list[str]) -> str:
    """A list in one line, which is JSON and YAML; a lone surrogate stays the escape that it is."""
    lone = any("\ud800" <= character <= "\udfff" for value in values for character in str(value))
    return json.dumps(values, ensure_ascii=lone)


def may(checker: CedarChecker, actor: str, branch: str = "side") -> bool:
    return checker.check(Question(actor, Action.CHANGE, branch)).allowed


ODD = [
    'o"hara', "it's", "two\nlines", "tab\tin", "back\\slash", "\u202elinks", "zero\u200bwidth", "a/b", "{}", "null", "true",
    "12:30", "*", "&x", "!!str", "ä", "a\u0308", "${HOME}", 'x" || true || "', "principal", "😀", "ADA",
]  # fmt: skip


def test_an_actor_is_its_very_text(tmp_path):
    checker = load(write(tmp_path, ODD))
    assert checker.bundle.actors == {actor.strip() for actor in ODD}
    for actor in ODD:
        assert may(checker, actor.strip()), ascii(actor)
        assert not may(checker, actor.strip(), "main"), ascii(actor)
    # What looks the same, or is in it, is somebody else.
    for actor in (
        "ohara",
        "two",
        "links",
        "zerowidth",
        "a",
        "",
        "ada",
        "Ada",
        "\u00c4",
        "none",
        "*x",
    ):
        assert not may(checker, actor), ascii(actor)


@pytest.mark.parametrize("actor", ["a" * 257, "b" * 10_000, "omnigraph:x", "\ud800"], ids=ascii)
def test_an_actor_that_no_commit_could_name_is_refused(tmp_path, actor):
    with pytest.raises(BadRequest) as caught:
        load(write(tmp_path, ["ann", actor]))
    (fault,) = caught.value.details.get("faults", [{"line": 3, "path": "groups.team"}])
    assert (fault["line"], fault["path"]) == (3, "groups.team")
    assert len(str(caught.value)) < 1000


def test_a_group_may_fill_a_megabyte(tmp_path):
    path = write(tmp_path, [f"a{number:0>96}" for number in range(10_000)])
    assert (1 << 20) - 50_000 < path.stat().st_size < 1 << 20
    checker = load(path)
    assert len(checker.bundle.actors) == 10_000
    assert may(checker, f"a{0:0>96}")
    assert may(checker, f"a{9_999:0>96}")
    assert not may(checker, f"a{10_000:0>96}")
    assert not may(checker, "a0")


def test_a_file_of_two_megabytes_is_refused_unread(tmp_path):
    with pytest.raises(BadRequest, match=r"team\.yaml: it has more than 1,048,576 bytes"):
        load(write(tmp_path, [f"actor-{number:06}" for number in range(130_000)]))


NAMES = {
    "release": ["Release", "RELEASE", "release/1", "releas"],
    "caf\u00e9": ["cafe\u0301", "cafe"],
    "a b": ["a  b", "ab"],
}


def test_a_protected_branch_is_its_very_name_without_blanks_around_it(tmp_path):
    checker = load(write(tmp_path, ["ann"], [f"  {name}\t" for name in NAMES]))
    assert checker.bundle.protected == NAMES.keys()
    for name, others in NAMES.items():
        assert not may(checker, "ann", name)
        for other in others:
            assert may(checker, "ann", other), ascii(other)


@pytest.mark.parametrize(
    "names", [[""], ["  "], ["main", " main "], [5], [None], [["main"]]], ids=str
)
def test_a_protected_branch_has_a_name(tmp_path, names):
    with pytest.raises(BadRequest, match="line 4, protected_branches"):
        read_bundle(write(tmp_path, ["ann"], names))


def test_the_time_that_a_policy_takes_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(read_lane, "GRACE", 600.0)  # here nobody is answered for meanwhile
    with served_world(tmp_path, query_timeout_ms=300) as world:
        asked, answers = threading.Event(), threading.Event()

        def hang(_question: Question) -> Decision:
            asked.set()
            answers.wait(600)
            return Decision(allowed=True)

        world.policy.answer = hang
        told = []
        with untouched(world):
            asking = threading.Thread(
                target=lambda: told.append(world.ask("query", {"query": ALL, "branch": "side"}))
            )
            asking.start()
            assert asked.wait(120)
            asking.join(0.5)
            assert asking.is_alive(), "a policy that thinks is waited for"
            answers.set()
            asking.join(120)
        assert told[0].error == (413, "resource_limit", "bad_request")
        assert told[0].json()["resource_limit"]["resource"] == "query_milliseconds"


@pytest.mark.parametrize(
    "answer", [1, "yes", None, {"allowed": True}, Decision(allowed=1), Decision], ids=str
)
def test_what_is_no_decision_opens_nothing_on_any_surface(failing, answer):
    failing.policy.answer = lambda _question: answer
    with untouched(failing):
        over_http = failing.ask("query", {"query": ALL})
        tool = failing.tool("query", {"query": ALL})["structuredContent"]
        stored = failing.ask("queries/everybody", {})
    assert over_http.error == stored.error == (500, "policy_failure", "internal")
    assert tool["kind"] == "policy_failure"


def test_a_policy_that_raises_tells_callers_nothing(failing):
    def answer(_question: Question) -> Decision:
        raise KeyError("secret-group")

    failing.policy.answer = answer
    for asked in (
        lambda: failing.ask("query", {"query": ALL}),
        lambda: failing.message("tools/call", name="query", arguments={"query": ALL}),
    ):
        with untouched(failing):
            answered = asked()
        assert "policy_failure" in answered.text
        assert "secret-group" not in answered.text
    # Who asks what they may do is told that nobody knows.
    checks = {"checks": [{"action": "read"}]}
    assert failing.ask("permissions", checks).error[:2] == (500, "policy_failure")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory):
    with served_world(tmp_path_factory.mktemp("failing")) as world:
        world.message("tools/list")
        yield world

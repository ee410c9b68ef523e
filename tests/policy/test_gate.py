"""The gate: what counts as an answer, and what happens between the answer and the deed."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CommitNotFound,
    PolicyDenied,
    PolicyFailure,
    StorageError,
    TagNotFound,
)
from omnigraph.policy import Action, Decision
from tests.policy.calls import ADD, ALL, UNKNOWN
from tests.policy.world import SCHEMA, opened

YES, NO = Decision(allowed=True), Decision(allowed=False)
SOMEBODY = [{"type": "Person", "data": {"name": "cat"}}]


@pytest.fixture
def world(tmp_path):
    with opened(tmp_path / "g") as world:
        yield world


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("answers") / "g") as world:
        yield world


@pytest.fixture
def unchanged(kept):
    """A world in which nothing happens, and that is checked."""
    before = kept.files()
    yield kept
    kept.policy.forget()
    assert kept.files() == before


def denying(*actions):
    """A policy that denies these actions."""
    return lambda question: NO if question.action in actions else YES


def meanwhile(happen):
    """A policy that allows everything; while it thinks about the first question, something happens."""
    left = [happen]

    def answer(_question):
        if left:
            left.pop()()
        return YES

    return answer


# ------------------------------------------------------------------ answers


def test_a_denial_says_who_what_where_and_why(unchanged):
    unchanged.policy.denied = 0
    with pytest.raises(PolicyDenied) as caught:
        unchanged.session.mutate(ADD, {"name": "x"}, branch=" side ")
    assert str(caught.value) == (
        "the policy does not allow ada `change` on branch `side` (not on a Sunday); ask whoever "
        "keeps it"
    )
    assert caught.value.details == {
        "action": "change", "actor": "ada", "branch": "side", "target": None, "rule": "rule-1",
    }  # fmt: skip
    assert caught.value.body() == {
        "error": str(caught.value), "kind": "policy_denied", "code": "forbidden",
    }  # fmt: skip


def test_without_an_actor_there_is_nobody_to_decide_about(world):
    with pytest.raises(PolicyDenied, match="`read` on branch `main` needs an actor"):
        world.graph.query(ALL)
    assert world.policy.asked == []
    world.graph.mutate(ADD, {"name": "x"}, actor="bo")
    assert [question.actor for question in world.policy.asked] == ["bo"]


def raising(error):
    def answer(_question):
        raise error

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        *(lambda _, given=given: given for given in (None, True, 1, "yes", {"allowed": True})),
        lambda _: Decision(allowed=1),  # type: ignore[arg-type]
        lambda _: Decision(allowed=None),  # type: ignore[arg-type]
        lambda _: Decision,
        raising(ValueError("no such group")),
        raising(KeyError()),
        raising(StorageError("the rules are out of reach")),
        raising(PolicyDenied("not a decision", action="read", actor="ada")),
    ],
)
def test_no_decision_is_neither_yes_nor_no(unchanged, answer):
    unchanged.policy.answer = answer
    for call in (
        lambda: unchanged.session.query(ALL),
        lambda: unchanged.session.mutate(ADD, {"name": "x"}),
        lambda: unchanged.session.branches.create("new"),
    ):
        with pytest.raises(PolicyFailure, match=r"^policy evaluation failure: .*mend the policy$"):
            call()


def test_what_went_wrong_is_kept_for_whoever_keeps_the_policy(unchanged):
    cause = ValueError("no such group")
    unchanged.policy.answer = raising(cause)
    with pytest.raises(PolicyFailure, match="no such group") as caught:
        unchanged.session.status()
    assert caught.value.__cause__ is cause
    assert (caught.value.http_status, caught.value.body()["code"]) == (500, "internal")


def test_a_policy_may_be_interrupted(unchanged):
    unchanged.policy.answer = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        unchanged.session.query(ALL)


def test_the_actions_are_a_closed_list():
    assert {action.value for action in Action} == {
        "read", "export", "change", "tag_create", "tag_delete", "schema_apply", "branch_create",
        "branch_delete", "branch_merge", "invoke_query", "admin", "graph_list",
    }  # fmt: skip
    with pytest.raises(AttributeError):
        Action.DROP_EVERYTHING  # noqa: B018
    with pytest.raises(ValueError, match="drop"):
        Action("drop")


def test_init_takes_a_policy(tmp_path, world):
    with og.init(tmp_path / "h", SCHEMA, policy=world.policy, actor="ada") as graph:
        assert graph.branches.list() == ["main"]
        assert world.policy.texts == ["read - -"]


# ------------------------------------------------------------------ several questions


def test_a_merge_stays_when_its_branch_may_not_be_deleted(world):
    world.policy.answer = denying(Action.BRANCH_DELETE)
    result = world.session.branches.merge("side", delete_branch=True)
    assert world.policy.texts == ["branch_merge side main", "branch_delete - side"]
    assert result.outcome == "fast_forward"
    assert result.branch_deleted is False
    assert "does not allow ada `branch_delete`" in result.branch_delete_error
    assert "side" in world.owner.branches.list()
    assert world.owner.query(ALL).row_count == 2

    world.policy.forget()
    world.owner.tags.delete("of-side")
    assert world.session.branches.merge("side", delete_branch=True).branch_deleted is True
    assert world.policy.texts == ["branch_merge side main", "branch_delete - side"]
    assert "side" not in world.owner.branches.list()


def test_a_merge_that_is_denied_asks_about_no_deletion(world):
    world.policy.answer = denying(Action.BRANCH_MERGE)
    with pytest.raises(PolicyDenied):
        world.session.branches.merge("side", delete_branch=True)
    assert world.policy.texts == ["branch_merge side main"]


def test_commits_of_branches_that_may_not_be_read_are_not_there(unchanged):
    unchanged.policy.answer = lambda question: Decision(question.branch == "main")
    assert unchanged.session.commits.changes(unchanged.main_commit).changes
    said = []
    for commit in (unchanged.side_commit, UNKNOWN):
        with pytest.raises(CommitNotFound) as caught:
            unchanged.session.commits.changes(commit)
        said.append(str(caught.value).replace(commit, "ID"))
    assert said[0] == said[1]


def test_no_state_hides_behind_a_branch_that_may_be_read(unchanged):
    unchanged.policy.answer = lambda question: Decision(question.branch == "main")
    with pytest.raises(BadRequest, match="more than one state"):
        unchanged.session.query(ALL, at=og.Target("main", unchanged.side_commit))
    assert unchanged.side_commit not in unchanged.session.commits.history("main").tags


# ------------------------------------------------------------------ between the answer and the deed


def move_tag(world):
    """Have somebody delete the tag of `side`, and give its name to a commit of `main`."""
    world.owner.tags.delete("of-side")
    world.owner.tags.create("of-side", at="main")


@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.query(ALL, tag="of-side"),
        lambda session: session.diff("side", og.at(tag="of-side")),
        lambda session: session.tags.delete("of-side"),
        lambda session: session.branches.create("new", og.at(tag="of-side")),
    ],
)
def test_a_tag_is_what_was_decided_about(world, call):
    tag = world.owner.tags.list()[1]
    assert (tag.name, tag.branch) == ("of-side", "side")
    number = 2 if "diff" in call.__code__.co_names else 1

    def answer(_question):
        if len(world.policy.asked) == number:
            move_tag(world)
        return YES

    world.policy.answer = answer
    with pytest.raises(TagNotFound, match="made at another commit; try again"):
        call(world.session)
    assert world.policy.texts[-1].split()[1] == "side"
    assert [tag.branch for tag in world.owner.tags.list()] == [None, None]
    assert "new" not in world.owner.branches.list()


def test_what_was_not_there_is_not_used_when_it_comes(world):
    def create():
        world.owner.tags.create("late")
        world.owner.branches.create("late")

    for call in (
        lambda: world.session.query(ALL, tag="late"),
        lambda: world.session.tags.create("mine", "late"),
        lambda: world.session.branches.create("mine", og.at("late", version=1)),
    ):
        world.policy.answer = meanwhile(create)
        with pytest.raises((TagNotFound, BranchNotFound)):
            call()
        world.owner.tags.delete("late")
        world.owner.branches.delete("late")
    assert "mine" not in world.owner.branches.list()


def test_a_commit_is_not_found_under_another_spelling(unchanged):
    unchanged.policy.answer = lambda question: Decision(question.branch != "side")
    for session in (unchanged.session, unchanged.owner):
        with pytest.raises(CommitNotFound):
            session.commits.changes(f" {unchanged.side_commit} ")


def test_a_tag_names_the_commit_that_was_decided_about(world):
    # The branch is made again while the policy thinks, and its head is then a commit of `main`.
    def remake():
        world.owner.tags.delete("of-side")
        world.owner.branches.delete("side")
        world.owner.branches.create("side")

    world.policy.answer = meanwhile(remake)
    with pytest.raises(CommitNotFound):
        world.session.tags.create("mine", "side")
    world.policy.forget()
    world.policy.answer = meanwhile(lambda: world.owner.mutate(ADD, {"name": "dot"}))
    assert world.session.tags.create("mine").graph_commit_id == world.main_commit


def test_a_load_asks_before_it_makes_a_branch_again(world):
    def delete():
        world.owner.tags.delete("of-side")
        world.owner.branches.delete("side")

    world.policy.answer = meanwhile(delete)
    result = world.session.load(SOMEBODY, branch="side", from_branch="main")
    assert result.branch_created is True
    assert world.policy.texts == ["change side -", "branch_create main side"]

    world.policy.forget()
    happens = meanwhile(lambda: world.owner.branches.delete("side"))

    def answer(question):
        happens(question)
        return NO if question.action is Action.BRANCH_CREATE else YES

    world.policy.answer = answer
    with pytest.raises(PolicyDenied):
        world.session.load(SOMEBODY, branch="side", from_branch="main")
    assert world.policy.texts == ["change side -", "branch_create main side"]
    with pytest.raises(BranchNotFound):
        world.owner.snapshot(branch="side")


def test_names_are_decided_on_as_they_are_used(unchanged):
    for name in ("main", " main", "main\n", "\tmain "):
        unchanged.policy.forget()
        unchanged.policy.answer = lambda question: Decision(question.branch != "main")
        with pytest.raises(PolicyDenied):
            unchanged.session.mutate(ADD, {"name": "x"}, branch=name)
        assert unchanged.policy.texts == ["change main -"]
    for name in ("", "  ", 5, None):
        unchanged.policy.forget()
        with pytest.raises(BadRequest):
            unchanged.session.mutate(ADD, {"name": "x"}, branch=name)
        assert unchanged.policy.asked == []

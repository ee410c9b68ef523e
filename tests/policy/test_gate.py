"""The gate: what counts as an answer, and what happens between the answer and the deed."""

from __future__ import annotations

import json

import pytest

import omnigraph as og
from omnigraph.commit.replays import kept_answer
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
        "branch_delete", "branch_merge", "invoke_query", "purge", "graph_list",
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


def test_nothing_is_merged_when_the_branch_may_not_be_deleted(world):
    head = world.owner.snapshot().graph_commit_id
    world.policy.answer = denying(Action.BRANCH_DELETE)
    with pytest.raises(PolicyDenied, match="branch_delete"):
        world.session.branches.merge("side", delete_branch=True)
    assert world.policy.texts == ["branch_merge side main", "read side -", "branch_delete - side"]
    assert world.owner.snapshot().graph_commit_id == head
    assert "side" in world.owner.branches.list()


@pytest.mark.parametrize("call", ["merge", "revert"])
def test_a_schema_is_merged_by_whoever_may_apply_it(world, call):
    owner = world.owner
    wider = owner.schema.source + "\nnode City { name: String @key }"
    applied = owner.schema.apply(wider, branch="side").commit

    def bring():
        if call == "merge":
            return world.session.branches.merge("side")
        return world.session.commits.revert(applied.graph_commit_id, branch="side")

    target = "main" if call == "merge" else "side"
    heads = {branch: owner.snapshot(branch=branch).graph_commit_id for branch in ("main", "side")}
    schema, files = owner.schema.show(branch=target), world.files()
    world.policy.answer = denying(Action.SCHEMA_APPLY)
    with pytest.raises(PolicyDenied, match="schema_apply"):
        bring()
    assert world.policy.texts[-1] == f"schema_apply - {target}"
    assert world.files() == files
    assert owner.schema.show(branch=target) == schema
    assert heads == {branch: owner.snapshot(branch=branch).graph_commit_id for branch in heads}


def test_a_dry_run_that_would_delete_asks_for_no_deletion(world):
    with pytest.raises(BadRequest, match="dry run"):
        world.session.branches.merge("side", delete_branch=True, dry_run=True)
    assert "branch_delete - side" not in world.policy.texts


def test_a_merge_stays_when_its_branch_may_not_be_deleted_any_more(world):
    denied_after = denying(Action.BRANCH_DELETE)
    asked = iter([False, True])

    def answer(question):
        if question.action is Action.BRANCH_DELETE and not next(asked):
            return YES
        return denied_after(question)

    world.policy.answer = answer
    result = world.session.branches.merge("side", delete_branch=True)
    delete = "branch_delete - side"
    assert world.policy.texts == ["branch_merge side main", "read side -", delete, delete]
    assert result.outcome == "fast_forward"
    assert result.branch_deleted is False
    assert "does not allow ada `branch_delete`" in result.branch_delete_error
    assert "side" in world.owner.branches.list()
    assert world.owner.query(ALL).row_count == 2

    world.policy.forget()
    world.owner.tags.delete("of-side")
    assert world.session.branches.merge("side", delete_branch=True).branch_deleted is True
    assert world.policy.texts == ["branch_merge side main", "read side -", delete, delete]
    assert "side" not in world.owner.branches.list()


def test_a_merge_that_is_denied_asks_about_no_deletion(world):
    world.policy.answer = denying(Action.BRANCH_MERGE)
    with pytest.raises(PolicyDenied):
        world.session.branches.merge("side", delete_branch=True)
    assert world.policy.texts == ["branch_merge side main"]


def only_main(question):
    return Decision(question.branch == "main")


def only_side(question):
    return Decision(question.branch == "side")


@pytest.mark.parametrize("read", ["changes", "show"])
def test_commits_of_branches_that_may_not_be_read_are_as_unknown(unchanged, read):
    unchanged.policy.answer = only_main
    call = getattr(unchanged.session.commits, read)
    assert call(unchanged.main_commit)
    said = []
    for commit in (unchanged.side_commit, UNKNOWN):
        with pytest.raises(CommitNotFound) as caught:
            call(commit)
        error = caught.value
        shown = str(error), error.body(), error.details, error.exit_code, repr(error.__cause__)
        said.append(repr(shown).replace(commit, "ID"))
    assert said[0] == said[1]


def ids(commits):
    return [commit.graph_commit_id for commit in commits]


@pytest.mark.parametrize(("answer", "mine"), [(only_main, "main"), (only_side, "side")])
def test_lists_have_the_commits_of_readable_branches_only(world, answer, mine):
    """`side` was made from `main`, so that it holds commits of both, and merges bring more."""
    owner = world.owner
    owner.branches.merge("main", "side")
    owner.load(SOMEBODY, branch="side")
    owner.branches.merge("side", "fresh")
    world.policy.answer = lambda question: YES if question.branch is None else answer(question)
    everything = owner.commits.history()
    wanted = [
        one
        for one in ids(everything.commits)
        if owner.commits.show(one).branch in ({None} if mine == "main" else {"side"})
    ]
    assert wanted
    found = world.session.commits.history()
    assert ids(found.commits) == wanted
    assert found.heads == {mine: everything.heads[mine]}
    assert set(found.tags) <= set(wanted)
    assert ids(world.session.commits.history(mine).commits) == wanted
    assert ids(world.session.commits.list(mine)) == [
        one for one in ids(owner.commits.list(mine)) if one in wanted
    ]
    # Pages count what is shown.
    paged, before = [], None
    while True:
        page = world.session.commits.history(limit=1, before=before)
        paged += ids(page.commits)
        before = page.next
        if before is None:
            break
    assert paged == wanted
    for one in found.commits:
        assert one == owner.commits.show(one.graph_commit_id)


def test_a_page_after_a_commit_that_may_not_be_read_is_refused_as_after_an_unknown_one(unchanged):
    said = []
    for commit in (unchanged.main_commit, UNKNOWN):
        for call in (unchanged.session.commits.list, unchanged.session.commits.history):
            unchanged.policy.answer = only_side
            with pytest.raises(BadRequest) as caught:
                call("side", before=commit)
            said.append(str(caught.value).replace(commit, "ID"))
    assert said[:2] == said[2:]


def test_a_feed_ends_before_a_commit_that_may_not_be_read(unchanged):
    session, policy = unchanged.session, unchanged.policy
    policy.answer = only_side
    with pytest.raises(PolicyDenied, match="on branch `main`"):
        session.changes.poll("side", start="beginning")
    after = f"after:{unchanged.main_commit}"
    assert ids(one.commit for one in session.changes.poll("side", start=after).blocks) == [
        unchanged.side_commit
    ]
    policy.answer = only_main
    with pytest.raises(PolicyDenied, match="on branch `side`"):
        session.changes.poll("side", start="now")


SECRET = "Ada-Lovelace-1815"


@pytest.mark.parametrize(
    "record",
    [
        {"type": "Person", "data": {"name": "x", "born": SECRET}},
        {"type": "Person", "data": {"name": "x", SECRET: 1}},
        {"type": SECRET, "data": {"name": "x"}},
        {"type": "Person", "data": {"name": "x", "photo": f"base64:{SECRET}"}},
        {"type": "Person", "data": {"name": "x", "v": [SECRET]}},
        {"edge": "Knows", "from": SECRET, "to": "ann"},
        {SECRET: 1},
        SECRET,
    ],
    ids=str,
)
def test_commit_facts_hold_no_values_of_skipped_records(world, record, tmp_path):
    lines = [json.dumps(record), json.dumps(SOMEBODY[0])]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    made = world.owner.load(tmp_path / "data.jsonl", on_bad="skip", operation_id=UNKNOWN)
    assert made.skipped == 1
    for commit in (made.commit, world.owner.commits.show(made.commit.graph_commit_id)):
        assert SECRET not in json.dumps(commit.to_json())
    [entry] = kept_answer(commit)["bad_records"]["first"]
    assert entry["line"] == 1
    assert entry["reason"]
    again = world.owner.load(tmp_path / "data.jsonl", on_bad="skip", operation_id=UNKNOWN)
    assert again.replayed
    assert (again.skipped, SECRET in str(again.to_json())) == (1, False)


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
    assert world.policy.texts == ["change side -", "branch_create main side", "read main -"]

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

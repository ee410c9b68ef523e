"""What changes and what becomes of it, by values alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.cluster.declared.resources import Desired, Resource
from omnigraph.cluster.outcomes import Outcome, RootContents, decide
from omnigraph.cluster.planned_changes import fail, find_changes
from omnigraph.cluster.stored.ledger import AppliedResource, BadLedger, Ledger, parse_ledger
from omnigraph.cluster.stored.recovery_files import Approval, RecoveryFile


def desired_of(**digests):
    """Resources by address (`__` for a dot), each with a digest, or with a digest and facts."""
    resources, depends = {}, {}
    for name, given in digests.items():
        address = name.replace("__", ".")
        digest, facts = given if isinstance(given, tuple) else (given, {})
        resources[address] = Resource(address, digest, facts=facts)
    for address, resource in resources.items():
        kind, _, rest = address.partition(".")
        graph = rest.partition(".")[0]
        if kind == "query":
            depends[address] = (f"schema.{graph}",)
        elif kind == "graph":
            depends[address] = tuple(
                at for at in resources if at.startswith((f"schema.{graph}", f"query.{graph}."))
            )
        elif kind == "policy":
            scopes = resource.facts.get("applies_to", ())
            depends[address] = tuple(f"graph.{scope}" for scope in scopes if scope != "cluster")
    return Desired(None, resources, depends)


def ledger_of(**digests):
    return Ledger(
        1,
        None,
        {
            name.replace("__", "."): AppliedResource(*given)
            if isinstance(given, tuple)
            else AppliedResource(given)
            for name, given in digests.items()
        },
    )


def shown(changes):
    return {
        one.resource: (one.operation, one.disposition, *([one.reason] if one.reason else []))
        for one in changes
    }


WHOLE = {"graph__a": "g", "schema__a": "s", "query__a__q": "q"}


def test_nothing_changes_when_everything_is_applied():
    assert find_changes(desired_of(**WHOLE), ledger_of(**WHOLE)) == []


def test_what_is_new_is_made():
    assert shown(find_changes(desired_of(**WHOLE), Ledger())) == {
        "graph.a": ("create", "applied"),
        "schema.a": ("create", "applied"),
        "query.a.q": ("create", "applied"),
    }


def test_a_graph_follows_its_parts():
    wanted = desired_of(**{**WHOLE, "query__a__q": "q2", "graph__a": "g2"})
    assert shown(find_changes(wanted, ledger_of(**WHOLE))) == {
        "graph.a": ("update", "derived"),
        "query.a.q": ("update", "applied"),
    }


@pytest.mark.parametrize(
    ("address", "before", "after", "said"),
    [
        ("policy__p", {"applies_to": ["a"]}, {"applies_to": ["cluster"]}, "policy_bindings"),
        ("graph__a", {}, {"embedding_provider": "e"}, "embedding_provider"),
        ("graph__a", {}, {"external_blob_policy": {"allow": []}}, "external_blob_policy"),
        ("query__a__q", {}, {"expose": False}, "query_exposure"),
    ],
)
def test_facts_beside_a_digest_are_changes_too(address, before, after, said):
    parts = {**WHOLE, address: "x"}
    wanted = desired_of(**{**parts, address: ("x", after)})
    (change,) = find_changes(wanted, ledger_of(**{**parts, address: ("x", before)}))
    assert (change.operation, change.disposition, change.metadata) == ("update", "applied", said)


def approval_for(desired, **changed):
    approval = Approval(
        approval_id="A",
        resource="graph.a",
        operation="delete",
        reason="graph_delete",
        bound_config_digest=desired.config_digest,
        bound_before_digest="g",
        bound_after_digest=None,
        approved_by="ada",
        created_at="2026-01-01T00:00:00Z",
    )
    return replace(approval, **changed)


@pytest.mark.parametrize(
    ("changed", "becomes"),
    [
        (None, ("delete", "blocked", "approval_required")),
        ({}, ("delete", "applied")),
        ({"bound_before_digest": "other"}, ("delete", "blocked", "approval_stale")),
        ({"bound_config_digest": "other"}, ("delete", "blocked", "approval_stale")),
        ({"consumed_at": "2026-01-02T00:00:00Z"}, ("delete", "blocked", "approval_required")),
        ({"resource": "graph.b"}, ("delete", "blocked", "approval_required")),
    ],
)
def test_a_graph_is_deleted_as_approved_and_takes_its_parts_along(changed, becomes):
    empty = desired_of()
    approvals = [] if changed is None else [approval_for(empty, **changed)]
    assert shown(find_changes(empty, ledger_of(**WHOLE), approvals)) == dict.fromkeys(
        ("graph.a", "query.a.q", "schema.a"), becomes
    )


def test_queries_and_bundles_go_without_approval():
    wanted = desired_of(graph__a="g2", schema__a="s")
    found = find_changes(wanted, ledger_of(**WHOLE, policy__p="p"))
    assert shown(found) == {
        "graph.a": ("update", "derived"),
        "policy.p": ("delete", "applied"),
        "query.a.q": ("delete", "applied"),
    }


def test_a_failed_move_blocks_what_depends_on_it():
    wanted = desired_of(
        **WHOLE, policy__p=("p", {"applies_to": ["a"]}), graph__b="h", schema__b="t"
    )
    after = fail(find_changes(wanted, Ledger()), "a", "graph_create_failed", wanted)
    waits = ("create", "blocked", "dependency_not_applied")
    assert shown(after) == {
        "graph.a": ("create", "blocked", "graph_create_failed"),
        "schema.a": ("create", "blocked", "graph_create_failed"),
        "query.a.q": waits,
        "policy.p": waits,
        "graph.b": ("create", "applied"),
        "schema.b": ("create", "applied"),
    }


def test_a_pending_recovery_blocks_its_graph_alone():
    wanted = desired_of(
        **{**WHOLE, "schema__a": "s2", "graph__a": "g2"}, graph__b="h", schema__b="t"
    )
    found = shown(find_changes(wanted, ledger_of(**WHOLE), pending={"a"}))
    assert found["schema.a"] == ("update", "blocked", "cluster_recovery_pending")
    assert found["graph.b"] == ("create", "applied")


def record(operation):
    return RecoveryFile(
        operation_id="R",
        operation=operation,
        graph_id="a",
        graph_uri="a",
        actor=None,
        started_at="2026-01-01T00:00:00Z",
        expected_schema_digest="new",
    )


@pytest.mark.parametrize(
    ("operation", "seen", "step", "code"),
    [
        ("graph_create", RootContents("absent"), "drop", None),
        (
            "graph_create",
            RootContents("complete", "new"),
            "forward",
            "cluster_recovery_rolled_forward",
        ),
        ("graph_create", RootContents("partial"), "keep", "graph_create_incomplete"),
        ("schema_apply", RootContents("complete", "old"), "drop", None),
        (
            "schema_apply",
            RootContents("complete", "new"),
            "forward",
            "cluster_recovery_rolled_forward",
        ),
        ("schema_apply", RootContents("complete", "third"), "keep", "actual_applied_state_pending"),
        ("schema_apply", RootContents("partial"), "keep", "actual_applied_state_pending"),
        ("graph_delete", RootContents("absent"), "forward", "cluster_recovery_rolled_forward"),
        ("graph_delete", RootContents("tombstone"), "finish", "cluster_recovery_rolled_forward"),
        ("graph_delete", RootContents("complete", "old"), "retire", "graph_delete_incomplete"),
    ],
)
def test_what_becomes_of_a_move_that_was_begun(operation, seen, step, code):
    assert decide(record(operation), "old", seen) == Outcome(step, code)


def test_a_delete_that_used_its_approval_was_done_whatever_lies_there_now():
    seen = RootContents("complete", "old")
    assert decide(record("graph_delete"), "old", seen, is_used=True) == Outcome("drop")


def test_a_failed_delete_blocks_everything_that_would_have_gone_with_it():
    empty = desired_of()
    found = find_changes(empty, ledger_of(**WHOLE), [approval_for(empty)])
    assert shown(fail(found, "a", "graph_delete_failed", empty)) == dict.fromkeys(
        ("graph.a", "query.a.q", "schema.a"), ("delete", "blocked", "graph_delete_failed")
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "invalid_state_json"),
        ("[]", "invalid_state_json"),
        ('{"version": 1}', "invalid_state_json"),
        ('{"version": 2}', "unsupported_state_version"),
        ('{"version": 1, "state_revision": "x", "applied_revision": {}}', "invalid_state_json"),
    ],
)
def test_a_ledger_that_cannot_be_used(text, code):
    with pytest.raises(BadLedger) as caught:
        parse_ledger(text)
    assert caught.value.code == code


def test_a_ledger_is_read_as_it_was_written():
    import json

    ledger = ledger_of(**WHOLE, policy__p=("p", {"applies_to": ["a"]})).with_status(
        "graph.a", "applied"
    )
    assert parse_ledger(json.dumps(ledger.to_json())) == ledger

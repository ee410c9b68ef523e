"""What a step of a versioning case expects, compared with what it gave."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omnigraph.errors import OmniGraphError
from tests.conformance.expectations import check_rows, same_value

_SHAPES: dict[str, Callable[[Any], bool]] = {
    "<ulid>": lambda value: bool(re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", str(value))),
    "<int>": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "<epoch_us>": lambda value: isinstance(value, int) and value > 10**15,
    "<any>": lambda value: value is not None,
}
ABSENT = "<absent>"
# Keys that say how another key is compared.
_MODIFIERS = {"except", "match"}


def alike(got: Any, want: Any) -> bool:
    """Whether the listed keys have these values; lists have these elements and no others."""
    if isinstance(want, str) and want in _SHAPES:
        return _SHAPES[want](got)
    if isinstance(got, Mapping) and isinstance(want, Mapping):
        return all(
            key not in got if value == ABSENT else alike(got.get(key), value)
            for key, value in want.items()
        )
    if isinstance(got, list | tuple) and isinstance(want, list):
        return len(got) == len(want) and all(map(alike, got, want))
    return same_value(got, want)


def check_result(result: Mapping[str, Any], expect: Mapping[str, Any], place: str) -> None:
    """Fail unless the result of a step is what its expectation lists."""
    for key, wanted in expect.items():
        if key in _CHECKS:
            _CHECKS[key](result, wanted, place)
        elif key == "tables_same_as":
            _check_same_tables(result, wanted, expect.get("except") or [], place)
        elif key not in _MODIFIERS:
            got = result.get(key)
            assert alike(got, wanted), f"{place}: {key} is {got!r}, not {wanted!r}"


def check_failure(raised: OmniGraphError, want: Mapping[str, Any], place: str) -> None:
    """Fail unless an error has the code and the fields that are listed."""
    codes = want["code"] if isinstance(want["code"], list) else [want["code"]]
    assert raised.code in codes or "*" in codes, f"{place}: {raised.code}: {raised}"
    for key, value in want.items():
        if key == "conflicts":
            got = documents(raised.details["conflicts"])
            _check_conflicts(got, value, want.get("match", "exact"), place)
        elif key == "contains":
            for word in value:
                assert word.lower() in str(raised).lower(), f"{place}: {word} is not in: {raised}"
        elif key not in {"code", "match"}:
            got = raised.details.get(key)
            assert alike(got, value), f"{place}: {key} is {got!r}, not {value!r}: {raised}"


def documents(values: Sequence[Any]) -> list[Any]:
    """Values in their public form."""
    return [one.to_json() if hasattr(one, "to_json") else one for one in values]


def _check_conflicts(got: list[Any], want: list[Any], match: str, place: str) -> None:
    if match == "subset":
        missing = [one for one in want if not any(alike(other, one) for other in got)]
        assert not missing, f"{place}: {missing} not in {got}"
    else:
        assert match == "exact", f"{place}: the runner knows no match {match!r}"
        assert alike(got, want), f"{place}: the conflicts are {got}, not {want}"


def _check_rows(result: Mapping[str, Any], wanted: Any, _place: str) -> None:
    check_rows(result["rows"], wanted, ordered=False)


def _check_lines(result: Mapping[str, Any], wanted: Any, _place: str) -> None:
    check_rows(result["lines"], wanted, ordered=True)


def _check_list(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    leading = result["list"][: len(wanted)]
    assert alike(leading, wanted), f"{place}: the list begins {leading}, not {wanted}"


def _check_each(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    assert result["list"], f"{place}: there are no records"
    strangers = [one for one in result["list"] if not alike(one, wanted)]
    assert not strangers, f"{place}: {strangers} are not {wanted}"


def _check_linear(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    chain = [(one["graph_commit_id"], one["parent_commit_id"]) for one in result["list"]]
    linked = all(a[1] == b[0] for a, b in itertools.pairwise(chain))
    assert linked is wanted, f"{place}: {chain}"


def _check_decreasing(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    values = [one[wanted] for one in result["list"]]
    assert values == sorted(set(values), reverse=True), f"{place}: {values}"


def _check_no(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    found = [one for one in result["changes"] if one.keys() & set(wanted)]
    assert not found, f"{place}: {found}"


def _check_last_commits(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    tail = wanted if isinstance(wanted, list) else [wanted]
    got = result["block_commits"][-len(tail) :]
    assert got == tail, f"{place}: the last blocks are {got}, not {tail}"


def _check_contained(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    missing = [one for one in wanted if not any(alike(block, one) for block in result["blocks"])]
    assert not missing, f"{place}: {missing} not among {result['blocks']}"


def _check_declared(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    declared = result["declared"]
    wrong = {key: declared.get(key) for key, value in wanted.items() if declared.get(key) != value}
    assert not wrong, f"{place}: declared is {wrong}, not {wanted}"


def _check_purged(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    assert result["purged"] == wanted, f"{place}: purged is {result['purged']}, not {wanted}"


def _check_why_kept(result: Mapping[str, Any], wanted: Any, place: str) -> None:
    for table_key, reasons in wanted.items():
        given = result["why_kept"].get(table_key, set())
        assert set(reasons) <= given, f"{place}: {table_key} is kept for {sorted(given)}"


def _check_same_tables(result: Mapping[str, Any], other: Any, but: Any, place: str) -> None:
    for key, pin in other["tables"].items():
        if key not in but:
            got = result["tables"][key]
            same = all(got[name] == pin[name] for name in ("version", "table_branch"))
            assert same, f"{place}: {key} is {got}, was {pin}"


_CHECKS: dict[str, Callable[[Mapping[str, Any], Any, str], None]] = {
    "rows": _check_rows,
    "lines": _check_lines,
    "list": _check_list,
    "each": _check_each,
    "linear": _check_linear,
    "strictly_decreasing": _check_decreasing,
    "no": _check_no,
    "block_commits_last": _check_last_commits,
    "blocks_contain": _check_contained,
    "purged": _check_purged,
    "why_kept": _check_why_kept,
    "declared": _check_declared,
}
EXPECT_KEYS = {
    *_CHECKS,
    *_MODIFIERS,
    *("error", "count", "as_of", "commit", "affected_nodes", "affected_edges", "branch_created"),
    *("base_branch", "branches", "id", "version", "tables", "tables_same_as", "from", "name"),
    *("head_commit_id", "outcome", "base_commit_id", "branch_deleted", "branch_delete_error"),
    *("reverted", "dry_run", "conflicts", "stats", "facts", "changes", "cause", "schema"),
    *("line_count", "equals_export_of", "snapshot_commit_id", "image", "tags"),
    *("roundtrip_equal", "roundtrip_branches", "roundtrip_shares_commits"),
    *("blocks", "block_count", "block_commits", "changes_flat", "caught_up"),
    *("graph_commit_id", "branch", "manifest_version", "created_at", "actor_id"),
    *("declared", "applied", "supported", "steps"),
    *("not_found", "obstacles", "verified"),
    *("entries", "next", "complete", "properties", "endpoints", "edges"),
}

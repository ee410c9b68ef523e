"""The contract of control objects, run unchanged against every store.

A test class inherits it and provides a ``store`` fixture; stores that several processes share
inherit ``SharedContract`` too, with an ``environment`` fixture for the children.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import BadRequest, StorageError
from omnigraph.storage.objects.store_errors import (
    AlreadyExists,
    InvalidText,
    ObjectChanged,
    ObjectNotFound,
    Unavailable,
)
from tests.storage import object_workers
from tests.storage.processes import run_processes

ODD_NAMES = [
    "plain",
    "two words",
    " leading and trailing ",
    "per%cent",
    "already%20encoded",
    "hash#tag",
    "hash#1.json",
    "#1/x",
    "question?mark",
    "ünïcödé/漢字/😀",
    "e\u0301-decomposed",
    "a+b&c=d;e,f@g:h!i$j'k(l)m*n",
    "back\\slash",
    '[x]{y}^`~"<>|-',
    ".hidden/.file",
    "...",
    "C:/drive",
]
BAD_NAMES = [
    "",
    "/leading",
    "trailing/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "a/./b",
    "new\nline",
    "nul\0",
    "del\x7f",
    "\ud800",
    "x#1",
    "dir/C:",
    "dir/C|",
    ".omnigraph-mine/x",
]


class ObjectsContract:
    def test_writes_and_reads_back_text(self, store):
        text = "línea one\nline two\r\n\0 tab\t漢字 😀"
        store.write_text("dir/object.json", text)
        assert store.read_text("dir/object.json") == text
        assert store.read_versioned("dir/object.json").text == text

    def test_an_empty_text_is_a_text(self, store):
        store.write_text_if_absent("empty", "")
        assert store.read_text("empty") == ""
        assert store.exists("empty")

    def test_write_replaces(self, store):
        store.write_text("object", "a longer first text")
        store.write_text("object", "second")
        assert store.read_text("object") == "second"

    def test_a_fingerprint_tells_what_took_the_place_of_an_object(self, store):
        store.write_text("dir/object", "one")
        first = store.fingerprint("dir/object")
        assert first is not None
        assert store.fingerprint("dir/object") == first
        store.write_text("dir/object", "two")
        assert store.fingerprint("dir/object") not in {first, None}
        store.delete("dir/object")
        assert store.fingerprint("dir/object") is None
        assert store.fingerprint("nowhere/at/all") is None

    def test_reading_what_is_not_there_is_not_found(self, store):
        with pytest.raises(ObjectNotFound):
            store.read_text("missing")
        with pytest.raises(ObjectNotFound):
            store.read_versioned("dir/missing")

    def test_a_prefix_reads_as_not_found(self, store):
        store.write_text("dir/object", "x")
        with pytest.raises(ObjectNotFound):
            store.read_text("dir")

    def test_a_name_below_an_object_reads_as_not_found(self, store):
        store.write_text("object", "x")
        with pytest.raises(ObjectNotFound):
            store.read_text("object/below")
        assert not store.exists("object/below")
        assert store.list("object/below") == []
        store.delete("object/below")
        store.delete_prefix("object/below")
        assert store.read_text("object") == "x"

    def test_errors_are_storage_errors_that_name_the_object(self, store):
        with pytest.raises(ObjectNotFound) as caught:
            store.read_text("some/missing")
        assert isinstance(caught.value, StorageError)
        assert caught.value.code == "storage"
        assert "some/missing" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.details["object"] == "some/missing"

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_names_no_store_can_keep_are_refused_everywhere(self, store, name):
        calls = [
            lambda: store.write_text(name, "x"),
            lambda: store.write_text_if_absent(name, "x"),
            lambda: store.write_text_if_match(name, "x", "v"),
            lambda: store.read_text(name),
            lambda: store.rename("a", name),
            lambda: store.rename(name, "a"),
            lambda: store.delete(name),
            lambda: store.discard(name),
        ]
        for call in calls:
            with pytest.raises(BadRequest):
                call()
        assert store.list() == []

    def test_deleting_everything_by_an_empty_prefix_is_refused(self, store):
        store.write_text("object", "x")
        with pytest.raises(BadRequest):
            store.delete_prefix("")
        assert store.read_text("object") == "x"

    def test_text_that_utf8_cannot_carry_is_refused(self, store):
        store.write_text("object", "before")
        with pytest.raises(InvalidText):
            store.write_text("object", "lone \ud800 surrogate")
        assert store.read_text("object") == "before"

    # --- claims

    def test_a_claim_wins_once(self, store):
        store.write_text_if_absent("claim", "first")
        with pytest.raises(AlreadyExists):
            store.write_text_if_absent("claim", "second")
        assert store.read_text("claim") == "first"

    def test_an_equal_second_claim_loses_too(self, store):
        store.write_text_if_absent("claim", "same")
        with pytest.raises(AlreadyExists):
            store.write_text_if_absent("claim", "same")

    def test_what_is_discarded_is_gone_and_may_be_discarded_again(self, store):
        store.write_text("dir/object", "x")
        for _ in range(2):
            store.discard("dir/object")
            assert not store.exists("dir/object")

    def test_a_deleted_claim_can_be_made_again(self, store):
        store.write_text_if_absent("claim", "first")
        store.delete("claim")
        store.write_text_if_absent("claim", "second")
        assert store.read_text("claim") == "second"

    def test_of_many_threads_exactly_one_claims(self, store):
        for round_ in range(5):
            name = f"claims/{round_}"
            texts = [f"claimant {n} " * 2000 for n in range(8)]
            barrier = threading.Barrier(len(texts))

            def claim(text, name=name, barrier=barrier):
                barrier.wait()
                try:
                    store.write_text_if_absent(name, text)
                except AlreadyExists:
                    # The winner's text is whole as soon as there is a loser.
                    return store.read_text(name), False
                return text, True

            with ThreadPoolExecutor(len(texts)) as pool:
                results = list(pool.map(claim, texts))
            winners = [text for text, won in results if won]
            assert len(winners) == 1
            assert {text for text, _ in results} == set(winners)
            assert store.read_text(name) == winners[0]

    # --- compare and set

    def test_compare_and_set(self, store):
        store.write_text("counter", "1")
        first = store.read_versioned("counter")
        second = store.write_text_if_match("counter", "2", first.version)
        assert store.read_versioned("counter") == ("2", second)
        assert second != first.version
        with pytest.raises(ObjectChanged):
            store.write_text_if_match("counter", "3", first.version)
        assert store.read_text("counter") == "2"
        store.write_text_if_match("counter", "3", second)
        assert store.read_text("counter") == "3"

    def test_every_write_returns_the_token_of_its_text(self, store):
        written = store.write_text("object", "a")
        assert store.read_versioned("object").version == written
        claimed = store.write_text_if_absent("other", "b")
        assert store.read_versioned("other").version == claimed

    def test_an_unconditional_write_makes_older_tokens_stale(self, store):
        token = store.write_text("object", "a")
        store.write_text("object", "b")
        with pytest.raises(ObjectChanged):
            store.write_text_if_match("object", "c", token)

    def test_compare_and_set_of_a_missing_object_is_a_lost_race(self, store):
        token = store.write_text("object", "a")
        store.delete("object")
        with pytest.raises(ObjectChanged):
            store.write_text_if_match("object", "b", token)
        assert not store.exists("object")

    def test_a_token_of_another_object_does_not_match(self, store):
        token = store.write_text("one", "a")
        store.write_text("two", "b")
        with pytest.raises(ObjectChanged):
            store.write_text_if_match("two", "c", token)

    def test_threads_lose_no_increment(self, store):
        store.write_text("counter", "0")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: object_workers.increment(store, "counter", 8), range(4)))
        assert store.read_text("counter") == str(4 * 8)

    def test_readers_never_see_a_part(self, store):
        texts = [f"{n}:" + str(n) * 50_000 for n in range(4)]
        store.write_text("object", texts[0])
        done = threading.Event()
        seen = set()

        def read():
            while True:
                seen.add(store.read_text("object"))
                if done.is_set():
                    return

        with ThreadPoolExecutor(3) as pool:
            readers = [pool.submit(read) for _ in range(2)]
            try:
                for n in range(40):
                    store.write_text("object", texts[n % len(texts)])
            finally:
                done.set()
            for reader in readers:
                reader.result()
        assert seen
        assert seen <= set(texts)

    # --- exists and list

    def test_objects_and_non_empty_prefixes_exist(self, store):
        store.write_text("dir/sub/object", "x")
        assert store.exists("dir/sub/object")
        assert store.exists("dir/sub")
        assert store.exists("dir/sub/")
        assert store.exists("dir")
        assert store.exists("")
        assert not store.exists("dir/sub/obj")
        assert not store.exists("di")
        assert not store.exists("dir/other")
        store.delete("dir/sub/object")
        assert not store.exists("dir/sub/object")
        assert not store.exists("dir/sub")
        assert not store.exists("dir")
        assert not store.exists("")

    def test_list_is_sorted_and_keeps_to_its_prefix(self, store):
        names = ["a", "a/1", "a/2/x", "ab/1", "a.b", "b/a/1"]
        if not self.nests_objects:
            names.remove("a")
        for name in names:
            store.write_text(name, name)
        assert store.list() == sorted(names)
        assert store.list("a") == ["a/1", "a/2/x"]
        assert store.list("a/") == ["a/1", "a/2/x"]
        assert store.list("a/2") == ["a/2/x"]
        assert store.list("b/a") == ["b/a/1"]
        assert store.list("missing") == []

    def test_list_goes_beyond_one_page(self, store):
        names = [f"many/{n:04}" for n in range(self.many)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: store.write_text(name, ""), names))
        assert store.list("many") == names
        store.delete_prefix("many")
        assert store.list("many") == []

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_names_round_trip(self, store, name):
        store.write_text_if_absent(name, "one")
        version = store.read_versioned(name).version
        store.write_text_if_match(name, "two", version)
        assert store.list() == [name]
        assert store.exists(name)
        below = f"{name}/below/{name}"
        store.rename(name, "elsewhere")
        store.rename("elsewhere", below)
        assert store.list() == [below]
        assert store.list(name) == [below]
        assert store.read_text(below) == "two"
        store.delete_prefix(name)
        assert store.list() == []

    def test_composed_and_decomposed_letters_are_two_names(self, store):
        store.write_text("\u00e9", "composed")
        store.write_text("e\u0301", "decomposed")
        assert store.list() == ["e\u0301", "\u00e9"]
        assert store.read_text("\u00e9") == "composed"

    def test_losers_and_replacers_leave_no_residue(self, store):
        token = store.write_text_if_absent("dir/object", "1")
        with pytest.raises(AlreadyExists):
            store.write_text_if_absent("dir/object", "2")
        store.write_text_if_match("dir/object", "3", token)
        with pytest.raises(ObjectChanged):
            store.write_text_if_match("dir/object", "4", token)
        assert store.list() == ["dir/object"]

    # --- rename and delete

    def test_rename_moves_and_makes_parents(self, store):
        store.write_text("object", "text")
        store.rename("object", "new/parents/object")
        assert store.list() == ["new/parents/object"]
        assert store.read_text("new/parents/object") == "text"

    def test_rename_replaces_its_target(self, store):
        store.write_text("source", "new")
        store.write_text("target", "old")
        store.rename("source", "target")
        assert store.list() == ["target"]
        assert store.read_text("target") == "new"

    def test_rename_of_nothing_is_not_found_and_leaves_the_target(self, store):
        store.write_text("target", "old")
        with pytest.raises(ObjectNotFound):
            store.rename("missing", "target")
        with pytest.raises(ObjectNotFound):
            store.rename("missing", "missing")
        assert store.list() == ["target"]

    def test_rename_to_itself_keeps_the_object(self, store):
        store.write_text("object", "text")
        store.rename("object", "object")
        assert store.read_text("object") == "text"

    def test_delete_is_idempotent(self, store):
        store.delete("never/was")
        store.write_text("object", "x")
        store.delete("object")
        store.delete("object")
        assert store.list() == []

    def test_delete_of_a_prefix_name_touches_nothing_below_it(self, store):
        store.write_text("dir/object", "x")
        store.delete("dir")
        assert store.list() == ["dir/object"]

    def test_delete_prefix_takes_all_below_it_and_nothing_beside_it(self, store):
        for name in ["dir/1", "dir/sub/2", "dir/sub/deep/3", "dirt/4", "other/5"]:
            store.write_text(name, "x")
        store.delete_prefix("dir")
        assert store.list() == ["dirt/4", "other/5"]
        store.delete_prefix("dir")
        store.delete_prefix("dirt/")
        store.delete_prefix("never/was")
        assert store.list() == ["other/5"]

    def test_delete_prefix_leaves_an_object_of_that_very_name(self, store):
        store.write_text("object", "x")
        store.delete_prefix("object")
        assert store.read_text("object") == "x"

    def test_listing_while_others_write_and_delete(self, store):
        store.write_text("busy/anchor", "x")
        done = threading.Event()

        def churn(n):
            for round_ in range(15):
                store.write_text(f"busy/{n}-{round_}", "x")
                store.delete(f"busy/{n}-{round_}")

        def watch():
            while not done.is_set():
                assert "busy/anchor" in store.list("busy")

        with ThreadPoolExecutor(3) as pool:
            watcher = pool.submit(watch)
            try:
                list(pool.map(churn, range(2)))
            finally:
                done.set()
            watcher.result()
        assert store.list("busy") == ["busy/anchor"]


class SharedContract:
    """What several processes on one store may rely on."""

    def test_of_many_processes_exactly_one_claims(self, store, place, environment):
        names = [f"claims/{n}" for n in range(12)]
        results = run_processes(object_workers.claim_all, [(place, environment, names)] * 4)
        for name in names:
            winners = [won[name] for won in results if name in won]
            assert len(winners) == 1
            assert store.read_text(name) == winners[0]

    def test_processes_lose_no_increment(self, store, place, environment):
        store.write_text("counter", "0")
        run_processes(object_workers.increment_at, [(place, environment, "counter", 25)] * 4)
        assert store.read_text("counter") == str(4 * 25)

    def test_a_forked_child_is_refused_and_does_not_hang(self, store):
        store.write_text("object", "x")
        assert object_workers.in_forked_child(lambda: store.read_text("object")) == (
            Unavailable.__name__,
            True,
        )
        assert store.read_text("object") == "x"

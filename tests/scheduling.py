"""Which tests one worker runs together, and in which order, when the suite runs in more than one."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

# Longest first, so that the workers end together. A directory is one unit as a whole: a process has
# one Spark session, and a cluster takes the machine.
FIRST = (
    "tests/spark/",
    "tests/faults/matrix/test_cut_points.py",
    "tests/histories/test_histories.py",
    "tests/faults/fuzz/test_fuzz.py",
    "tests/faults/kills/test_kills.py",
    "tests/faults/test_queueing.py",
    "tests/faults/test_crash_matrix.py",
    "tests/faults/test_branch_remade_s3.py",
    "tests/faults/test_branch_remade.py",
    "tests/read/test_text_match.py",
    "tests/cli/test_process.py",
    "tests/conformance/test_conformance.py",
    "tests/write/test_model.py",
    "tests/s3/test_network_s3.py",
    "tests/faults/test_commit_s3.py",
    "tests/faults/test_queueing_s3.py",
    "tests/read/test_metamorphic.py",
    "tests/cli/test_manual.py",
)

# What `./dev test --quick` leaves out.
LONG = (
    "tests/cli",
    "tests/faults",
    "tests/histories",
    "tests/maintenance",
    "tests/s3",
    "tests/spark",
    "tests/changes/test_export.py",
    "tests/changes/test_histories.py",
    "tests/graph/test_blobs.py",
    "tests/graph/test_live_schema.py",
    "tests/manifest/test_forwards.py",
    "tests/manifest/test_random_histories.py",
    "tests/merge/test_merge.py",
    "tests/merge/test_merge_model.py",
    "tests/pipeline/test_datasource_merge.py",
    "tests/pipeline/test_datasource_write.py",
    "tests/pipeline/test_edge_ids.py",
    "tests/pipeline/test_feed_stream.py",
    "tests/pipeline/test_load.py",
    "tests/pipeline/test_load_modes.py",
    "tests/pipeline/test_records_property.py",
    "tests/policy/test_every_method.py",
    "tests/read/test_against_duckdb.py",
    "tests/read/test_against_kuzu.py",
    "tests/read/test_concurrent.py",
    "tests/read/test_cyclic_patterns.py",
    "tests/read/test_engine.py",
    "tests/read/test_engine_search.py",
    "tests/read/test_frontier.py",
    "tests/read/test_hops.py",
    "tests/read/test_measures.py",
    "tests/read/test_metamorphic.py",
    "tests/read/test_order.py",
    "tests/read/test_overlay.py",
    "tests/read/test_pairs.py",
    "tests/read/test_predicates.py",
    "tests/read/test_ranking.py",
    "tests/read/test_stopping.py",
    "tests/read/test_text_match.py",
    "tests/read/test_twins.py",
    "tests/read/test_whole_sums.py",
    "tests/runner/test_local_runner.py",
    "tests/storage/test_lance_behaviour.py",
    "tests/storage/test_literals.py",
    "tests/storage/test_tables.py",
    "tests/test_examples.py",
    "tests/validate/test_set_rules.py",
    "tests/write/test_model.py",
    "tests/write/test_operation_ids.py",
    "tests/write/test_races.py",
    "tests/write/test_remade_model.py",
    "tests/write/test_schema_apply.py",
)


class Schedule(LoadScopeScheduling):
    """Whole files go to the workers, and `tests/spark` as if it were one file.

    The option `--dist loadgroup` would do, but xdist 3.8 cannot name groups under pytest 9.2.
    """

    def __init__(self, config, log):
        super().__init__(config, log)
        self.config.option.loadscopereorder = False  # the collection is in order

    def _split_scope(self, nodeid):
        return unit(nodeid)


def unit(nodeid: str) -> str:
    """What the worker that runs this test runs all of."""
    return next((long for long in FIRST if nodeid.startswith(long)), nodeid.partition("::")[0])


def is_long(path: str) -> bool:
    """Whether a file or directory takes long as a whole."""
    return path in LONG


def rank(nodeid: str) -> int:
    """Where its unit comes in the order."""
    first = unit(nodeid)
    return FIRST.index(first) if first in FIRST else len(FIRST)

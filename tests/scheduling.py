"""Which tests one worker runs together, and in which order, when the suite runs in more than one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from xdist.scheduler import LoadScopeScheduling

# A process has one Spark session, which starts for half a minute: what is on Spark runs in two units, one
# of loads and one of the rest, which take about as long.
SPARK = "tests/spark/"
SPARK_LOADS = "Spark loads"
LOADS_ON_SPARK = (
    "test_at_home.py",
    "test_daily_orders.py",
    "test_differential.py",
    "test_edge_ids.py",
    "test_load.py",
    "test_load_modes.py",
    "test_odd_frames.py",
    "test_one_pass.py",
    "test_provider.py",
    "test_remade.py",
    "test_same_rows.py",
    "test_vectors.py",
    "test_ways.py",
)

# One browser, and one server that it looks at.
EXPLORER = "tests/explorer/"

# Longest first, so that the workers end together; and what waits most of its time while Spark keeps the cores busy.
FIRST = (
    SPARK,
    SPARK_LOADS,
    EXPLORER,
    "tests/client/test_parity.py",
    "tests/conformance/test_conformance.py",
    "tests/faults/kills/test_kills.py",
    "tests/faults/matrix/test_cut_points.py",
    "tests/faults/test_remade_reads.py",
    "tests/server/test_surfaces.py",
    "tests/faults/test_commit_s3.py",
    "tests/cli/test_process.py",
    "tests/histories/schemas/test_schema_histories.py",
    "tests/histories/test_histories.py",
    "tests/faults/test_crash_matrix.py",
    "tests/s3/test_network_s3.py",
    "tests/maintenance/damage/test_indexes_are_not_needed.py",
    "tests/faults/test_branch_remade_s3.py",
    "tests/faults/test_branch_remade.py",
    "tests/faults/test_schema_branch_s3.py",
    "tests/faults/test_schema_branch_pause.py",
    "tests/maintenance/damage/test_verify.py",
    "tests/moving/test_moved_s3.py",
    "tests/server/test_generated_requests.py",
    "tests/faults/test_commit_races.py",
    "tests/read/test_kept.py",
    "tests/cli/test_surfaces.py",
    "tests/cli/test_positionals.py",
    "tests/faults/test_queueing.py",
    "tests/faults/test_schema_apply_crash.py",
    "tests/moving/test_moved.py",
    "tests/server/test_serving.py",
    "tests/cli/test_manual.py",
    "tests/cli/test_load_terminal.py",
    "tests/faults/fuzz/test_fuzz.py",
    "tests/faults/acid/test_processes.py",
    "tests/faults/test_queueing_s3.py",
    "tests/server/test_protocol.py",
    "tests/read/test_text_match.py",
    "tests/read/test_metamorphic.py",
    "tests/write/test_model.py",
)

# What `./dev test --quick` leaves out.
LONG = (
    "tests/cli",
    "tests/explorer",
    "tests/faults",
    "tests/histories",
    "tests/maintenance",
    "tests/mcp",
    "tests/moving",
    "tests/s3",
    "tests/server",
    "tests/spark",
    "tests/changes/test_entity_history_walk.py",
    "tests/changes/test_export.py",
    "tests/changes/test_histories.py",
    "tests/changes/test_old_versions.py",
    "tests/changes/test_replay.py",
    "tests/changes/test_short_images.py",
    "tests/client/test_addressing.py",
    "tests/client/test_client.py",
    "tests/client/test_parity.py",
    "tests/cluster/test_bad_input.py",
    "tests/cluster/test_kills.py",
    "tests/cluster/test_processes.py",
    "tests/graph/test_blobs.py",
    "tests/graph/test_live_schema.py",
    "tests/graph/test_put_back.py",
    "tests/lang/query/test_fuzz.py",
    "tests/lang/query/test_parser_choice.py",
    "tests/lang/schema/merge/test_properties.py",
    "tests/manifest/test_forwards.py",
    "tests/manifest/test_random_histories.py",
    "tests/merge/test_decide.py",
    "tests/merge/test_merge.py",
    "tests/merge/test_merge_model.py",
    "tests/merge/test_words_with_changes.py",
    "tests/oracle/test_mutants.py",
    "tests/pipeline/test_bounded_input.py",
    "tests/pipeline/test_datasource_merge.py",
    "tests/pipeline/test_datasource_write.py",
    "tests/pipeline/test_edge_ids.py",
    "tests/pipeline/test_feed_stream.py",
    "tests/pipeline/test_load.py",
    "tests/pipeline/test_load_modes.py",
    "tests/pipeline/test_local_proof.py",
    "tests/pipeline/test_records_property.py",
    "tests/pipeline/test_tuple_ids.py",
    "tests/policy/test_every_method.py",
    "tests/policy/test_every_operation.py",
    "tests/read/test_against_duckdb.py",
    "tests/read/test_against_kuzu.py",
    "tests/read/test_aggregate.py",
    "tests/read/test_concurrent.py",
    "tests/read/test_conditions.py",
    "tests/read/test_copies.py",
    "tests/read/test_csr.py",
    "tests/read/test_cyclic_patterns.py",
    "tests/read/test_engine.py",
    "tests/read/test_engine_search.py",
    "tests/read/test_expressions.py",
    "tests/read/test_extended.py",
    "tests/read/test_extended_against_duckdb.py",
    "tests/read/test_frontier.py",
    "tests/read/test_grouped_values.py",
    "tests/read/test_hops.py",
    "tests/read/test_kept.py",
    "tests/read/test_measures.py",
    "tests/read/test_metamorphic.py",
    "tests/read/test_order.py",
    "tests/read/test_outdated.py",
    "tests/read/test_overlay.py",
    "tests/read/test_pairs.py",
    "tests/read/test_predicates.py",
    "tests/read/test_ranking.py",
    "tests/read/test_row_changes.py",
    "tests/read/test_stopping.py",
    "tests/read/test_text_match.py",
    "tests/read/test_twins.py",
    "tests/read/test_whole_sums.py",
    "tests/read/test_wide_queries.py",
    "tests/runner/test_local_runner.py",
    "tests/storage/test_btree_files.py",
    "tests/storage/test_lance_behaviour.py",
    "tests/storage/test_literals.py",
    "tests/storage/test_tables.py",
    "tests/test_docs.py",
    "tests/test_examples.py",
    "tests/test_install.py",
    "tests/test_typing.py",
    "tests/types/test_columns.py",
    "tests/validate/test_set_rules.py",
    "tests/write/test_branch_needs.py",
    "tests/write/test_commit_messages.py",
    "tests/write/test_default_columns.py",
    "tests/write/test_equal_field_numbers.py",
    "tests/write/test_group_model.py",
    "tests/write/test_model.py",
    "tests/write/test_operation_ids.py",
    "tests/write/test_races.py",
    "tests/write/test_remade_model.py",
    "tests/write/test_schema_apply.py",
    "tests/write/test_whole_model.py",
    "tests/write/test_whole_mutations.py",
)

# Of these, `./dev test --quick` runs the first of every four tests of each file: their tests make graphs.
QUARTERED = (
    "tests/algorithms/",
    "tests/changes/",
    "tests/client/",
    "tests/cluster/",
    "tests/commit/",
    "tests/conformance/",
    "tests/graph/",
    "tests/manifest/",
    "tests/merge/",
    "tests/oracle/",
    "tests/pipeline/",
    "tests/policy/",
    "tests/read/",
    "tests/runner/",
    "tests/storage/",
    "tests/write/",
)
GUARDS = "_guard.py"
"""How the names of files end that guard the source, and run whole."""

# What only `./dev faults` runs, or whoever names it: long, and about what rarely changes.
ONLY_NAMED = (
    "tests/faults/model",
    "tests/spark/test_archive_build.py",
    "tests/spark/test_kubernetes.py",
)


class Schedule(LoadScopeScheduling):
    """Whole files go to the workers, and `tests/spark` as if it were two.

    The option `--dist loadgroup` would do, but xdist 3.8 cannot name groups under pytest 9.2.
    """

    def __init__(self, config, log):
        super().__init__(config, log)
        self.config.option.loadscopereorder = False  # the collection is in order
        self._fatal: set[str] = set()

    def _split_scope(self, nodeid):
        return unit(nodeid)

    def remove_node(self, node):
        """A test in which a process ended has failed: another process runs the rest of its unit."""
        units = self.assigned_work[node].values()
        pending = (test for unit in units for test, is_done in unit.items() if not is_done)
        self._fatal.update(itertools.islice(pending, 1))
        return super().remove_node(node)

    def _assign_work_unit(self, node):
        tests = next(iter(self.workqueue.values()))
        tests.update(dict.fromkeys(self._fatal & tests.keys(), True))
        super()._assign_work_unit(node)


def unit(nodeid: str) -> str:
    """What the worker that runs this test runs all of."""
    file = nodeid.partition("::")[0]
    if file.startswith(EXPLORER):
        return EXPLORER
    if not file.startswith(SPARK) or file in ONLY_NAMED:
        return file
    return SPARK_LOADS if file.removeprefix(SPARK) in LOADS_ON_SPARK else SPARK


def is_left_out(path: str, *, quick: bool) -> bool:
    """Whether a run leaves out this file or directory, unless it is named."""
    return path in ONLY_NAMED or (quick and path in LONG)


def quick_sample(nodeids: Sequence[str]) -> set[str]:
    """Which of the tests run in `./dev test --quick`, of those in files that are not left out."""
    kept, met = set(), Counter[str]()
    for nodeid in nodeids:
        file = nodeid.partition("::")[0]
        is_whole = not file.startswith(QUARTERED) or file.endswith(GUARDS)
        if is_whole or met[file] % 4 == 0:
            kept.add(nodeid)
        met[file] += 1
    return kept


def rank(nodeid: str) -> int:
    """Where its unit comes in the order."""
    first = unit(nodeid)
    return FIRST.index(first) if first in FIRST else len(FIRST)

"""Two appliers in two processes, on a disk."""

from tests.cluster.processes import check_two_appliers

CONFIG = "version: 1\ngraphs: { library: { schema: library.pg, queries: reads.gq } }\n"


def test_one_works_and_the_other_says_who_holds_the_lock(cluster, launcher):
    cluster.config(CONFIG)
    check_two_appliers(cluster, launcher, {})

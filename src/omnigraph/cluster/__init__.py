"""Clusters as code: a directory declares graphs, schemas, queries and policies, and commands bring them into force.

    declared/        what the directory says: resources, digests, and everything that is wrong with it
    stored/          what lies under `__cluster`: ledger, lock, catalogue blobs, approvals, recovery files
    planned_changes  (declared, ledger, approvals) -> changes, each with what becomes of it
    outcomes         (recovery file, what is seen of the graph) -> what the next command does about it
    graph_moves      create, migrate and delete graphs, each with a recovery file around it

`planned_changes` and `outcomes` are functions from values to values; the commands (`planning`, `apply`, `commands`)
do the rest.
"""

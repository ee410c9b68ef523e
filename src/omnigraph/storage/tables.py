"""The one table surface: everything the engine may do to Lance tables, reads and *staged* writes.

Nothing outside ``storage/`` calls a Lance method that commits; a test walks the source. What Lance
cannot stage lives behind the separate, honestly named face ``inline_residual``.
"""

from __future__ import annotations

from omnigraph.storage.branch_refs import TableBranch
from omnigraph.storage.indexes import (
    Coverage,
    IndexKind,
    IndexState,
    build_segment,
    coverage,
    index_name,
    list_indexes,
    stage_create_index,
    stage_drop_index,
    stage_index_segments,
)
from omnigraph.storage.pushdown import Condition, Pushdown, filter_expression
from omnigraph.storage.staging import (
    RowCounts,
    Staged,
    new_transaction_uuid,
    stage_append,
    stage_append_fragments,
    stage_delete,
    stage_delete_keys,
    stage_merge_insert,
    stage_overwrite,
    stage_overwrite_fragments,
    stage_replace_rows,
    with_uuid,
    write_fragments,
)
from omnigraph.storage.table import (
    DATA_STORAGE_VERSION,
    PRIMARY_KEY,
    Delta,
    Table,
    TableRef,
    create_table,
    open_table,
    table_exists,
)
from omnigraph.storage.table_branches import (
    create_branch,
    delete_branch,
    list_branches,
    remove_residue,
)
from omnigraph.storage.table_commits import commit_staged, merge_insert_exclusive
from omnigraph.storage.table_errors import (
    CommitMisplaced,
    NothingToIndex,
    RowCollision,
    TableMissing,
    TableMoved,
    VersionMissing,
)
from omnigraph.storage.transactions import (
    Operation,
    TransactionFacts,
    transaction_at,
    transaction_uuid,
    transactions_after,
)

__all__ = [
    "DATA_STORAGE_VERSION",
    "PRIMARY_KEY",
    "CommitMisplaced",
    "Condition",
    "Coverage",
    "Delta",
    "IndexKind",
    "IndexState",
    "NothingToIndex",
    "Operation",
    "Pushdown",
    "RowCollision",
    "RowCounts",
    "Staged",
    "Table",
    "TableBranch",
    "TableMissing",
    "TableMoved",
    "TableRef",
    "TransactionFacts",
    "VersionMissing",
    "build_segment",
    "commit_staged",
    "coverage",
    "create_branch",
    "create_table",
    "delete_branch",
    "filter_expression",
    "index_name",
    "list_branches",
    "list_indexes",
    "merge_insert_exclusive",
    "new_transaction_uuid",
    "open_table",
    "remove_residue",
    "stage_append",
    "stage_append_fragments",
    "stage_create_index",
    "stage_delete",
    "stage_delete_keys",
    "stage_drop_index",
    "stage_index_segments",
    "stage_merge_insert",
    "stage_overwrite",
    "stage_overwrite_fragments",
    "stage_replace_rows",
    "table_exists",
    "transaction_at",
    "transaction_uuid",
    "transactions_after",
    "with_uuid",
    "write_fragments",
]

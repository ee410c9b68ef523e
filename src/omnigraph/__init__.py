"""A typed property graph that branches, merges and time-travels like Git, stored in Lance tables.

The public names load on first use, so importing the package is cheap::

    import omnigraph as og

    schema = og.parse_schema("node Person { name: String @key }")
    report = og.lint(schema, "query all() { match { $p: Person } return { $p.name } }")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.version import __version__

if TYPE_CHECKING:
    from omnigraph import errors as errors
    from omnigraph import policy as policy
    from omnigraph import spark as spark
    from omnigraph.algorithms.result import AlgorithmResult as AlgorithmResult
    from omnigraph.cancel import Cancel as Cancel
    from omnigraph.changes.diff import Change as Change
    from omnigraph.changes.diff_result import DiffPage as DiffPage
    from omnigraph.changes.diff_result import DiffResult as DiffResult
    from omnigraph.changes.diff_result import DiffStats as DiffStats
    from omnigraph.changes.entity_history.results import EntityBlame as EntityBlame
    from omnigraph.changes.entity_history.results import EntityHistory as EntityHistory
    from omnigraph.changes.entity_history.results import HistoryEntry as HistoryEntry
    from omnigraph.changes.entity_stream import EntityStream as EntityStream
    from omnigraph.changes.export.write_export import ExportResult as ExportResult
    from omnigraph.changes.export.write_export import ExportStats as ExportStats
    from omnigraph.changes.feed.commit_changes import ChangeBlock as ChangeBlock
    from omnigraph.changes.feed.commit_changes import CommitChanges as CommitChanges
    from omnigraph.changes.feed.poll import BaselineResult as BaselineResult
    from omnigraph.changes.feed.poll import ChangePage as ChangePage
    from omnigraph.embeddings.embedder import Embedder as Embedder
    from omnigraph.embeddings.embedding_settings import EmbeddingSettings as EmbeddingSettings
    from omnigraph.graph import Graph as Graph
    from omnigraph.graph import Session as Session
    from omnigraph.graph import at as at
    from omnigraph.graph import init as init
    from omnigraph.graph import open as open
    from omnigraph.graph.facets.blobs import BlobFile as BlobFile
    from omnigraph.graph.facets.blobs import BlobStat as BlobStat
    from omnigraph.graph.facets.schema import ShownSchema as ShownSchema
    from omnigraph.lang.query.lint import LintReport as LintReport
    from omnigraph.lang.schema.catalog import Catalog as Catalog
    from omnigraph.lang.schema.compile import Compiled as Compiled
    from omnigraph.lang.schema.migrate.plan_steps import SchemaStep as SchemaStep
    from omnigraph.lang.schema.migrate.schema_change import SchemaChange as SchemaChange
    from omnigraph.language import lint as lint
    from omnigraph.language import parse_schema as parse_schema
    from omnigraph.maintenance.purge.purge_report import PurgeReport as PurgeReport
    from omnigraph.maintenance.reports import CleanupReport as CleanupReport
    from omnigraph.maintenance.reports import CleanupRow as CleanupRow
    from omnigraph.maintenance.reports import OptimizeReport as OptimizeReport
    from omnigraph.maintenance.reports import OptimizeRow as OptimizeRow
    from omnigraph.maintenance.reports import RepairReport as RepairReport
    from omnigraph.maintenance.reports import RepairRow as RepairRow
    from omnigraph.maintenance.status import Status as Status
    from omnigraph.maintenance.status import TableStatus as TableStatus
    from omnigraph.maintenance.status_advice import Advice as Advice
    from omnigraph.maintenance.verify.report import Problem as Problem
    from omnigraph.maintenance.verify.report import VerifiedTable as VerifiedTable
    from omnigraph.maintenance.verify.report import VerifyReport as VerifyReport
    from omnigraph.manifest.history.history import History as History
    from omnigraph.manifest.history.tags import Tag as Tag
    from omnigraph.manifest.refs import BranchCreated as BranchCreated
    from omnigraph.manifest.rows import GraphCommit as GraphCommit
    from omnigraph.manifest.rows import TableState as TableState
    from omnigraph.manifest.snapshot import Snapshot as Snapshot
    from omnigraph.manifest.snapshot import Target as Target
    from omnigraph.pipeline.load_plan import LoadResult as LoadResult
    from omnigraph.pipeline.progress import Progress as Progress
    from omnigraph.read.explain import Explanation as Explanation
    from omnigraph.read.limits import ReadLimits as ReadLimits
    from omnigraph.read.output.query_result import QueryResult as QueryResult
    from omnigraph.read.profile import Profiled as Profiled
    from omnigraph.write.blobs import BlobWritten as BlobWritten
    from omnigraph.write.embed import EmbedResult as EmbedResult
    from omnigraph.write.index_builds import IndexReport as IndexReport
    from omnigraph.write.merge.decided import MergeConflict as MergeConflict
    from omnigraph.write.merge.request import MergeResult as MergeResult
    from omnigraph.write.merge.request import MergeStats as MergeStats
    from omnigraph.write.mutate import MutationResult as MutationResult
    from omnigraph.write.schema_apply import SchemaApplied as SchemaApplied
    from omnigraph.write.schema_apply import SchemaPlan as SchemaPlan

__all__ = [
    "Advice",
    "AlgorithmResult",
    "BaselineResult",
    "BlobFile",
    "BlobStat",
    "BlobWritten",
    "BranchCreated",
    "Cancel",
    "Catalog",
    "Change",
    "ChangeBlock",
    "ChangePage",
    "CleanupReport",
    "CleanupRow",
    "CommitChanges",
    "Compiled",
    "DiffPage",
    "DiffResult",
    "DiffStats",
    "EmbedResult",
    "Embedder",
    "EmbeddingSettings",
    "EntityBlame",
    "EntityHistory",
    "EntityStream",
    "Explanation",
    "ExportResult",
    "ExportStats",
    "Graph",
    "GraphCommit",
    "History",
    "HistoryEntry",
    "IndexReport",
    "LintReport",
    "LoadResult",
    "MergeConflict",
    "MergeResult",
    "MergeStats",
    "MutationResult",
    "OptimizeReport",
    "OptimizeRow",
    "Problem",
    "Profiled",
    "Progress",
    "PurgeReport",
    "QueryResult",
    "ReadLimits",
    "RepairReport",
    "RepairRow",
    "SchemaApplied",
    "SchemaChange",
    "SchemaPlan",
    "SchemaStep",
    "Session",
    "ShownSchema",
    "Snapshot",
    "Status",
    "TableState",
    "TableStatus",
    "Tag",
    "Target",
    "VerifiedTable",
    "VerifyReport",
    "__version__",
    "at",
    "errors",
    "init",
    "lint",
    "open",
    "parse_schema",
    "policy",
]

_HOMES = {
    "Advice": "omnigraph.maintenance.status_advice",
    "AlgorithmResult": "omnigraph.algorithms.result",
    "BaselineResult": "omnigraph.changes.feed.poll",
    "BlobFile": "omnigraph.graph.facets.blobs",
    "BlobStat": "omnigraph.graph.facets.blobs",
    "ShownSchema": "omnigraph.graph.facets.schema",
    "BlobWritten": "omnigraph.write.blobs",
    "BranchCreated": "omnigraph.manifest.refs",
    "Cancel": "omnigraph.cancel",
    "Catalog": "omnigraph.lang.schema.catalog",
    "Change": "omnigraph.changes.diff",
    "ChangeBlock": "omnigraph.changes.feed.commit_changes",
    "ChangePage": "omnigraph.changes.feed.poll",
    "PurgeReport": "omnigraph.maintenance.purge.purge_report",
    "CleanupReport": "omnigraph.maintenance.reports",
    "CleanupRow": "omnigraph.maintenance.reports",
    "CommitChanges": "omnigraph.changes.feed.commit_changes",
    "Compiled": "omnigraph.lang.schema.compile",
    "DiffPage": "omnigraph.changes.diff_result",
    "DiffResult": "omnigraph.changes.diff_result",
    "DiffStats": "omnigraph.changes.diff_result",
    "EmbedResult": "omnigraph.write.embed",
    "Embedder": "omnigraph.embeddings.embedder",
    "EmbeddingSettings": "omnigraph.embeddings.embedding_settings",
    "EntityBlame": "omnigraph.changes.entity_history.results",
    "EntityHistory": "omnigraph.changes.entity_history.results",
    "EntityStream": "omnigraph.changes.entity_stream",
    "Explanation": "omnigraph.read.explain",
    "ExportResult": "omnigraph.changes.export.write_export",
    "ExportStats": "omnigraph.changes.export.write_export",
    "Graph": "omnigraph.graph",
    "GraphCommit": "omnigraph.manifest.rows",
    "History": "omnigraph.manifest.history.history",
    "HistoryEntry": "omnigraph.changes.entity_history.results",
    "IndexReport": "omnigraph.write.index_builds",
    "LintReport": "omnigraph.lang.query.lint",
    "LoadResult": "omnigraph.pipeline.load_plan",
    "MergeConflict": "omnigraph.write.merge.decided",
    "MergeResult": "omnigraph.write.merge.request",
    "MergeStats": "omnigraph.write.merge.request",
    "MutationResult": "omnigraph.write.mutate",
    "OptimizeReport": "omnigraph.maintenance.reports",
    "OptimizeRow": "omnigraph.maintenance.reports",
    "Problem": "omnigraph.maintenance.verify.report",
    "Profiled": "omnigraph.read.profile",
    "Progress": "omnigraph.pipeline.progress",
    "QueryResult": "omnigraph.read.output.query_result",
    "ReadLimits": "omnigraph.read.limits",
    "RepairReport": "omnigraph.maintenance.reports",
    "RepairRow": "omnigraph.maintenance.reports",
    "SchemaApplied": "omnigraph.write.schema_apply",
    "SchemaChange": "omnigraph.lang.schema.migrate.schema_change",
    "SchemaPlan": "omnigraph.write.schema_apply",
    "SchemaStep": "omnigraph.lang.schema.migrate.plan_steps",
    "Session": "omnigraph.graph",
    "Snapshot": "omnigraph.manifest.snapshot",
    "Status": "omnigraph.maintenance.status",
    "TableState": "omnigraph.manifest.rows",
    "TableStatus": "omnigraph.maintenance.status",
    "Tag": "omnigraph.manifest.history.tags",
    "Target": "omnigraph.manifest.snapshot",
    "VerifiedTable": "omnigraph.maintenance.verify.report",
    "VerifyReport": "omnigraph.maintenance.verify.report",
    "at": "omnigraph.graph",
    "init": "omnigraph.graph",
    "lint": "omnigraph.language",
    "open": "omnigraph.graph",
    "parse_schema": "omnigraph.language",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value: object = getattr(import_module(_HOMES[name]), name)
    elif name in __all__ or name == "spark":  # not listed, because it needs an extra
        value = import_module(f"omnigraph.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""A write from Spark without Spark: the plan, its tasks, and what lies on disk afterwards."""

from __future__ import annotations

import pickle
from pathlib import Path

from omnigraph.pipeline.datasource.options import write_options
from omnigraph.pipeline.datasource.write import plan_write, write_rows


def plan(graph, batches, overwrite=False, **options):
    asked = write_options({"graph": graph.uri, "type": "Person", **options})
    accepted = graph.schema.pinned()
    made = plan_write(graph.workspace, accepted, asked, batches[0].schema, overwrite=overwrite)
    return pickle.loads(pickle.dumps(made))


def run_tasks(made, batches):
    """One task for each batch, which it gets in pieces."""
    return [
        pickle.loads(pickle.dumps(write_rows(made, pieces(batch), number)))
        for number, batch in enumerate(batches)
    ]


def pieces(batch):
    return [batch.slice(at, 2) for at in range(0, batch.num_rows, 2)] or [batch]


def data_files(graph):
    """The data files of all tables, on all branches."""
    root = Path(graph.root.path)
    found = (path for kind in ("nodes", "edges") for path in root.glob(f"{kind}/**/data/**/*"))
    return sorted(str(path) for path in found if path.is_file())


def commits(graph, branch="main"):
    return len(graph.commits.list(branch))

"""A write from Spark without Spark: its plan, its tasks, and what they leave behind."""

import pickle
from pathlib import Path

from omnigraph.errors import OmniGraphError
from omnigraph.pipeline.datasource.commit import commit_rows
from omnigraph.pipeline.datasource.options import write_options
from omnigraph.pipeline.datasource.write import discard_rows, plan_write, write_rows
from omnigraph.storage.tables.table import open_table
from tests.opened import accepted_by, workspace_of


def plan(graph, batches, overwrite=False, **options):
    asked = write_options({"graph": graph.uri, "type": "Person", **options})
    accepted = accepted_by(graph)
    made = plan_write(workspace_of(graph), accepted, asked, batches[0].schema, overwrite=overwrite)
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
    root = Path(workspace_of(graph).root.path)
    found = (path for kind in ("nodes", "edges") for path in root.glob(f"{kind}/**/data/**/*"))
    return sorted(str(path) for path in found if path.is_file())


def loose_files(graph):
    """The data files that no version of a table refers to."""
    pins = graph.snapshot().tables.values()
    tables = [open_table(workspace_of(graph).pinned(pin)) for pin in pins]
    versions = [open_table(one.ref.at(number)) for one in tables for number in one.versions()]
    named = {file.path for one in versions for f in one.fragments() for file in f.files}
    return [path for path in data_files(graph) if path.rpartition("/")[2] not in named]


def commits(graph, branch="main"):
    return len(graph.commits.list(branch))


def write(graph, *batches, **options):
    """As Spark does it: tasks, then the commit; an abort when that fails."""
    made = plan(graph, batches, **options)
    written = run_tasks(made, batches)
    try:
        return commit_rows(workspace_of(graph), made, written)
    except OmniGraphError:
        discard_rows(made, written)
        raise

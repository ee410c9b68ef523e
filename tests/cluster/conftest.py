"""Directories of clusters, written as files."""

from __future__ import annotations

import pytest

from omnigraph.cluster.declared.diagnostics import Diagnostics, Refused
from omnigraph.cluster.declared.read_resources import read_declared

SCHEMA = "node Author {\n    name: String @key\n}\n"
QUERIES = "query authors() {\n    match { $a: Author }\n    return { $a.name }\n}\n"
POLICY = """version: 1
groups: { readers: [rita] }
rules:
  - id: r
    allow: { actors: { group: readers }, actions: [read], branch_scope: any }
"""
SERVER_POLICY = """version: 1
groups: { ops: [ada] }
rules:
  - id: l
    allow: { actors: { group: ops }, actions: [graph_list] }
"""
CONFIG = """version: 1
graphs:
  library:
    schema: library.pg
    queries: reads.gq
policies:
  team: { file: team.yaml, applies_to: [library] }
"""


class Cluster:
    """A directory that tests write and read."""

    def __init__(self, path):
        self.path = path
        self.write("library.pg", SCHEMA)
        self.write("reads.gq", QUERIES)
        self.write("team.yaml", POLICY)
        self.write("ops.yaml", SERVER_POLICY)
        self.config(CONFIG)

    def write(self, name, content):
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())

    def config(self, text):
        self.write("cluster.yaml", text)

    def read(self, reserved=()):
        """What the directory declares, if it could be read, and the diagnostics."""
        found = Diagnostics()
        try:
            return read_declared(str(self.path), found, reserved).desired, found
        except Refused:
            return None, found

    def codes(self, reserved=()):
        return {(one.code.value, one.path) for one in self.read(reserved)[1]}


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)

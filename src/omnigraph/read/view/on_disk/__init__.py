"""Numbered states of tables on disk: kept once they are numbered, found again by other processes.

``kept_states`` is the door: it finds the states that a reader may start from, and keeps new ones. ``state_key``
names a state, ``node_file`` and ``edge_files`` turn its nodes and edges into arrays and back. The files
themselves are those of ``read.kept``.
"""

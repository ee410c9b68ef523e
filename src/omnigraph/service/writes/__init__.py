"""The operations that change a graph: loads, mutations, branches, merges, tags, the schema, maintenance.

Whoever asks is the actor of the session. Writers that make a commit take an ``operation_id`` and a
``message``.
"""

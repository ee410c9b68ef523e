"""One snapshot opened for reading: tables, numbered nodes and edges, properties, and the cache.

``view`` is the door. ``nodes``, ``edges`` and ``topology`` number entities, ``numbering`` decides whether
they come from the cache, from an older state (``row_changes``), from disk (``kept_states``) or from the table.
This room imports ``kept``, ``values`` and ``kernels``.
"""

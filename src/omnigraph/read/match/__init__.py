"""From a pattern to its rows.

``pattern`` says what is asked, ``lookups.access_path`` chooses the data (whole tables, or a ``neighbourhood`` that
``fetch`` reads), and ``solve`` gives the rows as ``bindings``. This room imports ``search`` and the rooms
below it.
"""

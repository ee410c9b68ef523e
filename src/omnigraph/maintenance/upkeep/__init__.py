"""Upkeep: writers keep the tables they write in shape, so that nobody has to call ``optimize``.

``keeper`` decides after each commit of a handle (by the rules of ``when``), ``upkeep`` does the work,
``background`` is the thread of handles that do not want to wait for it.
"""

"""Bulk work: reading sources into typed batches, and the jobs that move them.

The reading half is made of plain functions from values to Arrow, so that any runner may call it in
any process: ``sources`` says what there is to read, ``splits`` cuts it, ``records`` and ``frames``
make typed batches of it, ``ids`` gives the rows their ids.
"""

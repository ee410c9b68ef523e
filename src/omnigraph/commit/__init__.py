"""The commit protocol: one atomic graph commit over many tables, and recovery when it stops half way.

Phases, in code, logs and failpoint names: A sidecar written, B tables committed, C manifest
published, D sidecar deleted.
"""

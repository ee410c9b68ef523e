"""The commit protocol: one atomic graph commit over many tables, and recovery when it stops half way.

The phases have these names in code, logs and failpoints: A writes the sidecar, B commits the
tables, C publishes the manifest, D deletes the sidecar. docs/dev/commits.md tells the whole story.
"""

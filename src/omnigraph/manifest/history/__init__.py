"""The commit graph: commit records, ancestry, tags, and the snapshots that targets name."""

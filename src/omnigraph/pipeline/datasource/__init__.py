"""The Spark data source `omnigraph` without Spark itself: its options, reading, writing, committing."""

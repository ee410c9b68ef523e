"""What a graph groups by topic: branches, tags, commits, the schema, the change feed, blobs."""

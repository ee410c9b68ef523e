"""Writers besides loads: mutations, merges and reverts, schema changes, blobs, vectors, branches and tags."""

"""Writers besides loads: mutations, branches, index builds and compaction."""

"""Three-way merge of branches, and revert: decide, check, stage and publish."""

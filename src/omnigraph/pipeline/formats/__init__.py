"""From JSON lines, frames and files of columns to typed batches, one per table."""

"""Parts of what Lance stores that it offers no functions for: protobuf messages and the versions of rows."""

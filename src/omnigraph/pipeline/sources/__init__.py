"""What there is to read: locations of bytes, how they are cut into splits, and scratch files."""

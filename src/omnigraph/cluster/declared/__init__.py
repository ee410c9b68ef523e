"""What the directory of a cluster declares, and everything that is wrong with it."""

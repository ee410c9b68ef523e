"""The process of a server: its command line, the connections it guards, its log, and how it ends."""

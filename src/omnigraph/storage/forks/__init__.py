"""Forks of tables in a graph that lies elsewhere than before: the addresses they hold, and how they follow."""

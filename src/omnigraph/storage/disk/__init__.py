"""Disks that are full: how that is recognised and told, and the room that a graph keeps for recovering then."""

"""Runners: where frames are read, mapped, joined and written. One pipeline runs on any of them."""

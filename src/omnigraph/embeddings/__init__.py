"""Embedding providers, which turn texts into vectors."""

"""Embedding providers: text to vectors."""

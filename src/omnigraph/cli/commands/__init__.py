"""The commands, one module per group; each calls the Python API and nothing below it."""

"""The schema language: grammar, parser, catalog, identity, planner, lint. Pure."""

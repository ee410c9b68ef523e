"""Two states under different schemas: which types and properties are the same, and what they are called."""

"""The statements of a mutation: what they ask of its match, and what they change for all of its rows at once."""

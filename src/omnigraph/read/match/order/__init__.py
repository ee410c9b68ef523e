"""In which order the variables of a match are bound, and by which steps."""

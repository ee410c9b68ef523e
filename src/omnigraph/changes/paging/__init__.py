"""Pages of changes, and the tokens with which a caller asks for the next one."""

"""How much of a frame or a file is read at a time: rows by the bytes that they have once decoded."""

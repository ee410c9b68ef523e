"""From typed rows to rows of their table: ids, row rules, vectors, bad records, new images of rows."""

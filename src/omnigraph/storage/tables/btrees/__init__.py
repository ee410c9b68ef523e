"""BTREEs whose files are written here rather than by Lance."""

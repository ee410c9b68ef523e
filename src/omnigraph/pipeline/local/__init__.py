"""The local engine: this process reads on all cores and keeps rows in Arrow files."""

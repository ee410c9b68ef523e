"""How values show themselves: texts that fit a screen, and panels for terminals and notebooks."""

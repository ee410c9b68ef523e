"""The version of the product, for modules that record or print it."""

__version__ = "0.1.0"

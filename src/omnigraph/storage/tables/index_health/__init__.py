"""Indexes whose files are lost or damaged: how that is noticed, and how work goes on without them."""

"""Writes that are sent again under one id of their caller take effect once, and are answered alike."""

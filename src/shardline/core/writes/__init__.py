"""Writes in order: which records may be sent in the next call, and when."""

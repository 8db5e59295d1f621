"""The pythonic iterator over a stream, and typed models of its items."""

"""Which records the next batch of a query holds: decided, and written down, before it is read."""

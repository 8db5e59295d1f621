"""Where lease rows live. Every write is conditional."""

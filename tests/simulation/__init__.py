"""A deterministic world of workers, streams, a lease table and a network, under one seed."""

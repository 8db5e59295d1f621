"""`shardline leases`: who holds what, and how to change it."""

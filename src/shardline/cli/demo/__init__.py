"""`shardline demo`: the whole promise on one machine."""

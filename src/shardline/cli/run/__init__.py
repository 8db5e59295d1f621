"""`shardline run`: a consumer that shares its stream with others."""

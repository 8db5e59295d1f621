"""`shardline letters`: what consumers could not process; list, show and redrive."""

"""The shipped worker, runner, pipelines and leases in a simulated world, under one seed."""

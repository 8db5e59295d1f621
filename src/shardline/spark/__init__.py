"""The data pipeline on Spark: sources, planner, reader, and the consumer as a sink."""

"""The user's consumer, its failure policies, and what runs it; knows nothing of Spark."""

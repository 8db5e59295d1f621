"""What talks to AWS. SDK types stop here; records leave as Arrow columns."""

"""Typed items of DynamoDB tables, and their changes."""

"""The embedded DynamoDB: tables, items and expressions."""

"""What is going on, as a page."""

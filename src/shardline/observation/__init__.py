"""What is going on, as data: for the dashboard and the command line."""

"""What runs in the source's process on the driver."""

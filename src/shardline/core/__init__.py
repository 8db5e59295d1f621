"""What decides: plain functions and frozen values. No I/O, no clock, no threads, no SDK."""

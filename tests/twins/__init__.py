"""The ports of services and lease tables in this process: without HTTP, with a clock to advance."""

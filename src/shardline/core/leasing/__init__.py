"""Who works on what: the rules of leasing, without I/O."""

"""Reads sharded, resharding streams in order, through every split, merge, crash and hand-over."""

"""Dead letters: what is written for a record that was given up on, and the places for it."""

"""Response bytes become Arrow columns."""

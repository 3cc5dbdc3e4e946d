"""barca."""

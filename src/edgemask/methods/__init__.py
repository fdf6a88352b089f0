"""Ways to learn from noisy labels."""

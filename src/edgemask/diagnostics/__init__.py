"""What is going on inside a model that learns from noisy labels."""

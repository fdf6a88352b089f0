"""Config, the run loop, run directories, checkpoints and evaluation."""

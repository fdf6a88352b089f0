"""Random image operations on whole uint8 batches, each drawing from the generator it is given."""

"""The command edgemask, a file a verb."""

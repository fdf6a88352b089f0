"""Run directories turned into pages and tables."""

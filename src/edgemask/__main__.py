"""``python -m edgemask`` is the command ``edgemask``."""

from edgemask.cli import main

main()

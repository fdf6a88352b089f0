"""The command line in several processes, of which the second one is killed. Not a test itself."""

from __future__ import annotations

import os
import signal
import sys

from edgemask.engine import stepping, train

WHEN = int(sys.argv.pop(1))
if os.environ["RANK"] == "1":
    calls = [0]

    def deadly(function):
        def call(*arguments, **options):
            calls[0] += 1
            if calls[0] > WHEN:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    if WHEN:
        stepping.Stepper.step = deadly(stepping.Stepper.step)
    else:
        sys.modules[train.__module__].build_run_data = deadly(lambda *_: None)

if __name__ == "__main__":
    from edgemask.cli import main

    sys.argv[0] = "edgemask"
    main()

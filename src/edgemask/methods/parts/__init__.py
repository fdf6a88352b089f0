"""What methods share: memories by sample and class, and the parts that they are put together from.

- :mod:`~edgemask.methods.parts.tables`, ``classes``, ``queue``: what is remembered;
- :mod:`~edgemask.methods.parts.select`: which samples to believe;
- :mod:`~edgemask.methods.parts.refine`: targets in place of the given label;
- :mod:`~edgemask.methods.parts.divergences`, ``terms``: terms of losses;
- :mod:`~edgemask.methods.parts.averages`: momentum copies;
- :mod:`~edgemask.methods.parts.rates`: numbers that move with the epoch.
"""

from __future__ import annotations

from edgemask.methods.parts.tables import Memory, SampleTable

__all__ = ["Memory", "SampleTable"]

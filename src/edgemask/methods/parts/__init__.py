"""What methods share, by topic.

- :mod:`~edgemask.methods.parts.memory`: tables by sample and class, queues, momentum copies;
- :mod:`~edgemask.methods.parts.selection`: which samples to learn from;
- :mod:`~edgemask.methods.parts.neighbours`: the samples that are most alike;
- :mod:`~edgemask.methods.parts.pseudo_labels`: targets in place of the given label;
- :mod:`~edgemask.methods.parts.mixing`: mix-up;
- :mod:`~edgemask.methods.parts.fmix`: images joined along random shapes;
- :mod:`~edgemask.methods.parts.losses`: terms of losses;
- :mod:`~edgemask.methods.parts.schedules`: numbers that change with the epoch.
"""

from __future__ import annotations

from edgemask.methods.parts.memory import Memory, SampleTable

__all__ = ["Memory", "SampleTable"]

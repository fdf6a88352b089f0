"""What methods share: tables by sample, and the parts that they are put together from."""

from __future__ import annotations

from edgemask.methods.parts.tables import Memory, SampleTable

__all__ = ["Memory", "SampleTable"]

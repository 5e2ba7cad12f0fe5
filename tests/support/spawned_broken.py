"""A module that cannot be imported."""

raise RuntimeError("the moon is in the wrong place")

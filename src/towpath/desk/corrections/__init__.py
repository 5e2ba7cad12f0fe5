"""Learned corrections: which fields decide another, what values and formats a field has, and what a bad record lacks.

All that is learned are counts (`Count`): how often a field had a value, a type or a layout, and how often a value
came with a value of the fields that decide it. They come from records that a flow accepted and from operators' edits
that were loaded. A *rule* says for which field, decided by which others, they may be used; it only suggests until a
person turns it on. docs/explanation/corrections.md says how it learns and when it abstains.
"""

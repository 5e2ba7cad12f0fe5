"""How right learned corrections are: on generated records whose truth is known.

Thresholds and other constants were chosen on the data sets in `tuning`. Those in `held_out` have other fields, other
values and other seeds, and only the printed figures come from them.
"""

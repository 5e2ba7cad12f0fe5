"""Broken twins of supervision, each without one of its rules: a check that does not catch them proves nothing."""

from __future__ import annotations

from enum import StrEnum

from towpath.supervision.election.election import Election
from towpath.supervision.election.messages import Rank


class Twin(StrEnum):
    """Which rule is missing."""

    NO_TERM_CHECK = "no-term-check"  # whoever is elected acts, whatever the database says: an unfenced second leader
    NO_TIE_BREAK = "no-tie-break"  # of two groups of equal size neither joins the other
    NO_BEAT_CHECK = "no-beat-check"  # who does not answer pings is dead, whether or not it beats


class ElectionWithoutTieBreak(Election):
    """Does not surrender to its equals, and neither do they."""

    def _is_above_me(self, rank: Rank) -> bool:
        return rank[:3] > self.rank[:3]

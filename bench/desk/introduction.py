"""What stands above the table: what the figures mean."""

from __future__ import annotations


def introduction(rounds: int, errors: int, replays: int, events: int) -> str:
    return " ".join(
        [
            f"Rates are the median of {rounds} rounds, in brackets the least and the most, each with a new database.",
            "Where there is no peer, the ratio is that of the figure to its goal.",
            f"Taken in: {errors:,} error records of one cause lie in four partitions, each with its own message, a",
            "body of 200 bytes and a trace of eight frames; the time is from the first read to the last commit, and",
            "afterwards every case, attempt and body is there.",
            "Lists: one flow with 500 groups, one of which has half of the cases; each query is asked 41 times, for",
            "pages from everywhere in the table.",
            f"Replay: a person orders the replay of a group of {replays:,} open cases, and all that `towpath desk run`",
            "runs carries it out; the time is from the order until the bulk job has ended and the outbox is empty, and",
            "then each case is in the re-entry topic, once.",
            "Release: records become due one after the other; the time is from due to when a reader has it.",
            f"Flow: {events:,} events, the steps of `make bench-flow`; rates are events a second until Elasticsearch",
            "has all that are good. The desk runs in a process of its own, and has every error as a case at the end.",
        ]
    )

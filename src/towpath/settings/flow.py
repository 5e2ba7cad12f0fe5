"""Settings of flows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from towpath.settings.part import Part, Seconds


class FlowSettings(Part):
    """How flows run. A flow file may overrule what is about its own records."""

    directory: str = Field(
        ".towpath/flows",
        description="Checkpoints and what a batch has decided. With executors on other hosts: a directory that the "
        "driver and all of them share.",
    )
    starting: Literal["earliest", "latest"] = Field(
        "earliest", description="Where a flow begins in a topic that it has never read."
    )
    max_record_bytes: int = Field(
        1 << 20, ge=16, le=64 << 20, description="A record with a larger value goes to the errors with code 4."
    )
    max_batch_records: int = Field(
        200_000, ge=1, description="Most records of one batch; what comes back after a crash is at most this much."
    )
    trigger_s: Seconds = Field(0.2, description="How often an idle stage looks for new records.")
    retry_least_s: Seconds = Field(0.2, description="First wait of a stage that tries again.")
    retry_most_s: Seconds = Field(60.0, description="Longest wait of a stage that tries again.")
    judge_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of one cause among all records above which it is an outage, not bad records.",
    )
    judge_sample: int = Field(100, ge=1, description="Least number of records before an outage is declared.")
    judge_window_s: Seconds = Field(10.0, description="How far back records count for that.")
    search_records: int = Field(
        20, ge=0, description="Most bad records that are searched for one by one in a batch that fails as a whole."
    )
    search_s: Seconds = Field(60.0, description="Longest time for that search.")
    sample_s: Seconds = Field(1.0, description="How often position, lag and rate of a running stage are written down.")

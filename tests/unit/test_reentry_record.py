"""Headers of what comes back are text that anybody may have written."""

from __future__ import annotations

import pytest

from towpath.flow.records.reentry import (
    ATTEMPT,
    INPUT_OFFSET,
    INPUT_PARTITION,
    INPUT_TIMESTAMP,
    INPUT_TOPIC,
    INPUT_TOPIC_ID,
    STAGE,
    first_reading,
)

SAID = {STAGE: "s", INPUT_TOPIC: "t", INPUT_TOPIC_ID: "id", INPUT_PARTITION: "3", INPUT_OFFSET: "4"}


def test_as_it_should_be() -> None:
    found = first_reading(SAID | {INPUT_TIMESTAMP: "-1", ATTEMPT: "2"})
    assert (found.partition, found.offset, found.timestamp_ms, found.attempt) == (3, 4, -1, 2)


@pytest.mark.parametrize("text", ["-1", "", "x", "1.5", str(1 << 70), "9" * 5_000])
@pytest.mark.parametrize("name", [INPUT_PARTITION, INPUT_OFFSET, ATTEMPT])
def test_a_number_that_no_column_holds_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
        first_reading(SAID | {name: text})


@pytest.mark.parametrize("text", ["x", str(10**20), str(-(10**20))])
def test_a_time_that_no_column_holds_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        first_reading(SAID | {INPUT_TIMESTAMP: text})

"""What can go wrong in a flow: fourteen codes, and what is done about each."""

from __future__ import annotations

from enum import Enum, IntEnum


class Action(Enum):
    """What a pilot does about an error."""

    AGAIN = "again"  # the attempt ends; wait, then start again from `configure`
    RETRY = "retry"  # wait, then try the same state again, without end
    RESET = "reset"  # move the positions, and record what was skipped
    DIVERT = "divert"  # the record goes to the error topic, the rest goes on


class ErrorCode(IntEnum):
    """The codes of the Qanal machine; their numbers never change."""

    UNCATEGORISED = 0  # nothing below fits, and it cannot be laid on one record
    LOG_UNAVAILABLE = 1  # the broker, or the file of the log, does not answer
    TOPIC_NOT_FOUND = 2  # a topic that is read is not there
    PARTITION_NOT_FOUND = 3  # a partition that is read is not there
    RECORD_TOO_BIG = 4  # larger than the flow's own limit
    OFFSET_NOT_AVAILABLE = 5  # deleted before it was read, or beyond the end
    NETWORK = 6  # a connection broke, timed out or could not be made
    NOT_JSON = 7  # the value is not UTF-8, or not JSON as RFC 8259 has it
    NOT_VALID = 8  # schema or expectation is not met
    TRANSFORM_FAILED = 9  # a step raised, ran out of time or killed its worker
    SINK_UNAVAILABLE = 10  # the sink does not answer
    SINK_FAILED = 11  # the sink answered that it is broken (5xx)
    ITEM_REFUSED = 12  # the sink took the request and refused single items
    SINK_REFUSED = 13  # the sink refused the request (4xx)

    @property
    def action(self) -> Action:
        return _ACTIONS[self]

    @property
    def is_handled(self) -> bool:
        """Whether it is laid on one record, which goes to the error topic while the rest of the batch goes on."""
        return self.action is Action.DIVERT


_ACTIONS = {
    ErrorCode.UNCATEGORISED: Action.AGAIN,
    ErrorCode.LOG_UNAVAILABLE: Action.RETRY,
    ErrorCode.TOPIC_NOT_FOUND: Action.RETRY,
    ErrorCode.PARTITION_NOT_FOUND: Action.RETRY,
    ErrorCode.RECORD_TOO_BIG: Action.DIVERT,
    ErrorCode.OFFSET_NOT_AVAILABLE: Action.RESET,
    ErrorCode.NETWORK: Action.RETRY,
    ErrorCode.NOT_JSON: Action.DIVERT,
    ErrorCode.NOT_VALID: Action.DIVERT,
    ErrorCode.TRANSFORM_FAILED: Action.DIVERT,
    ErrorCode.SINK_UNAVAILABLE: Action.RETRY,
    ErrorCode.SINK_FAILED: Action.RETRY,
    ErrorCode.ITEM_REFUSED: Action.DIVERT,
    ErrorCode.SINK_REFUSED: Action.RETRY,
}

# For people.
MEANINGS = {
    ErrorCode.UNCATEGORISED: "nobody knows what it was",
    ErrorCode.LOG_UNAVAILABLE: "the log does not answer",
    ErrorCode.TOPIC_NOT_FOUND: "a topic is not there",
    ErrorCode.PARTITION_NOT_FOUND: "a partition is not there",
    ErrorCode.RECORD_TOO_BIG: "larger than the flow's limit",
    ErrorCode.OFFSET_NOT_AVAILABLE: "deleted before it was read",
    ErrorCode.NETWORK: "a connection broke or could not be made",
    ErrorCode.NOT_JSON: "not UTF-8, or not JSON",
    ErrorCode.NOT_VALID: "schema or expectation not met",
    ErrorCode.TRANSFORM_FAILED: "a step failed on it",
    ErrorCode.SINK_UNAVAILABLE: "the sink does not answer",
    ErrorCode.SINK_FAILED: "the sink is broken",
    ErrorCode.ITEM_REFUSED: "refused by the sink",
    ErrorCode.SINK_REFUSED: "the sink refuses the request",
}

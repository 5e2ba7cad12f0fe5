"""A question to a broker is asked again when no answer comes."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeout

import pytest

from towpath.errors import LogUnavailable
from towpath.log.kafka_client import KafkaClient
from towpath.settings.log import LogSettings

NOBODY = "127.0.0.1:9"


def test_a_question_whose_answer_is_lost_is_asked_again() -> None:
    given: list[float] = []

    def answers_the_second_time(left_s: float) -> str:
        given.append(left_s)
        if len(given) == 1:
            raise FutureTimeout
        return "answer"

    assert KafkaClient(NOBODY, LogSettings(timeout_s=30)).patiently(answers_the_second_time) == "answer"
    first, second = given
    assert 14 < first <= 15
    assert second <= 15


def test_a_broker_that_stays_silent_is_unavailable_when_time_is_over() -> None:
    def is_silent(left_s: float) -> str:
        raise FutureTimeout

    with pytest.raises(LogUnavailable, match=r"no answer within 0\.2 s"):
        KafkaClient(NOBODY, LogSettings(timeout_s=0.2)).patiently(is_silent)

"""When a peer asks for the term, and until when it may act under it."""

from __future__ import annotations

from towpath.supervision.election.election import Ask, PeerRole, Tenure, Timing

TIMING = Timing()


def test_the_local_lease_begins_before_the_question_and_ends_before_the_databases() -> None:
    tenure = Tenure(TIMING, 0.0)
    assert tenure.due(PeerRole.COORDINATOR, 0.0) is Ask.TAKE
    tenure.granted(3, asked_at=0.0)  # the answer may come as late as it likes
    assert tenure.term(0.89 * TIMING.lease_s) == 3
    assert tenure.term(0.91 * TIMING.lease_s) == 0


def test_it_renews_in_time_and_takes_again_when_the_lease_is_over() -> None:
    tenure = Tenure(TIMING, 0.0)
    tenure.due(PeerRole.COORDINATOR, 0.0)
    tenure.granted(3, asked_at=0.0)
    assert tenure.due(PeerRole.COORDINATOR, 0.9 * TIMING.renew_s) is None
    assert tenure.due(PeerRole.COORDINATOR, TIMING.renew_s) is Ask.RENEW
    assert tenure.due(PeerRole.COORDINATOR, TIMING.lease_s) is Ask.TAKE


def test_an_outage_keeps_the_term_as_long_as_its_lease() -> None:
    tenure = Tenure(TIMING, 0.0)
    tenure.due(PeerRole.COORDINATOR, 0.0)
    tenure.granted(3, asked_at=0.0)
    tenure.not_reached(1.0)
    assert (tenure.term(1.0), tenure.is_fit(1.0)) == (3, True)
    assert (tenure.term(2.1), tenure.is_fit(2.1)) == (0, False)


def test_who_is_refused_asks_again_soon() -> None:
    tenure = Tenure(TIMING, 0.0)
    tenure.due(PeerRole.COORDINATOR, 0.0)
    tenure.refused(asked_at=0.0)
    assert tenure.term(0.0) == 0
    assert tenure.due(PeerRole.COORDINATOR, TIMING.renew_s / 2) is Ask.TAKE


def test_a_new_role_is_a_reason_not_to_wait() -> None:
    tenure = Tenure(TIMING, 0.0)
    assert tenure.due(PeerRole.MEMBER, 0.0) is Ask.READ
    tenure.read(asked_at=0.0)
    assert tenure.due(PeerRole.MEMBER, 0.1) is None
    assert tenure.due(PeerRole.COORDINATOR, 0.1) is Ask.TAKE
    tenure.granted(3, asked_at=0.1)
    assert tenure.due(PeerRole.MEMBER, 0.2) is Ask.RELEASE
    tenure.refused(asked_at=0.2)
    assert tenure.due(PeerRole.MEMBER, 0.2 + TIMING.renew_s / 2) is Ask.READ


def test_a_member_that_reads_is_fit_and_one_that_cannot_is_not() -> None:
    tenure = Tenure(TIMING, 0.0)
    assert tenure.due(PeerRole.MEMBER, 0.0) is Ask.READ
    tenure.read(asked_at=1.5)
    assert tenure.is_fit(3.0)
    tenure.not_reached(3.0)
    assert not tenure.is_fit(3.6)


def test_a_new_one_holds_nothing_and_asks_at_once() -> None:
    tenure = Tenure(TIMING, 5.0)
    assert tenure.term(5.0) == tenure.term(4.0) == 0
    assert tenure.is_fit(5.0), "nothing has been asked yet, so nothing has failed"
    assert not tenure.is_fit(5.0 + TIMING.lease_s)
    assert Tenure(TIMING, 5.0).due(PeerRole.ELECTING, 4.9) is None
    assert Tenure(TIMING, 5.0).due(PeerRole.ELECTING, 5.0) is Ask.READ


def test_until_when_an_answer_counts() -> None:
    """Nine tenths of two seconds, from the question on."""
    tenure = Tenure(TIMING, 0.0)
    tenure.granted(3, asked_at=1.0)
    assert tenure.term(2.79) == 3
    assert tenure.term(2.81) == 0
    tenure.granted(4, asked_at=2.0)
    tenure.refused(asked_at=2.5)
    assert tenure.term(2.5) == 0


def test_when_it_asks_again() -> None:
    tenure = Tenure(TIMING, 0.0)
    tenure.due(PeerRole.COORDINATOR, 0.0)
    tenure.granted(3, asked_at=1.0)
    assert [tenure.due(PeerRole.COORDINATOR, at) for at in (1.39, 1.41)] == [None, Ask.RENEW]
    tenure.refused(asked_at=2.0)
    assert [tenure.due(PeerRole.COORDINATOR, at) for at in (2.19, 2.21)] == [None, Ask.TAKE]
    tenure.not_reached(3.0)
    assert [tenure.due(PeerRole.COORDINATOR, at) for at in (3.19, 3.21)] == [None, Ask.TAKE]
    tenure.due(PeerRole.MEMBER, 3.3)
    tenure.read(asked_at=4.0)
    assert [tenure.due(PeerRole.MEMBER, at) for at in (4.99, 5.01)] == [None, Ask.READ]


def test_an_answer_that_comes_late_does_not_make_it_look_older() -> None:
    tenure = Tenure(TIMING, 0.0)
    tenure.read(asked_at=4.0)
    tenure.read(asked_at=3.0)
    assert tenure.is_fit(5.9)
    assert not tenure.is_fit(6.0)


def test_at_the_end_of_its_lease_it_holds_nothing() -> None:
    tenure = Tenure(TIMING, 0.0)
    tenure.granted(3, asked_at=0.0)
    assert (tenure.term(1.799), tenure.term(1.8)) == (3, 0)

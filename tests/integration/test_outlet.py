"""The way of an upload to its end and of its results to its client, on both databases."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.desk_world import World
from tests.support.http import Client, make_key
from tests.support.tables import by_hand, rows
from tests.support.upload_scene import FIRST, SECOND, STREAM, Scene, sections
from tests.support.uploads import OWNER, open_upload, received, send_upload, state_of

from towpath.desk.cases.model import CaseState
from towpath.errors import BadCursor, IllegalUploadMove, ResultsGone, UnknownQuery, UnknownUpload
from towpath.flow.graph.nodes import ClosingStep
from towpath.gateway.completion.closer import FIRST_PAUSE_S, MOST_TRIES
from towpath.gateway.completion.job import CollectedRows
from towpath.gateway.factory import open_upload_services
from towpath.gateway.sender_run import sender_group
from towpath.log import NewRecord
from towpath.runtime import Runtime
from towpath.web.failures import GATEWAY

Make = Callable[..., Runtime]


@pytest.fixture
def scene(make_runtime: Make, tmp_path: Path) -> Scene:
    return Scene.begun(make_runtime(**sections(tmp_path)))


def lines(scene: Scene, upload: str, query: str, cursor: str | None = None) -> str:
    return scene.runtime.outlet.page(upload, query, cursor).lines.decode()


def test_rows_are_shown_when_their_batch_is_committed_and_for_ever_in_one_order(scene: Scene) -> None:
    upload = open_upload(scene.runtime, STREAM, STREAM)
    scene.passing.run_once()
    assert scene.runtime.outlet.page(upload, "seen").rows == 0
    scene.batch(FIRST, 0, 5)
    scene.result(upload, FIRST, 0, "1\n2\n")
    scene.result(upload, SECOND, 0, "9\n")  # of a stage whose rows come last
    scene.batch(SECOND, 0, 1)
    scene.batch(FIRST, 1, 6, commits=False)
    scene.result(upload, FIRST, 1, "3\n")
    page = scene.runtime.outlet.page(upload, "seen", most_rows=1)
    assert (page.lines, page.rows, page.is_end) == (b"1\n", 1, False)
    assert lines(scene, upload, "seen") == "1\n2\n"
    assert lines(scene, upload, "seen", page.cursor) == "2\n"
    scene.batch(FIRST, 1, 6)
    assert lines(scene, upload, "seen", page.cursor) == "2\n3\n"


def test_what_a_reset_gave_up_is_never_shown_and_is_removed(scene: Scene) -> None:
    upload = open_upload(scene.runtime, STREAM, STREAM)
    scene.passing.run_once()
    scene.batch(FIRST, 0, 5)
    kept = scene.result(upload, FIRST, 0, "1\n")
    scene.batch(FIRST, 1, 6, commits=False)
    given_up = [scene.result(upload, FIRST, 1, "2\n"), scene.collected(upload, 1, '{"n":2}\n')]
    scene.reset(FIRST)
    scene.batch(FIRST, 0, 6, 2)
    scene.result(upload, FIRST, 0, "2\n", 2)
    assert lines(scene, upload, "seen") == "1\n2\n"
    assert [path.exists() for path in given_up] == [True, True]
    scene.passing.run_once()
    assert [path.exists() for path in (kept, *given_up)] == [True, False, False]
    assert lines(scene, upload, "seen") == "1\n2\n"


def test_an_upload_closes_when_all_stages_have_passed_it(scene: Scene) -> None:
    upload = scene.upload({"n": 1}, {"n": 2})
    scene.collected(upload, 0, '{"n":2}\n{"n":1}\n')
    scene.result(upload, FIRST, 0, "1\n")
    scene.batch(FIRST, 0, 1)
    scene.settle()
    assert state_of(scene.runtime, upload) == "closing"
    scene.batch(FIRST, 1, 2)
    scene.settle()
    assert state_of(scene.runtime, upload) == "sending", "nothing was written to the second topic"
    assert scene.job.runs == 1
    [all_, seen] = scene.runtime.outlet.queries(upload)
    assert (all_.query, all_.kind, all_.state, all_.rows, all_.bytes) == ("all", "closing", "complete", 2, 16)
    assert (seen.query, seen.kind, seen.state, seen.rows, seen.bytes) == ("seen", "streamed", "complete", 1, 2)
    assert received(scene.runtime, upload, "all") == [{"n": 1}, {"n": 2}]
    stages = [(row["input"], row["stage"]) for row in rows(scene.runtime.database, "upload_pass") if row["passed_at"]]
    assert sorted(stages) == sorted(
        [(STREAM, FIRST), (STREAM, ""), (f">{SECOND}", SECOND), ("*", "")],
    )


def test_rows_that_come_after_the_end_are_not_shown(scene: Scene) -> None:
    """A replayed record may bring some; the end is the end."""
    upload = closed(scene, "1\n")
    before = scene.runtime.outlet.page(upload, "seen")
    scene.batch(FIRST, 1, 9)
    scene.result(upload, FIRST, 1, "2\n")
    assert scene.runtime.outlet.page(upload, "seen") == before


def closed(scene: Scene, seen: str = "1\n2\n3\n") -> str:
    upload = scene.upload({"n": 1})
    scene.result(upload, FIRST, 0, seen)
    scene.batch(FIRST, 0, 1)
    scene.settle()
    assert state_of(scene.runtime, upload) == "sending"
    return upload


def test_results_are_kept_until_all_is_acknowledged(scene: Scene) -> None:
    upload, outlet = closed(scene), scene.runtime.outlet
    first, last = outlet.page(upload, "seen", most_rows=1), outlet.page(upload, "seen")
    assert outlet.acknowledge(upload, "seen", first.cursor).cursor == first.cursor
    assert outlet.acknowledge(upload, "seen", last.cursor).is_acknowledged
    assert outlet.acknowledge(upload, "seen", first.cursor).cursor == last.cursor, "an older one changes nothing"
    assert state_of(scene.runtime, upload) == "sending"
    assert lines(scene, upload, "seen") == "1\n2\n3\n", "it can be read again until the end"
    end = outlet.page(upload, "all")
    assert (end.rows, end.is_end) == (0, True)
    for _ in range(2):
        assert outlet.acknowledge(upload, "all", end.cursor).is_acknowledged
        assert state_of(scene.runtime, upload) == "finished"
        assert not (scene.root / upload).exists()
    with pytest.raises(ResultsGone) as caught:
        outlet.page(upload, "seen")
    assert caught.value.state == "finished"
    assert [each.is_acknowledged for each in outlet.queries(upload)] == [True, True]


def test_an_end_that_was_acknowledged_before_it_was_one_is_acknowledged_again(scene: Scene) -> None:
    upload, outlet = open_upload(scene.runtime, STREAM, STREAM), scene.runtime.outlet
    scene.passing.run_once()
    scene.result(upload, FIRST, 0, "1\n")
    scene.batch(FIRST, 0, 0)
    cursor = outlet.page(upload, "seen").cursor
    assert not outlet.acknowledge(upload, "seen", cursor).is_acknowledged
    session = scene.runtime.gateway.session(upload, STREAM, owner=OWNER).session
    scene.runtime.gateway.finish(upload, STREAM, owner=OWNER, session=session, bytes=0, crc32=0)
    scene.settle()
    page = outlet.page(upload, "seen", cursor)
    assert (page.rows, page.cursor, page.is_end) == (0, cursor, True)
    assert outlet.acknowledge(upload, "seen", page.cursor).is_acknowledged


def test_a_result_that_the_flow_has_not_seen_is_empty_and_open(scene: Scene) -> None:
    upload, outlet = open_upload(scene.runtime, STREAM, STREAM), scene.runtime.outlet
    page = outlet.page(upload, "seen")
    assert (page.rows, page.is_end, outlet.columns(upload, "seen")) == (0, False, None)
    assert [(each.query, each.kind, each.state) for each in outlet.queries(upload)] == [
        ("all", "", "open"),
        ("seen", "", "open"),
    ]
    assert outlet.acknowledge(upload, "seen", page.cursor).cursor is None
    scene.passing.run_once()
    assert outlet.page(upload, "seen", page.cursor) == page
    assert [each.kind for each in outlet.queries(upload)] == ["closing", "streamed"]


def test_wrong_questions_are_told(scene: Scene) -> None:
    upload, outlet = closed(scene), scene.runtime.outlet
    cursor = outlet.page(upload, "seen").cursor
    with pytest.raises(UnknownQuery) as caught:
        outlet.page(upload, "nothing")
    assert caught.value.known == ["all", "seen"]
    with pytest.raises(BadCursor, match="another"):
        outlet.page(upload, "all", cursor)
    with pytest.raises(BadCursor):
        outlet.acknowledge(upload, "seen", "nonsense")
    with pytest.raises(UnknownUpload):
        outlet.queries(str(uuid4()))
    with pytest.raises(IllegalUploadMove):
        outlet.retry(upload, who="ann", why="no")


def test_columns_are_those_of_the_first_row(scene: Scene) -> None:
    upload = closed(scene, json.dumps({"upload": "u", "b": 1, "a": 2}) + "\n")
    assert scene.runtime.outlet.columns(upload, "seen") == ("b", "a")
    assert scene.runtime.outlet.columns(upload, "all") is None


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_step_that_always_fails_is_given_up_until_a_person_asks(scene: Scene, is_remote: bool) -> None:
    upload = scene.upload({"n": 1})
    scene.batch(FIRST, 0, 1)
    scene.job.error = RuntimeError("no\nno")
    scene.settle()
    for tries in range(1, MOST_TRIES + 3):  # after each try it rests for twice as long
        scene.clock.advance(FIRST_PAUSE_S * 2 ** (tries - 1) - 0.01)
        scene.closer.run_once()
        assert scene.job.runs == min(tries, MOST_TRIES)
        scene.clock.advance(0.02)
        scene.closer.run_once()
    row = scene.runtime.gateway.status(upload, owner=None).upload
    assert (row.state, row.tries, row.why, scene.job.runs) == ("closing", MOST_TRIES, "RuntimeError: no", MOST_TRIES)
    scene.job.error = None
    if is_remote:
        path, why = f"{GATEWAY}/uploads/{upload}/retry", {"why": "mended"}
        assert Client(scene.runtime, make_key(scene.runtime, "viewer")).post(path, json=why).status_code == 403
        answer = Client(scene.runtime, make_key(scene.runtime, "operator")).post(path, json=why)
        assert (answer.status_code, answer.json()["state"]) == (200, "closing")
    else:
        scene.runtime.outlet.retry(upload, who="ann", why="mended")
    scene.settle()
    assert state_of(scene.runtime, upload) == "sending"


def test_of_two_who_close_at_once_one_is_thrown_away(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = scene.upload({"n": 1})
    scene.collected(upload, 0, '{"n":1}\n')
    scene.batch(FIRST, 0, 1)
    while scene.passing.run_once().done:
        pass
    second, write = Scene(scene.runtime), scene.job._write

    def write_while_another_closes(step: ClosingStep, collected: Sequence[CollectedRows], aside: Path) -> None:
        write(step, collected, aside)
        second.settle()

    monkeypatch.setattr(scene.job, "_write", write_while_another_closes)
    scene.settle()
    assert (scene.job.runs, second.job.runs) == (1, 1)
    assert state_of(scene.runtime, upload) == "sending"
    assert scene.runtime.gateway.status(upload, owner=None).upload.tries == 0
    assert received(scene.runtime, upload, "all") == [{"n": 1}]


def test_uploads_of_streams_without_a_flow_end_by_themselves(scene: Scene) -> None:
    upload = send_upload(scene.runtime, "plain", {"plain": [{"n": 1}]})
    runtime = scene.runtime
    common = (runtime.settings, runtime.database, runtime.events, runtime.event_log)
    _, passing, closer = open_upload_services(*common, lambda: runtime.log)
    while passing.run_once().done + closer.run_once().done:
        pass
    assert state_of(runtime, upload) == "finished"


def test_a_rule_ends_uploads_that_nobody_goes_on_with(make_runtime: Make, tmp_path: Path) -> None:
    rules = [
        {"state": "receiving", "after_s": 3600, "approved_by": "Eve", "why": "gone"},
        {"stream": STREAM, "state": "sending", "after_s": 7200, "approved_by": "Ida", "why": "not fetched"},
    ]
    scene = Scene.begun(make_runtime(**sections(tmp_path, expiry=rules, retention_s=86400)))
    unfetched, unfinished = closed(scene), open_upload(scene.runtime, STREAM, STREAM)
    scene.result(unfinished, FIRST, 1, "1\n")
    scene.janitor.run_once()
    assert [state_of(scene.runtime, each) for each in (unfetched, unfinished)] == ["sending", "receiving"]
    scene.runtime.database.shift_clock(3700)
    scene.janitor.run_once()
    assert [state_of(scene.runtime, each) for each in (unfetched, unfinished)] == ["sending", "expired"]
    row = scene.runtime.gateway.status(unfinished, owner=None).upload
    assert (row.who, row.why) == ("Eve", "gone")
    scene.runtime.database.shift_clock(7300)
    scene.janitor.run_once()
    assert state_of(scene.runtime, unfetched) == "expired"
    assert list(scene.root.iterdir()) == []
    with pytest.raises(ResultsGone) as caught:
        scene.runtime.outlet.page(unfetched, "seen")
    assert caught.value.state == "expired"
    assert not [group for group in scene.runtime.log.groups() if unfetched in group or unfinished in group]
    scene.runtime.database.shift_clock(2 * 86400)
    scene.janitor.run_once()
    assert rows(scene.runtime.database, "upload") == []


def test_what_comes_late_of_an_ended_upload_is_removed_and_what_is_unknown_stays(scene: Scene) -> None:
    upload, strange = closed(scene), str(uuid4())
    group = sender_group(upload, STREAM)
    assert group in scene.runtime.log.groups()
    for query in ("seen", "all"):
        received(scene.runtime, upload, query)
    scene.result(upload, FIRST, 7, "1\n")
    scene.result(strange, FIRST, 7, "1\n")
    scene.janitor.run_once()
    assert [each.name for each in scene.root.iterdir()] == [strange]
    assert group not in scene.runtime.log.groups()


def test_an_upload_waits_for_its_replays_if_its_stream_says_so(make_runtime: Make, tmp_path: Path) -> None:
    scene = Scene.begun(make_runtime(**sections(tmp_path, wait_for_replays_s=3600)))
    waiting, other = scene.upload({"n": 1}), scene.upload({"n": 2})
    desk = World(scene.runtime, log=False)
    out = desk.case(state=CaseState.REPLAYING, headers=(("upload", waiting.encode()), ("line", b"1")))
    desk.case(state=CaseState.OPEN, headers=(("upload", other.encode()), ("line", b"1")))
    scene.batch(FIRST, 0, 2)
    scene.settle()
    found = [state_of(scene.runtime, each) for each in (waiting, other)]
    assert found == ["closing", "sending"], "what lies in front of a person is not waited for"
    by_hand(scene.runtime.database, "update desk_case set state = 'open' where id = :id", id=out.id)
    scene.settle()
    assert state_of(scene.runtime, waiting) == "sending"


def test_nobody_waits_longer_for_replays_than_is_said(make_runtime: Make, tmp_path: Path) -> None:
    """Here for errors that no desk reads."""
    scene = Scene.begun(make_runtime(**sections(tmp_path, wait_for_replays_s=3600)))
    scene.runtime.log.create_topic("shop.errors", 1)
    upload = scene.upload({"n": 1})
    scene.runtime.log.append("shop.errors", [NewRecord(b"{}")])
    scene.batch(FIRST, 0, 1)
    scene.settle()
    assert state_of(scene.runtime, upload) == "closing"
    scene.runtime.database.shift_clock(3700)
    scene.settle()
    assert state_of(scene.runtime, upload) == "sending"

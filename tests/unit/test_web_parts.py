"""How errors are answered, and what importing the web layer loads."""

from __future__ import annotations

import inspect
import subprocess
import sys

from tests.support.sweep import sweep

from towpath import errors
from towpath.errors import Refused, TowpathError
from towpath.web.failures import code_of, status_of

NOT_ALLOWED = {"NotAllowed", "NeedsAnother", "FieldsMasked", "ForeignForm"}
CONFLICTS = {
    *("DuplicateMessage", "IllegalMove", "ChangedMeanwhile", "ClaimLost", "TopicExists", "ScheduleExists"),
    *("IllegalDataSetMove", "DataSetInUse", "IllegalWish", "NotRunning", "NotAsleep", "NotFailed"),
    *("UserExists", "LastAdmin", "KeyEnded", "RequestReused", "RequestRunning", "ShownOnce"),
    *("IllegalCaseMove", "IllegalGroupMove", "IllegalJobMove", "IllegalRuleMove", "StaleEdit", "CountedAlready"),
    *("IllegalDutyMove", "UploadExists", "IllegalUploadMove", "SessionReplaced", "ChunkGap", "SumDiffers"),
    *("IllegalBlockMove", "IllegalComplaintMove", "NotWhileInUse", "RecordUnknown"),
}
TOO_LARGE = {"ChunkTooLarge", "LineTooLong", "UploadTooLarge"}
LATER = {"NotYet", "TooFast"}
GONE = {"ResultsGone", "LinkUsed"}


def kinds() -> list[type[TowpathError]]:
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, TowpathError)]
    return sorted(found, key=lambda each: each.__name__)


@sweep("kind", kinds())
def test_every_error_has_the_status_that_it_means(kind: type[TowpathError]) -> None:
    """A new kind of refusal has to be given its place, here and there."""
    status = status_of(kind.__new__(kind))
    name = kind.__name__
    if name in LATER:
        assert status == 429
    elif not issubclass(kind, Refused):
        assert status in (500, 503)
    elif name in TOO_LARGE:
        assert status == 413
    elif name in GONE:
        assert status == 410
    elif name in NOT_ALLOWED:
        assert status == 403
    elif issubclass(kind, errors.NotLoggedIn):
        assert status == (429 if name == "TooManyFailures" else 401)
    elif (name.startswith("Unknown") and name != "UnknownState") or name == "OffsetOutOfRange":
        assert status == 404
    else:
        assert status == (409 if name in CONFLICTS else 422), f"is {name} a conflict?"


def test_codes_are_words() -> None:
    assert code_of(errors.IllegalMove) == "illegal_move"
    assert code_of(errors.DatabaseUnavailable) == "database_unavailable"


def test_the_web_layer_does_not_load_spark() -> None:
    program = "import sys, towpath.web.server; sys.exit('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_commands_do_not_load_fastapi() -> None:
    program = "import sys, towpath, towpath.runtime, towpath.cli; sys.exit('fastapi' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()

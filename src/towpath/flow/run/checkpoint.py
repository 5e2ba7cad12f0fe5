"""The directory of one generation of a stage: Spark's checkpoint, and beside it what the present batch has to tell."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from towpath.errors import FlowHalted
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.worker.decision import DIRECTORY as REFUSED
from towpath.flow.worker.reader import Excluded

DECISION, OUTCOME, OUTAGE, EXCLUDED = "decision", "outcome", "outage-", "excluded"
Stops = dict[tuple[str, int], int]  # by topic and partition


class Checkpoint:
    """`<flow directory>/<flow>/<stage>/<generation>`: absolute, because Spark's Java has its own working directory."""

    def __init__(self, root: Path, flow: str, stage: str, generation: int) -> None:
        self.directory = root.absolute() / flow / stage.replace("/", "_") / str(generation)
        self.spark = self.directory / "checkpoint"
        self._decided = self.directory / "decided"

    def make(self) -> None:
        self._decided.mkdir(parents=True, exist_ok=True)
        offsets = self.spark / "offsets"
        # Who died while Spark wrote where batch 0 ends left a hidden file, beside which Spark never begins again.
        if not any(offsets.glob("[0-9]*")):
            for path in offsets.glob(".*"):
                path.unlink(missing_ok=True)

    def forget_older(self) -> None:
        """Delete what belongs to generations before the last one. That is kept, for a person to look at."""
        generation = int(self.directory.name)
        for path in self.directory.parent.iterdir():
            if path.name.isdecimal() and int(path.name) < generation - 1:
                shutil.rmtree(path, ignore_errors=True)

    def stops(self, batch_id: int) -> Stops:
        """Where a batch ends, as Spark has written it down before it calls anybody."""
        path = self.spark / "offsets" / str(batch_id)
        try:
            _, _, *sources = path.read_text(encoding="utf-8").splitlines()
            return {spot: stop for source in sources for spot, stop in _spots(json.loads(source)).items()}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise FlowHalted(
                f"the checkpoint does not say where batch {batch_id} ends ({path}: {error}); "
                "`towpath flow reset` starts a new generation"
            ) from error

    @property
    def has_commits(self) -> bool:
        """Whether Spark has committed a batch here."""
        return any((self.spark / "commits").glob("[0-9]*"))

    # What the present batch has written down, under its hash

    def begin_attempt(self, hash: str) -> Path:
        """A new directory for what one attempt writes: nobody who is late writes into another's."""
        batch = self._decided / hash
        batch.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="attempt-", dir=batch))

    def decision(self, hash: str) -> Path | None:
        """What was decided for a batch, if it was."""
        return _if_there(self._decided / hash / DECISION)

    def outcome(self, hash: str) -> Path | None:
        """What a batch came to, if its outputs have all that they are to have."""
        return _if_there(self._decided / hash / OUTCOME)

    def keep_decision(self, hash: str, attempt: Path) -> Path:
        return self._keep(attempt, self._decided / hash / DECISION)

    def keep_outcome(self, hash: str, attempt: Path) -> Path:
        return self._keep(attempt, self._decided / hash / OUTCOME)

    def _keep(self, attempt: Path, name: Path) -> Path:
        """Let an attempt count, over a power cut too: by one rename of what is on the disk."""
        for file in attempt.iterdir():
            _sync(file)
        _sync(attempt)
        attempt.rename(name)
        _sync(name.parent)
        return name

    def keep_excluded(self, hash: str, excluded: Excluded) -> None:
        """Which records of a batch are known to end its job: others may be in outputs without them by then."""
        path = self._decided / hash / EXCLUDED
        path.parent.mkdir(exist_ok=True)
        aside = path.with_suffix(".new")
        stored = [[topic, partition, list(found.items())] for (topic, partition), found in excluded.items()]
        aside.write_text(json.dumps(stored), encoding="utf-8")
        _sync(aside)
        aside.rename(path)

    def excluded(self, hash: str) -> dict[tuple[str, int], dict[int, RecordFailure]]:
        """What an earlier attempt has found so."""
        try:
            stored = json.loads((self._decided / hash / EXCLUDED).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return {
            (topic, partition): {offset: RecordFailure(ErrorCode(code), *rest) for offset, (code, *rest) in found}
            for topic, partition, found in stored
        }

    def note_outage(self, hash: str) -> None:
        """What sinks have refused was no fault of the records: it is offered to them again."""
        (self._decided / hash / f"{OUTAGE}{self.outages(hash) + 1}").touch()
        shutil.rmtree(self._decided / hash / REFUSED, ignore_errors=True)

    def outages(self, hash: str) -> int:
        """How often that was noted of a batch."""
        return len(list((self._decided / hash).glob(f"{OUTAGE}*")))

    def forget(self, hash: str) -> None:
        """The batch is done: nothing of any attempt is needed any more."""
        shutil.rmtree(self._decided / hash, ignore_errors=True)


def _if_there(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _spots(source: dict[str, Any]) -> Stops:
    """Kafka: `{"clicks": {"0": 17}}`; the SQLite log: `{"clicks": {"id": "…", "offsets": {"0": 17}}}`."""
    return {
        (topic, int(number)): int(stop)
        for topic, said in source.items()
        for number, stop in said.get("offsets", said).items()
    }

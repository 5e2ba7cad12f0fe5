"""The files that count: those of batches that the ledger has as committed.

Batches of a generation are committed one after the other, so all up to the last one count. What lies beyond it is under
way, or was given up by a reset and will never count.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from towpath.boundary.result_files import ResultFile, files_in, stage_directory
from towpath.boundary.result_store import Bound
from towpath.db import Database, Transaction
from towpath.flow.ledger import Ledger
from towpath.flow.stage_store import StageStore

NOTHING = -1


class CommittedFiles:
    """Asks the ledger about the files of a flow."""

    def __init__(self, database: Database) -> None:
        self._ledger = Ledger(database)
        self._stages = StageStore(database)

    def of(
        self, tx: Transaction, flow: str, directory: Path, stages: Sequence[str], bounds: Sequence[Bound] | None = None
    ) -> list[ResultFile]:
        """The files of these stages in their order, up to the bound of each if there are bounds."""
        found: list[ResultFile] = []
        for lane, stage in enumerate(stages):
            files = files_in(directory / stage_directory(stage), lane)
            last = {generation: self._last(tx, flow, stage, generation) for generation in {f.generation for f in files}}
            bound = None if bounds is None else bounds[lane]
            found += [
                file
                for file in files
                if file.batch <= last[file.generation] and (bound is None or (file.generation, file.batch) <= bound)
            ]
        return found

    def bound(self, tx: Transaction, flow: str, stage: str) -> Bound:
        """The last batch of a stage that is committed now."""
        generation = self._stages.read(tx, flow, stage).generation
        return generation, self._last(tx, flow, stage, generation)

    def remove_given_up(self, root: Path, database: Database, flow: str) -> int:
        """Delete the files of batches that a reset has given up; returns how many.

        Who reads collected files without asking the ledger must not meet them.
        """
        with database.read() as tx:
            stages = {stage_directory(each.name): each for each in self._stages.list(tx, flow)}
            doomed = [
                file.path
                for directory in root.glob("*/*/*/*")
                if directory.name in stages
                for file in files_in(directory)
                if (stage := stages[directory.name]).generation > file.generation
                and file.batch > self._last(tx, flow, stage.name, file.generation)
            ]
        for path in doomed:
            path.unlink(missing_ok=True)
        return len(doomed)

    def _last(self, tx: Transaction, flow: str, stage: str, generation: int) -> int:
        last = self._ledger.last_committed(tx, flow, stage, generation)
        return NOTHING if last is None else last.batch_id

"""What runs have made: data sets, where each is and what it was made from; and what readers say about documents.

May import `flow`, `queue`, `log`, `access`, `db` and the core.

The row of a data set never claims more than is there. It is *making* before the first byte is written and *ready* after
the last one is safe. It is *deleting*, so that nobody begins to use it, before the first byte goes, and *deleted* when
all are gone. Whoever dies in between leaves a row that is still true, and the next one goes on from there: making the
same data set again means the same id, and `sweep` ends the deletions that were begun.
"""

from towpath.catalog.data_sets.directory import directory_of, make_directory, place_of
from towpath.catalog.data_sets.service import DataSets
from towpath.catalog.data_sets.store import DataSet, DataSetState, Lineage

__all__ = ["DataSet", "DataSetState", "DataSets", "Lineage", "directory_of", "make_directory", "place_of"]

"""What a function with state may return."""

from __future__ import annotations

import pickle
from typing import Any

Document = dict[str, Any]


def several(given: Any) -> list[Document]:
    """Documents, none or one or several; `TypeError` for anything else.

    What cannot go to another process raises here, where it is the failure of one record (see `Verdict.encode`).
    """
    if given is None:
        return []
    documents = [given] if type(given) is dict else given
    if isinstance(documents, list | tuple) and all(type(one) is dict for one in documents):
        pickle.dumps(documents)
        return list(documents)
    raise TypeError(f"gave {type(given).__name__}; a stateful step returns a dict, a list of dicts, or None")

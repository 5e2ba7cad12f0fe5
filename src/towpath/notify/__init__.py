"""Notifications: what people should hear of, by webhook and e-mail. May import `queue`, `db` and the core.

A part that finds something worth a person's attention calls `Teller.tell(tx, notice)` in the transaction in which it
found it. Notices are collected for a while (`collector.py`): the first one opens a window, at its end all that have
come go out as one message to each target, so that a flood is one message. Handing over is one transaction: notices are
marked, and each target that wants them gets a message in its own inbox of the queue. A worker a target delivers
(`courier.py`): what cannot be delivered is tried again, later and later; a target that hangs holds up only itself.

A delivery that was cut off is made again under the same id (`webhook-id`, `Message-ID`): at least once, and the
receiver can tell.
"""

from towpath.notify.model import Notice, NoticeKind, Teller
from towpath.notify.service import NotifyService

__all__ = ["Notice", "NoticeKind", "NotifyService", "Teller"]

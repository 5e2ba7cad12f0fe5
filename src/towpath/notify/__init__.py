"""Notifications: what people should hear of, collected for a while and sent by webhook and e-mail."""

from towpath.notify.model import Notice, NoticeKind, Teller
from towpath.notify.service import NotifyService

__all__ = ["Notice", "NoticeKind", "NotifyService", "Teller"]

"""Configuration: `towpath.toml`, then `TOWPATH_*` variables, then flags; each overrules the one before.

Every part has one frozen object, checked when it is made. A value that cannot be used raises `BadSettings` with the
place (file, variable or flag) and the key.
"""

from towpath.settings.access import AccessSettings, ApiSettings
from towpath.settings.actors import ActorSettings
from towpath.settings.catalog import CatalogSettings, ComplaintSettings
from towpath.settings.database import DatabaseSettings
from towpath.settings.desk import DeskSettings
from towpath.settings.flow import FlowSettings
from towpath.settings.gateway import ExpirySettings, GatewaySettings, InputSettings, StreamSettings
from towpath.settings.loading import FILE_NAME, SQLITE_PREFIX, all_keys, directory_of, file_of, load, sqlite_from
from towpath.settings.log import LogSettings
from towpath.settings.logs import LoggingSettings
from towpath.settings.notify import EmailSettings, NotifySettings, SmtpSettings, WebhookSettings
from towpath.settings.process import ProcessSettings
from towpath.settings.queue import QueueSettings, RetentionSettings
from towpath.settings.settings import NESTED, PREFIX, Settings
from towpath.settings.spark import SparkSettings
from towpath.settings.stack import StackSettings
from towpath.settings.supervision import SupervisionSettings, UpSettings

__all__ = [
    "FILE_NAME",
    "NESTED",
    "PREFIX",
    "SQLITE_PREFIX",
    "AccessSettings",
    "ActorSettings",
    "ApiSettings",
    "CatalogSettings",
    "ComplaintSettings",
    "DatabaseSettings",
    "DeskSettings",
    "EmailSettings",
    "ExpirySettings",
    "FlowSettings",
    "GatewaySettings",
    "InputSettings",
    "LogSettings",
    "LoggingSettings",
    "NotifySettings",
    "ProcessSettings",
    "QueueSettings",
    "RetentionSettings",
    "Settings",
    "SmtpSettings",
    "SparkSettings",
    "StackSettings",
    "StreamSettings",
    "SupervisionSettings",
    "UpSettings",
    "WebhookSettings",
    "all_keys",
    "directory_of",
    "file_of",
    "load",
    "sqlite_from",
]

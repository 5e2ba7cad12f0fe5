"""Configuration: `towpath.toml`, then `TOWPATH_*` variables, then flags; each overrules the one before.

Every part has one frozen object, checked when it is made. A value that cannot be used raises `BadSettings` with the
place (file, variable or flag) and the key.
"""

from towpath.settings.base import DatabaseSettings, LoggingSettings, ProcessSettings
from towpath.settings.control import (
    AccessSettings,
    ActorSettings,
    ApiSettings,
    CatalogSettings,
    ComplaintSettings,
    EmailSettings,
    NotifySettings,
    QueueSettings,
    RetentionSettings,
    SmtpSettings,
    WebhookSettings,
)
from towpath.settings.data import DeskSettings, FlowSettings, LogSettings, SparkSettings, StackSettings
from towpath.settings.gateway import ExpirySettings, GatewaySettings, InputSettings, StreamSettings
from towpath.settings.loader import (
    FILE_NAME,
    NESTED,
    PREFIX,
    SQLITE_PREFIX,
    Settings,
    all_keys,
    directory_of,
    file_of,
    load,
    sqlite_from,
)
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

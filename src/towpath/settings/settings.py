"""All settings of one process."""

from __future__ import annotations

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from towpath.settings.access import AccessSettings, ApiSettings
from towpath.settings.actors import ActorSettings
from towpath.settings.catalog import CatalogSettings, ComplaintSettings
from towpath.settings.database import DatabaseSettings
from towpath.settings.desk import DeskSettings
from towpath.settings.flow import FlowSettings
from towpath.settings.gateway import GatewaySettings
from towpath.settings.log import LogSettings
from towpath.settings.logs import LoggingSettings
from towpath.settings.notify import NotifySettings
from towpath.settings.process import ProcessSettings
from towpath.settings.queue import QueueSettings
from towpath.settings.spark import SparkSettings
from towpath.settings.stack import StackSettings
from towpath.settings.supervision import SupervisionSettings, UpName, UpSettings

PREFIX = "TOWPATH_"
NESTED = "__"


class Settings(BaseSettings):
    """All settings of one process."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=NESTED, frozen=True, extra="forbid", case_sensitive=False
    )

    database: DatabaseSettings = DatabaseSettings()
    process: ProcessSettings = ProcessSettings()
    queue: QueueSettings = QueueSettings()
    actors: ActorSettings = ActorSettings()
    catalog: CatalogSettings = CatalogSettings()
    log: LogSettings = LogSettings()
    spark: SparkSettings = SparkSettings()
    flow: FlowSettings = FlowSettings()
    desk: DeskSettings = DeskSettings()
    stack: StackSettings = StackSettings()
    access: AccessSettings = AccessSettings()
    api: ApiSettings = ApiSettings()
    notify: NotifySettings = NotifySettings()
    supervision: SupervisionSettings = SupervisionSettings()
    up: dict[UpName, UpSettings] = {}
    gateway: GatewaySettings = GatewaySettings()
    complaints: ComplaintSettings = ComplaintSettings()
    logging: LoggingSettings = LoggingSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # Flags and file both come through the constructor, merged by `load`; the environment stands between them.
        return (init_settings, env_settings)

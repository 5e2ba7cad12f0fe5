"""Settings of the log lines."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from towpath.settings.part import Part


class LoggingSettings(Part):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe level that is shown.")
    format: Literal["text", "json"] = Field("text", description="`text` for people, `json` for log collectors.")

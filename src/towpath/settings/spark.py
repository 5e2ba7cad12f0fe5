"""Settings of Spark."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from towpath.settings.part import Part


class SparkSettings(Part):
    """The Spark session."""

    master: str = Field(
        "local[*]",
        description="`local[n]`, `spark://host:port`, `yarn` or `k8s://…`, in client mode.",
        pattern=r"^(local(\[[^\]]+\])?|spark://.+|yarn|k8s://.+)$",
    )
    memory: str = Field("1g", description="Memory of the driver.", pattern=r"^[1-9]\d*[kmgKMG]$")
    executor_memory: str = Field("1g", description="Memory of an executor on a cluster.", pattern=r"^[1-9]\d*[kmgKMG]$")
    java_home: str = Field(
        "", description="Directory of Java 17 or 21; otherwise `JAVA_HOME`, then `java` on the path, then usual places."
    )
    ui: bool = Field(False, description="Serve Spark's own web pages, on the loopback interface.")
    log_level: Literal["debug", "info", "warn", "error", "off"] = Field(
        "error", description="Least severe level of Spark's own log that is shown."
    )
    conf: dict[str, str] = Field(
        {},
        repr=False,
        description="Further properties of Spark, such as `spark.jars.packages`; they overrule Towpath's own.",
    )

"""Settings of data sets and complaints."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from towpath.settings.part import Age, Part, Seconds


class CatalogSettings(Part):
    """Data sets: what runs have made."""

    retention_s: Age = Field(
        90 * 86400.0,
        description="Age at which the row of a deleted data set is forgotten, or `never`. One that others were made "
        "from stays as long as theirs.",
    )
    janitor_s: Seconds = Field(
        300.0, description="How often deletions that were cut off are ended, and old rows are forgotten."
    )


class ComplaintSettings(Part):
    """What readers say about documents."""

    public: bool = Field(False, description="Take complaints at `POST /complaints` from anybody, without a key.")
    per_minute: Annotated[float, Field(gt=0, le=6_000)] = Field(
        5.0, description="How many are taken from one address in a minute."
    )
    most_new: int = Field(
        1_000, ge=1, description="While so many wait that nobody has looked at, no more are taken from the public."
    )
    retention_s: Age = Field(365 * 86400.0, description="Age at which settled complaints are deleted, or `never`.")
    janitor_s: Seconds = Field(300.0, description="How often old complaints are deleted. Done by `towpath api run`.")

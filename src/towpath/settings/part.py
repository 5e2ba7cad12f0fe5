"""What the settings of all parts have in common: a frozen object, checked when it is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NEVER = BeforeValidator(lambda value: None if value == "never" else value)  # a file and a variable have no null
Age = Annotated[Seconds | None, _NEVER]
Most = Annotated[Annotated[int, Field(ge=1)] | None, _NEVER]
MostRate = Annotated[Seconds | None, _NEVER]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

"""The parts of every table on disk: bounded texts and numbers, and a strict base."""

from __future__ import annotations

from typing import Annotated, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints, ValidationError

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import INTEGERS, LARGEST_NUMBER, LONGEST_TEXT, UNIT

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$")]
Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT)]
Symbol = Annotated[str, StringConstraints(max_length=20_000)]  # templates give long ones
Unit = Annotated[str, StringConstraints(pattern=f"^{UNIT.pattern}$")]
Integer = Annotated[int, Field(ge=INTEGERS.start, lt=INTEGERS.stop)]
Count = Annotated[int, Field(ge=0, lt=INTEGERS.stop)]
Finite = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER, allow_inf_nan=False)]
Ratio = Annotated[float, Field(gt=0, le=LARGEST_NUMBER, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Level = Annotated[float, Field(ge=1e-12, le=1, allow_inf_nan=False)]
Metrics = Annotated[dict[Text, Integer], Field(max_length=100)]
Item = TypeVar("Item")
Array = Annotated[tuple[Item, ...], Strict(False)]  # a list in TOML; what it holds stays strict


def first_problem(error: ValidationError) -> str:
    """The first value that is not what it must be, and what was expected of it, in bounded length."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"])) or "the whole"
    return f"{where:.200} = {first['input']!r:.80}: {first['msg']:.300}"


class Table(BaseModel):
    """Base of everything stored: frozen, strict, no unknown key."""

    # Built on first use: it takes milliseconds each, and most runs use one or two of them.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @classmethod
    def of(cls, value: object) -> Self:
        """The stored form of a value that has the same attributes.

        Raises:
            StoreError: something in it is beyond what an artifact may hold.
        """
        try:
            return cls.model_validate(value, from_attributes=True)
        except ValidationError as error:
            raise StoreError(f"the result cannot be stored: {first_problem(error)}") from error

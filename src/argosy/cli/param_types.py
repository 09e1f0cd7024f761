"""Types of command-line parameters. `nan` and `inf` are floats too, but no clock can wait for them."""

import math
from typing import Any

import click

SECONDS_MAX = 10 * 365 * 86_400  # ten years: more is a typing error


class Seconds(click.FloatRange):
    """A range of seconds, never longer than `SECONDS_MAX`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds) or seconds > SECONDS_MAX:
            self.fail(f"{value} is not a number of seconds up to {SECONDS_MAX}.", param, ctx)
        return seconds

"""Numbers of seconds as people type them: `nan` and `inf` are floats too, and no clock can wait for either."""

import math
from typing import Any

import click

SECONDS_MAX = 10 * 365 * 86_400  # ten years: more is a slip


class Seconds(click.FloatRange):
    """A range of seconds, never longer than `SECONDS_MAX`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds) or seconds > SECONDS_MAX:
            self.fail(f"{value} is no number of seconds up to {SECONDS_MAX}.", param, ctx)
        return seconds

"""Settings of the v1 API."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting


@dataclass(frozen=True)
class ApiSettings:
    """Cross-origin access and the webhook secret."""

    SECTION: ClassVar[str] = "api"

    cors_origins: tuple[str, ...] = setting(
        (), doc="origins whose pages may call /v1 from a browser, or * for any; none by default"
    )
    webhook_secret: str | None = setting(
        None, secret=True, doc="what code hosts sign their push events with; without it they need the admin token"
    )

    def check(self) -> Iterable[str]:
        wrong = [each for each in self.cors_origins if each != "*" and "://" not in each]
        if wrong:
            yield f"cors_origins are like https://host, not {', '.join(wrong)}"

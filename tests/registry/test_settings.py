"""The registry's URL: invalid settings are reported before anything is opened."""

import pytest

from argosy.base import settings
from argosy.base.errors import Invalid
from argosy.registry.factory import SCHEMES
from argosy.registry.settings import RegistrySettings


def load(**values: str) -> RegistrySettings:
    environ = {f"ARGOSY_REGISTRY_{name.upper()}": value for name, value in values.items()}
    return settings.load([RegistrySettings], environ=environ).get(RegistrySettings)


def test_by_default_the_registry_is_embedded() -> None:
    assert load().url.startswith("sqlite:///")


@pytest.mark.parametrize("url", ["sqlite:///registry.db", "memory://"])
def test_gateways_that_share_a_registry_cannot_share_an_embedded_one(url: str) -> None:
    with pytest.raises(Invalid, match="is_shared requires a registry that all gateways can reach"):
        load(url=url, is_shared="true")
    assert load(url="redis://cache:6379/0", is_shared="true").is_shared


def test_a_url_without_a_scheme_is_rejected() -> None:
    with pytest.raises(Invalid, match="url must have the form"):
        load(url="registry.db")


def test_every_scheme_is_named_where_the_setting_is_explained() -> None:
    [doc] = [each.doc for each in settings.describe([RegistrySettings]) if each.name == "url"]
    named = doc.replace("[s]", "")

    def is_named(scheme: str) -> bool:
        base, plus, deployment = scheme.partition("+")
        return base.removesuffix("s") in named and plus + deployment in named

    assert [scheme for scheme in SCHEMES if not is_named(scheme)] == []

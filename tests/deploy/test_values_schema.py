"""The chart's values: its own defaults are valid, and values that would split or lose the fleet's state are rejected.

Every rule is tested both ways, and each fault of the original schema that ours corrects has its own test.
"""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from argosy.base.backends.redis import url as redis_url

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "argosy"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
URL = "redis://cache:6379/0"
SENTINEL = "redis+sentinel://a:26379,b:26379/main"


def with_values(**changes: Any) -> dict[str, Any]:
    """The defaults as `helm --set a.b=c` would change them; `a__b=c` here. None takes a key away, as in Helm."""
    values: dict[str, Any] = copy.deepcopy(DEFAULTS)
    for path, value in changes.items():
        *parents, name = path.split("__")
        place = values
        for parent in parents:
            place = place[parent]
        if value is None:
            del place[name]
        else:
            place[name] = value
    return values


def shared(**changes: Any) -> dict[str, Any]:
    """Valid values of a fleet of two gateways, with the changes."""
    redis = {
        "replicas": 2,
        "registry__backend": "redis",
        "registry__url": URL,
        "rateLimit__searchUi__backend": "redis",
        "rateLimit__adminLogin__backend": "redis",
    }
    return with_values(**{**redis, **changes})


def complaints(values: dict[str, Any]) -> list[str]:
    found = Draft7Validator(SCHEMA).iter_errors(values)
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in found]


def test_the_schema_is_a_schema() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert "errorMessage" not in json.dumps(SCHEMA), "Helm does not support this keyword"


def test_the_charts_own_defaults_are_valid() -> None:
    assert complaints(DEFAULTS) == []


def test_every_default_is_described() -> None:
    def undescribed(values: dict[str, Any], schema: dict[str, Any], path: str) -> list[str]:
        known = schema.get("properties", {})
        found = [] if "properties" not in schema else [f"{path}{name}" for name in values if name not in known]
        for name, value in values.items():
            if isinstance(value, dict) and name in known:
                found += undescribed(value, known[name], f"{path}{name}.")
        return found

    assert undescribed({**DEFAULTS, "resources": {}}, SCHEMA, "") == []


@pytest.mark.parametrize(
    "values",
    [
        with_values(registry__backend="redis", registry__url=URL),
        with_values(registry__backend="redis", registry__url=URL, persistence__enabled=False),
        with_values(registry__backend="redis", redis__enabled=True),
        with_values(registry__backend="redis", registry__urlSecret={"name": "registry", "key": "url"}),
        with_values(registry__backend="redis", registry__url=URL, rateLimit__searchUi__backend="redis"),
        with_values(cdc__enabled=True),
        with_values(cdc__enabled=True, cdc__overflow__backend="disk"),
        with_values(cdc__overflow__backend="redis"),
        with_values(**{"global": {"imageRegistry": "local"}}),
        shared(),
        shared(hpa__enabled=True),
        shared(registry__url="", redis__enabled=True),
        shared(cdc__enabled=True, cdc__overflow__backend="redis"),
        shared(replicas=1, search__replicas=3),
        shared(search__replicas=3, search__keda__enabled=True, ownership__store="etcd://a:2379,b:2379"),
        with_values(tracing__endpoint="http://collector:4318/v1/traces", tokens__secretName="t"),
        shared(replicas=50, hpa__enabled=True, hpa__minReplicas=3, hpa__maxReplicas=50),
    ],
)
def test_working_values_are_accepted(values: dict[str, Any]) -> None:
    assert complaints(values) == []


def test_the_schema_allows_the_urls_the_program_accepts() -> None:
    named = SCHEMA["definitions"]["redisUrl"]["pattern"]
    schemes = [
        scheme for scheme in (*redis_url.SCHEMES, "unix", "http", "sqlite") if re.match(named, f"{scheme}://h/s")
    ]
    assert schemes == list(redis_url.SCHEMES)


@pytest.mark.parametrize(
    "url", ["redis://h", "rediss://h:1/0", "valkey://h", "valkeys://u:p@h", "rediss+cluster://a,b"]
)
def test_every_address_of_a_redis_registry_is_accepted(url: str) -> None:
    assert complaints(shared(registry__url=url)) == []


@pytest.mark.parametrize("store", ["", SENTINEL, "redis://h:6379", "etcds://a:2379,b:2379"])
def test_a_registry_behind_a_sentinel_is_accepted_with_or_without_a_store_for_leases(store: str) -> None:
    assert complaints(shared(registry__url=SENTINEL, ownership__store=store)) == []
    assert complaints(shared(registry__urlSecret={"name": "s", "key": "url"}, registry__url="")) == []


REFUSED = [
    (with_values(replicas=2), "registry.backend"),
    (shared(registry__backend="sqlite"), "registry.backend"),
    (shared(rateLimit__searchUi__backend="local"), "rateLimit.searchUi.backend"),
    (shared(rateLimit__adminLogin__backend="local"), "rateLimit.adminLogin.backend"),
    (shared(replicas=1, hpa__enabled=True), "replicas"),
    (shared(hpa__enabled=True, hpa__minReplicas=1), "hpa.minReplicas"),
    (shared(hpa__enabled=True, hpa__minReplicas=None), "hpa: 'minReplicas' is a required property"),
    (with_values(replicas=2, hpa__enabled=True), "registry.backend"),
    (shared(registry__url=None), ""),
    (shared(registry__url="cache:6379"), "registry.url"),
    (shared(registry__url="http://cache"), "registry.url"),
    (shared(registry__url="redis://"), "registry.url"),
    (shared(ownership__store="redis+sentinels://a/main"), "ownership.store"),
    (shared(redis__enabled=True), ""),
    (with_values(redis__enabled=True), "registry.backend"),
    (shared(registry__url="", redis__enabled=True, redis__persistence__enabled=False), "redis.persistence.enabled"),
    (with_values(persistence__enabled=False), "persistence.enabled"),
    (with_values(persistence=None), "'persistence' is a required property"),
    (with_values(cdc__enabled=True, cdc__overflow__backend="redis"), "registry.backend"),
    (with_values(rateLimit__searchUi__backend="redis"), "registry.backend"),
    (with_values(search__replicas=3), "registry.backend"),
    (shared(search__keda__enabled=True), "search.replicas"),
    (shared(search__replicas=-1), "search.replicas"),
    (shared(ownership__store="memory://"), "ownership.store"),
    (with_values(tracing__endpoint="collector:4318"), "tracing.endpoint"),
    (with_values(replicas=0), "replicas"),
    (with_values(replicas=None), "'replicas' is a required property"),
    (with_values(replicas="2"), "replicas"),
    (with_values(registry__backend="postgres"), "registry.backend"),
    (with_values(regsitry={"backend": "redis"}), "regsitry"),
    (with_values(registry__bakend="redis"), "bakend"),
    (with_values(hpa__enabled="true"), "hpa.enabled"),
]


@pytest.mark.parametrize(("values", "where"), REFUSED)
def test_invalid_values_are_rejected_at_their_path(values: dict[str, Any], where: str) -> None:
    found = complaints(values)
    assert found
    assert any(where in each for each in found), found


@pytest.mark.parametrize("number", range(len(SCHEMA["allOf"])), ids=lambda n: SCHEMA["allOf"][n]["$comment"])
def test_every_rule_refuses_something_that_no_other_does(number: int) -> None:
    rules = SCHEMA["allOf"]
    without = Draft7Validator({**SCHEMA, "allOf": [*rules[:number], *rules[number + 1 :]]})
    assert [values for values, _ in REFUSED if without.is_valid(values)]


# -- the faults of the schema that ours corrects ----------------------------------------------------------------


def test_a_disabled_autoscaler_requires_nothing() -> None:
    """There the condition was the schema `true`, which every block meets: the chart's own defaults failed."""
    block = {"enabled": False, "minReplicas": 2, "maxReplicas": 10}
    assert complaints(with_values(hpa=block)) == []
    assert complaints(with_values(hpa=block, registry__backend="redis", registry__url=URL)) == []


def test_the_targets_of_the_autoscaler_are_numbers_as_in_the_defaults() -> None:
    """There two targets were declared as texts while the defaults were numbers."""
    assert all(isinstance(DEFAULTS["hpa"][name], int) for name in DEFAULTS["hpa"] if name.startswith("target"))
    assert complaints(with_values(hpa__targetCPUUtilizationPercentage=55)) == []
    assert complaints(with_values(hpa__targetCPUUtilizationPercentage="55")) != []
    assert complaints(with_values(hpa__targetMemoryUtilizationPercentage=0)) != []


def test_a_redis_registry_without_an_address_is_refused() -> None:
    """There two replicas on redis with an empty url passed."""
    assert complaints(shared(registry__url="")) != []
    assert complaints(with_values(registry__backend="redis")) != []


def test_an_embedded_registry_requires_a_persistent_volume() -> None:
    """There the database lay on an emptyDir."""
    assert DEFAULTS["persistence"]["enabled"] is True
    assert complaints(with_values(persistence__enabled=False)) != []


def test_one_gateway_may_serve_data_that_is_replicated() -> None:
    """There the replication of data was taken for replicas of the gateway; here no other number moves the registry."""
    conditions = json.dumps([rule["if"] for rule in SCHEMA["allOf"]])
    assert "replication" not in conditions.lower()
    assert complaints(with_values(replicas=1)) == []


def test_relations_between_two_numbers_are_not_in_the_schema() -> None:
    """JSON Schema compares no fields: templates have to refuse this, and values.yaml says so beside the number."""
    assert complaints(shared(hpa__enabled=True, hpa__minReplicas=5, hpa__maxReplicas=2)) == []
    assert "not below minReplicas" in (CHART / "values.yaml").read_text()

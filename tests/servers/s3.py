"""A real S3 server for tests on the loopback address. Its data is lost when it stops."""

import http.client
import json
import sys
from typing import Any

import boto3

from argosy.base.backends.servers import HOST, Server, exchange
from argosy.jobs.backends.s3 import S3Keys
from argosy.jobs.settings import ShardStoreSettings

BUCKET = "argosy-test"


class S3(Server):
    """moto's S3, which honours conditional puts as Amazon's does."""

    NAME = "s3"

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}"

    def settings(self, **more: object) -> ShardStoreSettings:
        keys = {"s3_access_key_id": "test-id", "s3_secret_access_key": "test-secret"}
        return ShardStoreSettings(s3_endpoint=self.endpoint, **{**keys, **more})  # type: ignore[arg-type]

    def start(self) -> None:
        super().start()
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("PUT", f"/{BUCKET}")
            assert connection.getresponse().status == 200
        finally:
            connection.close()

    def _command(self) -> list[str]:
        return [sys.executable, "-c", "from moto.server import main; main()", "-H", HOST, "-p", str(self.port)]

    def _answers(self) -> bool:
        return exchange(self.port, b"GET /moto-api/ HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")


class GuardedS3(S3):
    """Checks signatures and permissions; one role may do everything, and `assume_role` returns its credentials."""

    OPEN_CALLS = 4  # without keys: the bucket is created, then the role, its policy, its credentials

    def assume_role(self) -> S3Keys:
        iam, sts = self._client("iam"), self._client("sts")
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        role = iam.create_role(RoleName="test-role", AssumeRolePolicyDocument=json.dumps(policy))["Role"]["Arn"]
        iam.put_role_policy(RoleName="test-role", PolicyName="s3", PolicyDocument=json.dumps(policy))
        credentials = sts.assume_role(RoleArn=role, RoleSessionName="tests")["Credentials"]
        return S3Keys(credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"])

    def _command(self) -> list[str]:
        return ["env", f"INITIAL_NO_AUTH_ACTION_COUNT={self.OPEN_CALLS}", *super()._command()]

    def _client(self, service: str) -> Any:
        keys = {"aws_access_key_id": "nobody", "aws_secret_access_key": "none", "region_name": "us-east-1"}
        return boto3.client(service, endpoint_url=self.endpoint, **keys)

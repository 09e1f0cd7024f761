"""`Query` and `QueryArrow`: one statement on one shard, and its result as messages."""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import msgspec

from argosy.base.errors import Invalid
from argosy.jobs.broker import Broker, RowReader
from argosy.jobs.model import NO_TENANT
from argosy.jobs.rpc.call_context import CallContext, Tenancy
from argosy.jobs.rpc.status import CallError, Code
from argosy.jobs.silo import codec
from argosy.jobs.silo import silo_pb2 as pb
from argosy.jobs.sql.tables import SqlResult, StatementTimeout, StatementTooLarge, Value

NO_ARROW = "the broker cannot encode Arrow, because it lacks the package pyarrow: use Query instead"
INT64_MAX = (1 << 63) - 1


class QueryEngine(Protocol):
    """Executes statements."""

    async def query(
        self, shard_id: str, rows: RowReader, sql: str, parameters: Mapping[str, Value], *, tenant: str | None
    ) -> SqlResult: ...


class ArrowEncoder(Protocol):
    """Encodes results in the Arrow format."""

    def messages(self, result: SqlResult) -> list[bytes]:
        """Whole IPC streams of one record batch each; the first has the schema even if there are no rows."""
        ...


class SqlCalls:
    """Requests that name a tenant, and callers with a tenant's key, see only that tenant's rows."""

    def __init__(self, broker: Broker, tenancy: Tenancy, engine: QueryEngine, arrow: ArrowEncoder | None) -> None:
        self._broker = broker
        self._tenancy = tenancy
        self._engine = engine
        self._arrow = arrow

    async def query(self, request: pb.QueryRequest, context: CallContext) -> pb.QueryResponse:
        result = await self._result(request, context)
        names = [name for name, _ in result.columns]
        encode = msgspec.msgpack.Encoder().encode
        return pb.QueryResponse(
            columns=[pb.ColumnInfo(name=name, data_type=kind) for name, kind in result.columns],
            rows=[codec.to_msgpack(encode(dict(zip(names, row, strict=True)))) for row in result.rows],
            row_count=len(result.rows),
        )

    async def query_arrow(
        self, request: pb.QueryArrowRequest, context: CallContext
    ) -> AsyncIterator[pb.ArrowIpcMessage]:
        if self._arrow is None:
            raise CallError(Code.UNIMPLEMENTED, NO_ARROW)
        for message in self._arrow.messages(await self._result(request, context)):
            yield pb.ArrowIpcMessage(ipc_data=message)

    async def _result(self, request: pb.QueryRequest | pb.QueryArrowRequest, context: CallContext) -> SqlResult:
        tenant = self._tenancy.tenant_or_all(context, request.tenant)
        self._tenancy.shard(request.shard, tenant)
        if not self._tenancy.is_on:
            tenant = NO_TENANT  # the only tenant; naming it lets the indexes be used
        parameters = {str(at): _value(parameter) for at, parameter in enumerate(request.parameters, 1)}
        rows = self._broker.rows(request.shard)
        try:
            return await self._engine.query(request.shard, rows, request.sql, parameters, tenant=tenant)
        except StatementTimeout as error:
            raise CallError(Code.DEADLINE_EXCEEDED, str(error)) from error
        except StatementTooLarge as error:
            raise CallError(Code.RESOURCE_EXHAUSTED, str(error)) from error


def _value(parameter: pb.QueryParameter) -> Value:
    kind = parameter.WhichOneof("value")
    if kind is None:
        raise Invalid("a parameter without a value: send null_value for NULL")
    if kind == "null_value":
        return None
    value: Value = getattr(parameter, kind)
    if kind == "uint64_value" and isinstance(value, int) and value > INT64_MAX:
        raise Invalid(f"a parameter may be at most {INT64_MAX}; got {value}")
    return value

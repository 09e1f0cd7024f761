"""SQL over the wire: parameters, rows, and the codes of errors."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import msgpack
import pytest

from argosy.base.clock import SystemClock
from argosy.base.metrics import Metrics
from argosy.jobs.grpc_services import silo_service
from argosy.jobs.rpc.call_context import Access, Tenancy
from argosy.jobs.rpc.server import CallInterceptor, RpcServer
from argosy.jobs.silo import silo_pb2 as pb
from argosy.jobs.silo.calls import ArrowEncoder
from argosy.jobs.silo.diagnostics import ProcessDiagnostics
from argosy.jobs.sql.engine import SqlEngine
from argosy.jobs.sql.tables import SqlLimits, SqlResult
from tests.jobs.rpc.stage import ELSEWHERE, HERE, HOST, PATIENCE_S, Node, Stage, code_and_details, open_stage, rejection


async def put(stage: Stage, id: str, **fields: Any) -> None:
    await stage.client("Enqueue", shard=HERE, task_group="g", id=id, **fields)


async def query(stage: Stage, sql: str, *parameters: pb.QueryParameter, **fields: Any) -> list[dict[str, Any]]:
    answer = await stage.client("Query", shard=HERE, sql=sql, parameters=parameters, **fields)
    rows = [msgpack.unpackb(row.msgpack) for row in answer.rows]
    assert answer.row_count == len(rows)
    assert all(set(row) == {column.name for column in answer.columns} for row in rows)
    return rows


async def test_rows_are_maps_from_columns_to_values(stage: Stage) -> None:
    await put(stage, "one", metadata={"k": "v"}, priority=3)
    assert await query(stage, "SELECT id, priority, metadata FROM jobs") == [
        {"id": "one", "priority": 3, "metadata": {"k": "v"}}
    ]
    answer = await stage.client("Query", shard=HERE, sql="SELECT id, priority, count(*) AS n FROM jobs")
    assert [(column.name, column.data_type) for column in answer.columns] == [
        ("id", "Utf8"),
        ("priority", "UInt8"),
        ("n", "Int64"),
    ]
    assert answer.rows[0].msgpack == b"\x83\xa2id\xa3one\xa8priority\x03\xa1n\x01", "small numbers are short"


async def test_parameters_of_every_kind(stage: Stage) -> None:
    parameters = [
        pb.QueryParameter(bool_value=True),
        pb.QueryParameter(int64_value=-5),
        pb.QueryParameter(uint64_value=7),
        pb.QueryParameter(float64_value=1.5),
        pb.QueryParameter(string_value="x"),
        pb.QueryParameter(bytes_value=b"\x00"),
        pb.QueryParameter(null_value=pb.QueryNull()),
    ]
    [row] = await query(stage, "SELECT $1 a, $2 b, $3 c, $4 d, $5 e, $6 f, $7 g", *parameters)
    assert list(row.values()) == [1, -5, 7, 1.5, "x", b"\x00", None]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELEC", []),
        ("SELECT $2", [pb.QueryParameter(int64_value=1)]),
        ("SELECT $1", [pb.QueryParameter()]),
        ("SELECT $1", [pb.QueryParameter(uint64_value=1 << 63)]),
        ("DROP TABLE jobs", []),
    ],
)
async def test_an_invalid_statement_is_rejected(stage: Stage, sql: str, parameters: list[pb.QueryParameter]) -> None:
    call = stage.client("Query", shard=HERE, sql=sql, parameters=parameters)
    assert code_and_details(await rejection(call))[0] == "INVALID_ARGUMENT"


async def test_a_tenant_of_the_request_restricts_the_rows(tenant_stage: Stage) -> None:
    for tenant in ("tenant-0", "customer-123"):
        await put(tenant_stage, "job", tenant=tenant)
    sql = "SELECT tenant FROM jobs ORDER BY tenant"
    assert [row["tenant"] for row in await query(tenant_stage, sql)] == ["customer-123", "tenant-0"]
    assert await query(tenant_stage, sql, tenant="tenant-0") == [{"tenant": "tenant-0"}]
    assert await query(tenant_stage, f"{sql} ", tenant="tenant-0") == [{"tenant": "tenant-0"}]


async def test_a_shard_of_another_node_is_not_found(stage: Stage) -> None:
    call = stage.client("Query", shard=ELSEWHERE, sql="SELECT 1")
    assert code_and_details(await rejection(call)) == ("NOT_FOUND", "shard not found")


async def test_bounds_have_their_codes() -> None:
    async with open_stage(sql_limits=SqlLimits(statement_s=0.05, result_rows=1)) as stage:
        for id in ("one", "two", "three"):
            await put(stage, id)
        too_much = stage.client("Query", shard=HERE, sql="SELECT id FROM jobs")
        assert code_and_details(await rejection(too_much))[0] == "RESOURCE_EXHAUSTED"
        endless = "SELECT count(*) FROM " + ", ".join(f"jobs j{at}" for at in range(30))
        assert (
            code_and_details(await rejection(stage.client("Query", shard=HERE, sql=endless)))[0] == "DEADLINE_EXCEEDED"
        )


class TextEncoder:
    """Stands in for Arrow: returns its input as text."""

    def messages(self, result: SqlResult) -> list[bytes]:
        return [repr(result.columns).encode(), repr(result.rows).encode()]


async def query_arrow(arrow: ArrowEncoder | None, sql: str) -> AsyncIterator[bytes]:
    node = Node()
    await node.start()
    engine = SqlEngine(SystemClock())
    tenancy = Tenancy(node, is_on=False)
    service = silo_service(node, tenancy, engine=engine, arrow=arrow, diagnostics=ProcessDiagnostics())
    server = await RpcServer.start(
        [service], f"{HOST}:0", interceptor=CallInterceptor(Access(), Metrics(), SystemClock())
    )
    request = pb.QueryArrowRequest(shard=HERE, sql=sql)
    try:
        async with grpc.aio.insecure_channel(f"{HOST}:{server.port}") as channel:
            call = channel.unary_stream(
                "/silo.v1.Silo/QueryArrow", pb.QueryArrowRequest.SerializeToString, pb.ArrowIpcMessage.FromString
            )
            async for message in call(request, timeout=PATIENCE_S):
                yield message.ipc_data
    finally:
        await server.stop()
        await node.close()


async def test_arrow_messages_are_streamed() -> None:
    assert [message async for message in query_arrow(TextEncoder(), "SELECT 1 AS one")] == [
        b"(('one', 'Int64'),)",
        b"((1,),)",
    ]


@pytest.mark.parametrize(
    ("arrow", "sql", "code", "text"),
    [
        (None, "SELECT 1", grpc.StatusCode.UNIMPLEMENTED, "lacks the package pyarrow; use Query"),
        (TextEncoder(), "SELEC", grpc.StatusCode.INVALID_ARGUMENT, "syntax error"),
    ],
)
async def test_a_rejected_stream_has_its_code(
    arrow: ArrowEncoder | None, sql: str, code: grpc.StatusCode, text: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [message async for message in query_arrow(arrow, sql)]
    assert caught.value.code() == code
    assert text in (caught.value.details() or "")

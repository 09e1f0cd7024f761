"""The role `jobs`: owns shards of the job broker and serves them over gRPC and, on the node's own port, HTTP."""

import os
import sys
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped, unused-ignore]

from argosy.app.process import Process
from argosy.app.stores import connect_store
from argosy.base import logs
from argosy.base.backends.servers import free_ports
from argosy.base.errors import Invalid
from argosy.jobs.backends.shard_map_store import open_shard_map_store
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.cluster.node import JobsNode
from argosy.jobs.embedded import lock_dir, open_limits
from argosy.jobs.grpc_services import serve
from argosy.jobs.rpc.call_context import Access
from argosy.jobs.rpc.server import server_credentials
from argosy.jobs.sdk.client import JobsClient
from argosy.jobs.settings import JobsSettings, ShardStoreSettings
from argosy.jobs.web.http import jobs_routes
from argosy.ownership.http import ownership_routes
from argosy.ownership.settings import OwnershipSettings

# Every commit involves threads of SlateDB and of fsync, which wait for the interpreter lock. With a shorter switch
# interval than Python's 5 ms a busy node serves more calls per second.
SWITCH_S = 0.0005

log = logs.get("app")


async def jobs(process: Process) -> None:
    """Sets up a node of the job broker."""
    sys.setswitchinterval(SWITCH_S)
    settings, stored = process.loaded.get(JobsSettings), process.loaded.get(ShardStoreSettings)
    shared = process.loaded.get(OwnershipSettings)
    # An ownership store in memory cannot see other processes, so a lock keeps a second one from the same data.
    if shared.store.startswith("memory:"):
        process.closing.enter_context(lock_dir(settings.url))
    ownership = await connect_store(settings.ownership(shared))
    process.closing.push_async_callback(ownership.close)
    store = await SlateShardStore.open(settings.url, stored, environ=os.environ)
    process.closing.push_async_callback(store.close)
    limiter = await open_limits(settings, metrics=process.metrics)
    process.closing.push_async_callback(limiter.close)
    port = settings.grpc_port or free_ports(1)[0]
    address = settings.grpc_address or f"{settings.grpc_host}:{port}"
    node = JobsNode(
        ownership,
        store,
        open_shard_map_store(settings.url, stored, os.environ),
        limiter,
        node_id=process.this.id or "",
        address=address,
        settings=settings,
        shared=shared,
        metrics=process.metrics,
        tracer=process.tracer,
    )
    await node.start()
    server = await serve(
        node,
        f"{settings.grpc_host}:{port}",
        with_tenants=settings.with_tenants,
        is_dev=settings.dev_mode,
        access=Access(settings.tokens, tenant_keys(settings)),
        credentials=credentials(settings),
        metrics=process.metrics,
    )
    process.closing.push_async_callback(server.stop)
    _add_routes(process, address, settings)
    process.members.append(node)
    process.ready.append(node.is_ready)
    if process.node is None:
        process.routes += ownership_routes(node.ownership, admin_token=process.this.admin_token)
    log.info("jobs up", node=process.this.id, grpc=address)


def _add_routes(process: Process, address: str, settings: JobsSettings) -> None:
    """Adds the HTTP API, which calls the broker through a client that finds the node of a tenant.

    With mandatory client certificates there is no HTTP API: it would admit clients without a certificate."""
    if settings.tls_client_ca is not None:
        return
    trusted = None if settings.tls_cert is None else channel_credentials(_read(settings.tls_cert))
    client = JobsClient.connect(address, credentials=trusted, tracer=process.tracer)
    process.closing.push_async_callback(client.close)
    process.routes += jobs_routes(client)


def channel_credentials(authority: bytes) -> Any:
    return grpc.ssl_channel_credentials(root_certificates=authority)


def tenant_keys(settings: JobsSettings) -> dict[str, str]:
    """The tenant of each API key."""
    pairs = (pair.partition("=") for pair in settings.tenant_keys)
    return {key: tenant for tenant, _, key in pairs}


def credentials(settings: JobsSettings) -> Any:
    """The TLS credentials of the server, if the settings name a certificate."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    client_ca = None if settings.tls_client_ca is None else _read(settings.tls_client_ca)
    return server_credentials(chain=_read(settings.tls_cert), key=_read(settings.tls_key), client_ca=client_ca)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}; check the settings jobs.tls_…") from error

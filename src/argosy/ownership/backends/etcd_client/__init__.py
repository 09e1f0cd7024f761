"""A thin etcd v3 client over gRPC: keys, transactions, leases and a watch that resumes."""

from argosy.ownership.backends.etcd_client.calls import WATCH_BACKOFF, EtcdClient, HistoryLost, follow
from argosy.ownership.backends.etcd_client.url import EtcdUrl

__all__ = ["WATCH_BACKOFF", "EtcdClient", "EtcdUrl", "HistoryLost", "follow"]

"""A thin etcd v3 client of our own, over gRPC: keys, transactions, leases and a watch that resumes."""

from argosy.ownership.backends.etcd_client.client import EtcdClient
from argosy.ownership.backends.etcd_client.url import EtcdUrl
from argosy.ownership.backends.etcd_client.watch import HistoryLost, follow

__all__ = ["EtcdClient", "EtcdUrl", "HistoryLost", "follow"]

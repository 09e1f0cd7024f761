"""Ownership benchmark: leases, auctions and a whole fleet on memory, Valkey and etcd.

run         the benchmark: figures, stores and goals
site        a store to be measured, and the cost of its use
calls       leases and auctions, directly at the store
peers       other locks on the same server
fleet       whole nodes until every unit is owned
"""

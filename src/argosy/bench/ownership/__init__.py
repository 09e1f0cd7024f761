"""Ownership benchmark: leases, auctions and a whole fleet on memory, Valkey and etcd.

run           the benchmark: figures, stores and goals
store_calls   leases and auctions, directly at the store, and the CPU that they cost
fleet         whole nodes until every unit is owned
"""

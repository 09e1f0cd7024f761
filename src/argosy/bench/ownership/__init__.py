"""How fast ownership is: leases, auctions and a whole fleet on memory, Valkey and etcd.

run         the bench: which figures, on which stores, with which goals
site        a store to be measured, and what its use costs
calls       leases and auctions, straight at the store
peers       what others do for the same purpose, on the same server
fleet       whole nodes until every unit is owned
"""

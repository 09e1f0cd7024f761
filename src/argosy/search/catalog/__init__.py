"""The catalog: which repositories should be searchable.

Reading order: `addresses` (what an address may be, and the name that follows from it), `import_list` (lists that users
write), `watcher` (the local copy of the catalog that nodes and gateways work by, and the row as spec and as unit).
"""

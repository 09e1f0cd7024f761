"""The catalog: which repositories should be searchable.

Reading order: `addresses` (what an address may be), `naming` and `import_list` (lists that people write), `specs` (row
to spec to unit), `watcher` (the local copy of the catalog that nodes and gateways work by).
"""

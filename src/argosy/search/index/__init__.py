"""The index of one repository: builds it from a source, verifies, transfers and reads it.

`build.build(source, policy)` returns an `Index`. Reading order: `index` (the data), `build` and `incremental` (what is
built, and what is reused), `segment_builder` (how), `sections` and `wire` (verify, measure, transfer), `reader` (list
and read documents), `kernel_tables` (how kernels access many indexes).
"""

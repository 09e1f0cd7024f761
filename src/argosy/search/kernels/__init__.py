"""Compiled loops: everything that reads text byte by byte. They run without the global interpreter lock.

numba compiles a kernel once per kind of CPU, which takes up to several seconds, and loads it from a cache afterwards;
`search/precompiler.py` compiles them before they are needed.

Reading order: `compiler` with `cache` (how kernels are declared, compiled and cached), `trigrams` and `text_blocks`
(index building), `candidates` and `scan` (searching), `spans` (scoring), `encode_chunks` (results).
"""

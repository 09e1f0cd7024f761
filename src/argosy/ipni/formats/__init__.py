"""IPNI's encodings, byte for byte as other implementations write and read them.

Reading order: `varint`, `multihash`, `bases`, `cid` (names of content); `node`, `dag`, `dag_cbor`, `dag_json` (blocks);
`peer`, `multiaddr` (who and where); `envelope`, `head`, `advertisement`, `entries`, `metadata` (what publishers sign);
`car` (files of blocks), `privacy` (double hashing).
"""

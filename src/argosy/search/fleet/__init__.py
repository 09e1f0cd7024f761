"""The search node: it fetches, indexes, refreshes, serves, evicts and hands off repositories.

Reading order: `model` (requests and results of a node) and `ports` (what a node needs and offers). Then the index side:
`events`, `effects` and `held_repo`; `index_controller` (the state machine that decides) with its parts `index_queue`
(order of builds), `periodic_scheduler` (origin checks and verifications) and `eviction`; `index_provisioner` and
`build_executor` (how an index is obtained); `search_node` (the node, which performs the effects). Then the request
side: `protocol` (bodies and frames), `local_node`, `http` and `frame_server` (server), `remote_node` and `frame_client`
(client).
"""

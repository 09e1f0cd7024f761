"""The search node: it fetches, indexes, refreshes, serves, evicts and hands off repositories.

Reading order: `model` (requests and results of a node) and `ports` (what a node needs and offers). Then the index side:
`events`, `effects` and `held_repo`; `index_controller` (the state machine that decides) with its parts `index_queue`
(order of builds), `periodic_scheduler` (origin checks and verifications) and `eviction`; `index_provisioner` and
`build_executor` (how an index is obtained); `service` (the node). Then the request side: `serving_set`, `local_node`,
`http` and `frames` (server), `remote_node` (client).
"""

"""Client and worker of the job broker; `argosy.jobs` exports the public names.

Reading order: `client` and `worker`, `handlers` (what a handler is and gets, and running it), `task_leases` (a worker's
calls), `router` (how a call finds its node), `links` and `local_links` (how it reaches it), `flow_control` (batching
and slots), `validation`, `codec` and `errors` (requests and responses as Python values), `blocking`.
"""

"""Throttle benchmark: cost, fairness and state sharing, with other rate limiters as peers.

run                the benchmark: figures, goals, and what is measured in which order
decisions          CPU and wait per decision
shared_instances   instances that share through a real Valkey: convergence, the effect on requests, fairness
"""

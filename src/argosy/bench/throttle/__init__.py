"""Throttle benchmark: cost, fairness and state sharing, with other rate limiters as peers.

run                the benchmark: figures and their goals
decisions          CPU and wait per decision: Argosy, token-bucket, limits in memory and on Valkey
fairness           the evaluator's scenarios, and sixteen instances that share through a real Valkey
shared_instances   real threads on a real Valkey: convergence of all instances, and the effect on requests
noise              a process that keeps the shared rows changing
"""

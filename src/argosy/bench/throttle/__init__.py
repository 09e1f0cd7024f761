"""What the fair throttle costs, how fair it is, and how well instances share: beside limiters that people use.

run         the bench: which figures, with which goals
decisions   CPU and waiting per decision: ours, token-bucket, limits in memory and on Valkey
fairness    the evaluator's scenarios, and sixteen instances that share through a real Valkey
together    real threads on a real Valkey: how soon all are equal, and what a request feels of it
noise       a process of its own that keeps the shared rows changing
"""

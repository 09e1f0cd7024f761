"""Programs that race: `python -m argosy.bench.jobs.contenders.with_NAME work|produce URL COUNT`.

Those of others run in an environment that has them and not our dependencies, so nothing but the standard library and
their own library is imported here.
"""

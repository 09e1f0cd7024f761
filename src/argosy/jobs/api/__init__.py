"""Our own gRPC service, `argosy.jobs.v1.Jobs`: batches, polls that wait, schedules, searches, the dead-letter view."""

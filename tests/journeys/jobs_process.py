"""One process of the job broker, started by the journeys with settings in its environment."""

import os

from argosy.app.process import Role, run
from argosy.app.settings import SECTIONS, default_data_dir, with_data_dir
from argosy.base.settings import load
from argosy.jobs.settings import JobsSettings, ShardStoreSettings

if __name__ == "__main__":
    sections = tuple(dict.fromkeys((*SECTIONS, JobsSettings, ShardStoreSettings)))
    run(with_data_dir(load(sections, path=None, environ=os.environ), default_data_dir()), [Role.JOBS])

"""The search engine alone, in this process: a folder is indexed in memory and searched.

python examples/search_a_folder.py [FOLDER] [QUERY]
"""

# ruff: noqa: T201  (an example prints)

import sys
from pathlib import Path

from argosy.search import IndexSet, Options, Policy, build, parse
from argosy.search.backends.factory import open_source

folder = sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parent)
query = sys.argv[2] if len(sys.argv) > 2 else "build lang:python"

shelf = IndexSet([build(open_source(folder), Policy())])
answer = shelf.search_now(parse(query).query, Options(files_max=3))

print(f"{answer.stats.matches} matches in {answer.stats.files} files, the best first:")
for file in answer.files:
    for chunk in file.chunks:
        print(f"{file.path}:{chunk.best_line}: {chunk.content.decode(errors='replace').strip()}")
if not answer.is_complete:
    print("not everything is shown:", ", ".join(bound.value for bound in answer.limits_hit))
shelf.close()

"""Examples of every command, shown at the end of its help, in the reference and on the manual page.

The help of a group shows the first example of its first commands. A test parses every line: commands, options and their
values must exist.
"""

STORE = "--store redis://store:6379"
PEER = "12D3KooWEW5GoYak4S23Z9rSiKHAcKWx9qH7rwVgCsmvRyvghB8x"
AD = "baguqeeraoq44kutbmlmnmmcjsaoyz7hb3h4bhmkqkexm7vxghqhz2fnlkkza"

# More would push the list of commands off the screen.
GROUP_EXAMPLES_MAX = 4
# For groups whose first commands are not the ones most users need.
TYPICAL = {"job": ("job enqueue", "job list", "job watch"), "ipni": ("ipni publish", "ipni status", "ipni providers")}

OF_ARGOSY = (
    "argosy up .                                    # this directory, at http://127.0.0.1:6070",
    "argosy search 'sym:IndexSet lang:python' src   # without a server",
    "argosy help repo add",
)

EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": (
        "argosy up .                                    # this directory, at http://127.0.0.1:6070",
        "argosy up ~/src/tool https://github.com/owner/name",
        "argosy up ~/src/tool --nodes 3              # three search nodes as child processes",
        "argosy up ~/src/tool --resume               # also serve what was added in earlier runs",
    ),
    "serve": (
        "argosy serve --role search --role gateway",
        "argosy serve --role search --store redis://store:6379 --registry redis://store:6379",
        "argosy serve --role jobs --config jobs.toml",
    ),
    "repo add": (
        "argosy repo add https://github.com/owner/tool git@example.org:sea/hull.git",
        "argosy repo add https://github.com/owner/tool --branch main --branch next --replicas 1",
    ),
    "repo remove": ("argosy repo remove github.com/owner/tool",),
    "repo import": ("argosy repo import repositories.txt", "cat repositories.json | argosy repo import -"),
    "repo list": ("argosy repo list", "argosy repo list --json"),
    "repo pin": ("argosy repo pin github.com/owner/tool",),
    "repo reindex": ("argosy repo reindex github.com/owner/tool",),
    "repo unpin": ("argosy repo unpin github.com/owner/tool",),
    "search": (
        "argosy search 'kmalloc gfp_atomic'          # both words, in this directory",
        "argosy search 'sym:IndexSet lang:python' src",
        "argosy search 'file:\\.go$ \"static inline\"' ~/src/tool --context 2",
        "argosy search deprecated -l -0 | xargs -0 wc -l",
    ),
    "find": ("argosy find setup.py", "argosy find bafkreier4jdzl7v3ofksripnjzwa2srh6wdk5fdkn7ierycuintmuual6a --json"),
    "config check": ("argosy config check --config fleet.toml",),
    "config show": ("argosy config show", "argosy config show --config fleet.toml --json"),
    "node drain": (f"argosy node drain node-3 --wait 360 {STORE}",),
    "node list": (f"argosy node list {STORE}",),
    "lease list": (f"argosy lease list --node node-3 {STORE}",),
    "auction list": (f"argosy auction list {STORE}",),
    "auction set-max-bids": (f"argosy auction set-max-bids 5 {STORE}", f"argosy auction set-max-bids none {STORE}"),
    "scale": (f"argosy scale {STORE}",),
    "registry check": ("argosy registry check --url sqlite:///registry.db",),
    "registry export": (
        "argosy registry export all.jsonl",
        "argosy registry export - --url redis://store:6379 | gzip > all.jsonl.gz",
    ),
    "registry import": ("argosy registry import all.jsonl --url redis://store:6379/1",),
    "registry memory": ("argosy registry memory --url redis://127.0.0.1:6379/0",),
    "registry migrate": ("argosy registry migrate --url sqlite:///registry.db",),
    "job cancel": ("argosy job cancel 01J2Z9 01J2ZA",),
    "job delete": ("argosy job delete 01J2Z9",),
    "job expedite": ("argosy job expedite 01J2Z9",),
    "job get": ("argosy job get 01J2Z9 --attempts",),
    "job list": ("argosy job list --status failed", "argosy job list --metadata customer=ada --limit 20"),
    "job enqueue": (
        'argosy job enqueue greet \'{"name": "ada"}\' --wait 60',
        "argosy job enqueue resize --lines < payloads.jsonl",
        "argosy job enqueue report --unique-key nightly --retries 5 --delay 600",
    ),
    "job requeue": ("argosy job requeue", "argosy job requeue 01J2Z9"),
    "job restart": ("argosy job restart 01J2Z9",),
    "job result": ("argosy job result 01J2Z9 --wait 60",),
    "job schedule delete": ("argosy job schedule delete nightly",),
    "job schedule list": ("argosy job schedule list",),
    "job schedule put": ("argosy job schedule put nightly '0 3 * * *' report --timezone Europe/Rome",),
    "job watch": ("argosy job watch 01J2Z9 --timeout 600",),
    "shard list": ("argosy shard list --address 127.0.0.1:6070",),
    "shard split": ("argosy shard split 01J2ZB --wait 30",),
    "worker run": ("argosy worker run myapp.handlers", "argosy worker run myapp.handlers:greet --concurrency 4"),
    "ipni allow": (f"argosy ipni allow {PEER}",),
    "ipni assign": (f"argosy ipni assign {PEER}",),
    "ipni assignments": ("argosy ipni assignments --url http://10.0.0.1:3000",),
    "ipni block": (f"argosy ipni block {PEER}",),
    "ipni check": ("argosy ipni check",),
    "ipni freeze": ("argosy ipni freeze --url http://10.0.0.1:3000",),
    "ipni import-providers": ("argosy ipni import-providers https://indexer.example.org",),
    "ipni layout add": ("argosy ipni layout add k4=http://10.0.0.4:3002 --config keyspace.toml",),
    "ipni layout revert": ("argosy ipni layout revert --config keyspace.toml",),
    "ipni layout remove": ("argosy ipni layout remove k4 --config keyspace.toml",),
    "ipni layout finalize": ("argosy ipni layout finalize --config keyspace.toml",),
    "ipni layout show": ("argosy ipni layout show --config keyspace.toml",),
    "ipni mark-processed": (f"argosy ipni mark-processed {PEER} {AD}",),
    "ipni preferred": ("argosy ipni preferred",),
    "ipni progress": ("argosy ipni progress",),
    "ipni providers": ("argosy ipni providers", f"argosy ipni providers {PEER}"),
    "ipni publish": (
        "argosy ipni publish ~/papers --announce http://127.0.0.1:3000",
        "argosy ipni publish ~/papers --withdraw --announce http://127.0.0.1:3000",
    ),
    "ipni reload": ("argosy ipni reload",),
    "ipni remove-provider": (f"argosy ipni remove-provider {PEER} --block",),
    "ipni status": ("argosy ipni status", "argosy ipni status --url http://10.0.0.1:3000 --json"),
    "ipni sync": (f"argosy ipni sync {PEER} --resync",),
    "ipni syncs": ("argosy ipni syncs",),
    "ipni telemetry": ("argosy ipni telemetry",),
    "ipni unassign": (f"argosy ipni unassign {PEER}",),
    "throttle eval": ("argosy throttle eval --scenario noisy --seeds 1",),
    "throttle top": ("argosy throttle top --url redis://cache:6379 --client address:192.0.2.7",),
    "sim chaos": ("argosy sim chaos --seeds 200", "argosy sim chaos --first-seed 4711 --seeds 1"),
    "sim fleet": ("argosy sim fleet --repos 500 --nodes 20 --kill 2 --plot fleet.svg",),
    "sim jobs": ("argosy sim jobs --seeds 200",),
    "sim throttle": ("argosy sim throttle --seeds 200 --instances 4",),
    "bench": ("argosy bench", "argosy bench ownership --quick"),
    "completion": ("argosy completion bash > ~/.local/share/bash-completion/completions/argosy",),
    "help": ("argosy help repo add", "argosy help --man | man -l -"),
    "version": ("argosy version",),
}


def examples_of(path: str) -> tuple[str, ...]:
    """The examples of a command or group; `path` is its name without `argosy`."""
    if not path:
        return OF_ARGOSY
    inside = TYPICAL.get(path) or tuple(name for name in EXAMPLES if name.startswith(f"{path} "))
    return EXAMPLES.get(path) or tuple(EXAMPLES[name][0] for name in inside[:GROUP_EXAMPLES_MAX])

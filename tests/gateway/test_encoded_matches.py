"""The gateway requests encoded matches and returns decoded ones, whichever way it is called."""

from msgspec import structs

from argosy.search.model import Options, SearchResult
from argosy.search.query import parse
from argosy.sim.loop import SimLoop
from tests.gateway.world import NAMES, World, comparable, in_virtual_time, oracle

QUERY = parse("needle").query


def results_everywhere(options: Options) -> list[SearchResult]:
    """All results of a gateway: the parts and the end of a stream, a result, and the same result cached."""

    async def main(loop: SimLoop) -> list[SearchResult]:
        world = World(loop)
        for i, name in enumerate(NAMES):
            world.give(f"n{i % 3}", name)
            world.nodes[f"n{i % 3}"].delay_s = 0.001 * (i + 1)
        streamed = [part async for part in world.gateway.stream(QUERY, structs.replace(options, files_max=49))]
        assert len(streamed) > 1
        listed = [await world.gateway.search(QUERY, options) for _ in range(2)]
        assert all(request.options.pre_encoded for node in world.nodes.values() for request in node.requests)
        assert sum(len(node.requests) for node in world.nodes.values()) == 2 * 3, "the second answer is the one kept"
        return [*streamed, *listed]

    return in_virtual_time(main)


def test_a_gateway_returns_only_decoded_matches() -> None:
    for options in (Options(), Options(pre_encoded=True), Options(matches_max=5), Options(files_max=2)):
        for answer in results_everywhere(options):
            assert answer.files
            assert all(file.chunks and not file.encoded_matches for file in answer.files)
        plain = structs.replace(options, pre_encoded=False)
        assert comparable(answer) == comparable(oracle(NAMES, "needle", plain))

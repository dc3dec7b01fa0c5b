"""Packing is exact for small cases and close for large ones; placement keeps what the margins promise."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalable.errors import PlanningError
from scalable.manifest.machines import NodeType, Pool, Profile
from scalable.manifest.models import PROFILES
from scalable.planning.packing import Packing, lower_bound, pack, vector
from scalable.planning.placement import PoolRoom, place
from scalable.planning.resources import Size, allocatable, burst, nominal
from scalable.quantities import Cpu, Memory, Money

GIB = 1024**3
Demand = list[tuple[Size, int]]


def size(cores: float, gib: float, gpus: int = 0) -> Size:
    return Size(Cpu.of(cores), Memory.of_gib(gib), gpus)


def node_type(cores: float, gib: float, **allocatable: object) -> NodeType:
    record = {"cpu": cores, "memory": f"{gib}GiB"}
    return NodeType.model_validate({**record, "allocatable": allocatable} if allocatable else record)


PRO2_M = node_type(16, 64, cpu=15.6, memory="60GiB")
COMPUTE = Pool(node="PRO2-M", max=6)
ROOM = allocatable(PRO2_M, COMPUTE)


def fewest_nodes(demand: Demand, room: Size) -> int:
    """By brute force: every way to fill a node, over every rest."""
    sizes = [one for one, _ in demand]

    def inside(filling: tuple[int, ...]) -> bool:
        total = Size(Cpu(0), Memory(0))
        for one, number in zip(sizes, filling, strict=True):
            total += one * number
        return total.fits(room)

    @cache
    def rest(counts: tuple[int, ...]) -> int:
        if not any(counts):
            return 0
        ways = (way for way in product(*(range(count + 1) for count in counts)) if any(way) and inside(way))
        return 1 + min(rest(tuple(have - used for have, used in zip(counts, way, strict=True))) for way in ways)

    return rest(tuple(count for _, count in demand))


def assert_sound(packing: Packing, demand: Demand, room: Size) -> None:
    """Every worker sits on exactly one node and no node is over its capacity."""
    placed = [sum(node[i] for node in packing.nodes) for i in range(len(demand))]
    assert placed == [count for _, count in demand]
    for node in packing.nodes:
        total = Size(Cpu(0), Memory(0))
        for (one, _), number in zip(demand, node, strict=True):
            total += one * number
        assert total.fits(room)
        assert sum(node) > 0


SMALL = st.builds(size, st.integers(1, 10), st.integers(1, 10), st.integers(0, 2))
DEMANDS = st.lists(st.tuples(SMALL, st.integers(0, 4)), min_size=1, max_size=3)


@given(DEMANDS)
def test_small_cases_take_as_few_nodes_as_brute_force_finds(demand: Demand) -> None:
    packing = pack(demand, size(10, 10, 2))

    assert packing.exact
    assert packing.count == fewest_nodes(demand, size(10, 10, 2))
    assert_sound(packing, demand, size(10, 10, 2))


WORKERS = st.tuples(st.builds(size, st.integers(1, 16), st.integers(1, 64)), st.integers(0, 30))


@settings(max_examples=15)  # the search takes its time where it does not find the optimum
@given(st.lists(WORKERS, min_size=1, max_size=5))
def test_every_worker_is_placed_and_no_node_is_over_full(demand: Demand) -> None:
    assert_sound(pack(demand, size(16, 64)), demand, size(16, 64))


@given(st.integers(1, 16), st.integers(1, 64), st.integers(1, 2000))
def test_workers_of_one_size_fill_every_node_but_the_last(cores: int, gib: int, count: int) -> None:
    packing = pack([(size(cores, gib), count)], size(16, 64))

    per_node = min(16 // cores, 64 // gib)
    assert packing.count == -(-count // per_node)
    assert packing.exact


MIXED = [
    [(size(2, 2), 2500), (size(2, 12), 2500), (size(1, 2), 2500), (size(3.9, 8), 2500)],
    [(size(5.5, 1), 4000), (size(0.7, 9), 3000), (size(3.1, 3), 2000), (size(7, 20), 1000)],
    [(size(0.5, 1), 7000), (size(4, 24), 1000), (size(1, 20), 1000), (size(6, 6), 1000)],
]


@pytest.mark.parametrize("demand", MIXED)
def test_ten_thousand_pods_of_four_sizes_stay_close_to_the_lower_bound(demand: Demand) -> None:
    packing = pack(demand, ROOM)

    sizes, counts = zip(*((vector(one), count) for one, count in demand), strict=True)
    bound = lower_bound(sizes, counts, vector(ROOM))
    assert_sound(packing, demand, ROOM)
    assert bound <= packing.count <= bound * 1.1 + 1


def test_a_perfect_packing_over_thousands_of_nodes_is_found() -> None:
    """Greedy puts two of the larger on a node and wastes a fifth; only 4 + 3 + 3 fills it. Deeper than the stack."""
    packing = pack([(size(4, 1), 2000), (size(3, 1), 4000)], size(10, 64))

    assert packing.count == 2000


def test_no_workers_need_no_nodes() -> None:
    assert pack([(size(2, 2), 0)], ROOM).count == 0
    assert pack([], ROOM).count == 0
    assert pack([(size(99, 99), 0)], ROOM, at_least=2).count == 0


@given(DEMANDS, st.integers(0, 8))
def test_at_least_spreads_the_same_workers_over_more_nodes(demand: Demand, at_least: int) -> None:
    room = size(10, 10, 2)

    packing = pack(demand, room, at_least=at_least)

    workers = sum(count for _, count in demand)
    assert packing.count == max(pack(demand, room).count, min(at_least, workers))
    assert_sound(packing, demand, room)


@pytest.mark.parametrize("large", [size(17, 1), size(1, 65), size(1, 1, 1)])
def test_a_worker_larger_than_a_node_is_refused_with_both_sizes(large: Size) -> None:
    with pytest.raises(PlanningError, match=r"does not fit on a node with 16 CPU / 64 GiB"):
        pack([(size(1, 1), 1), (large, 1)], size(16, 64))


def test_a_standard_worker_asks_for_3_9_cpus_so_that_four_share_a_node() -> None:
    placement = place(PROFILES["standard"], PRO2_M, COMPUTE, spread=True)

    assert placement.raised
    assert placement.request == Size(Cpu.of(3.9), Memory.of_gib(2))
    assert (placement.per_node, placement.per_node_written) == (4, 7)


def test_without_spread_the_request_stays_as_written() -> None:
    placement = place(PROFILES["standard"], PRO2_M, COMPUTE, spread=False)

    assert not placement.raised
    assert placement.request == size(2, 2)
    assert placement.per_node == placement.per_node_written == 7


def test_a_request_is_raised_to_the_limit_where_a_node_has_cores_to_spare() -> None:
    """18 cores hold four bursts of 4; a quarter of 17.6 is over the limit, the limit itself does."""
    placement = place(PROFILES["standard"], node_type(18, 64, cpu=17.6, memory="60GiB"), COMPUTE, spread=True)

    assert placement.raised
    assert placement.request == size(4, 2)
    assert placement.per_node == 4


def test_memory_is_raised_where_memory_bounds_the_burst() -> None:
    profile = Profile.model_validate(
        {"request": {"cpu": 1, "memory": "2GiB"}, "limit": {"cpu": 2, "memory": "24GiB"}, "peak": "20GiB"}
    )

    placement = place(profile, PRO2_M, COMPUTE, spread=True)

    assert placement.request == size(1, 20)
    assert placement.per_node == 3


def test_a_request_that_fits_on_no_node_names_what_there_is() -> None:
    used = Pool.model_validate({"node": "PRO2-M", "count": 1, "used": {"cpu": 14, "memory": "1GiB"}})

    with pytest.raises(PlanningError, match=r"asking for 2 CPU / 2 GiB does not fit on a PRO2-M, which has 1\.6 CPU"):
        place(PROFILES["standard"], PRO2_M, used, spread=True)


@given(
    request_cpu=st.integers(1, 8),
    more_cpu=st.integers(0, 8),
    request_gib=st.integers(1, 16),
    more_gib=st.integers(0, 16),
    peak=st.integers(1, 32),
    cores=st.integers(16, 64),
    gib=st.integers(32, 256),
)
def test_a_raised_request_keeps_exactly_the_promised_number_per_node(
    request_cpu: int, more_cpu: int, request_gib: int, more_gib: int, peak: int, cores: int, gib: int
) -> None:
    profile = Profile.model_validate(
        {
            "request": {"cpu": request_cpu, "memory": f"{request_gib}GiB"},
            "limit": {"cpu": request_cpu + more_cpu, "memory": f"{request_gib + more_gib}GiB"},
            "peak": f"{peak}GiB",
        }
    )
    node = node_type(cores, gib, cpu=cores - 0.4, memory=f"{gib - 4}GiB")
    written, room = Size.of(profile.request), allocatable(node, COMPUTE)

    placement = place(profile, node, COMPUTE, spread=True)

    promised = burst(profile).times_in(nominal(node))
    assert placement.per_node == placement.footprint.times_in(room) <= placement.per_node_written
    assert written.fits(placement.request) and placement.request.fits(Size.of(profile.limit))
    assert placement.raised == (placement.request != written)
    assert placement.request.fits(placement.footprint)
    if 0 < promised < placement.per_node_written:
        assert placement.per_node == promised, "by its request or by a spread constraint"


def room_of(max_nodes: int = 6, **requests: Size) -> PoolRoom:
    return PoolRoom("compute", size(15.6, 60), max_nodes, requests)


def test_a_pool_holds_as_many_workers_as_fit_on_its_nodes() -> None:
    pool = room_of(standard=size(3.9, 2), heavy=size(2, 12))

    assert pool.most("standard", {}) == 24
    assert pool.most("standard", {"standard": 99}) == 24
    assert pool.most("heavy", {"standard": 24}) == 0
    assert pool.most("heavy", {"standard": 20}) == 6
    assert pool.nodes({"standard": 20, "heavy": 6}) == 6
    assert pool.nodes({"standard": 20, "heavy": 7}) == 7
    assert pool.nodes({}) == pool.nodes({"standard": 0}) == 0


def test_no_more_workers_fit_beside_others_that_are_already_too_many() -> None:
    assert room_of(standard=size(3.9, 2), heavy=size(2, 12)).most("heavy", {"standard": 99}) == 0


@settings(max_examples=50)
@given(
    cpu=st.integers(1, 8),
    gib=st.integers(1, 30),
    other_cpu=st.integers(1, 8),
    other_gib=st.integers(1, 30),
    others=st.integers(0, 12),
    max_nodes=st.integers(1, 4),
)
def test_the_most_workers_fit_and_one_more_does_not(
    cpu: int, gib: int, other_cpu: int, other_gib: int, others: int, max_nodes: int
) -> None:
    pool = room_of(max_nodes, own=size(cpu, gib), other=size(other_cpu, other_gib))

    most = pool.most("own", {"other": others})

    if pool.nodes({"other": others}) <= max_nodes:
        assert pool.nodes({"other": others, "own": most}) <= max_nodes
        assert pool.nodes({"other": others, "own": most + 1}) > max_nodes
    else:
        assert most == 0


def test_a_tag_that_must_be_spread_takes_its_nodes_even_when_fewer_would_do() -> None:
    pool = PoolRoom("compute", size(15.6, 60), 6, {"heavy": size(2, 12)}, spread_over={"heavy": 2})

    assert pool.nodes({"heavy": 5}) == 2
    assert pool.nodes({"heavy": 1}) == 1
    assert pool.nodes({"heavy": 0}) == 0


def test_a_commitment_covers_the_start_the_work_and_the_idle_tail() -> None:
    pool = PoolRoom(
        "compute",
        size(15.6, 60),
        6,
        {"standard": size(3.9, 2), "heavy": size(2, 12)},
        spread_over={"heavy": 2},
        price=Money.parse("0.20 EUR"),
        provision_s=180,
        idle_s=600,
    )

    assert pool.commitment("standard", 4, busy_s=3600 - 780) == Money.parse("0.20 EUR")
    assert pool.commitment("standard", 5, busy_s=3600 - 780) == Money.parse("0.40 EUR")
    assert pool.commitment("heavy", 5, busy_s=3600 - 780) == Money.parse("0.40 EUR")
    scattered = pool.commitment("standard", 4, busy_s=3600 - 780, idle_nodes=True)
    assert scattered == Money.parse("0.80 EUR"), "each may wake a node of its own"
    assert pool.commitment("standard", 20, busy_s=3600 - 780, idle_nodes=True) == Money.parse("1.20 EUR")
    idle_only = pool.commitment("standard", 1)
    assert idle_only is not None and float(idle_only.amount) == pytest.approx(0.20 * 780 / 3600)


def test_a_pool_that_is_paid_anyway_commits_to_nothing() -> None:
    assert room_of(standard=size(3.9, 2)).commitment("standard", 100) is None

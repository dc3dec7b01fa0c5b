"""What workers cost on clouds: sizes that exist, prices with their date, prices of one's own."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from scalable.errors import ScalableError
from scalable.manifest.targets import AwsTarget, Charges, GcpTarget
from scalable.planning.capacity import FARGATE, CapacityError, fargate_size, known_machine, machine_types, price_list
from scalable.planning.prices import PriceUnknownError, Wanted, charge, estimate, machine_for
from scalable.quantities import Memory, Price, Share


def gib(amount: float) -> Memory:
    return Memory.of_gib(amount)


def fargate(**more: object) -> AwsTarget:
    return AwsTarget.model_validate({"provider": "aws", "region": "eu-central-1", **more})


def ec2(**more: object) -> AwsTarget:
    return AwsTarget.model_validate({"provider": "aws", "region": "us-east-1", "cluster_type": "ec2", **more})


def gcp(**more: object) -> GcpTarget:
    return GcpTarget.model_validate({"provider": "gcp", "zone": "us-central1-a", **more})


@pytest.mark.parametrize(
    ("cpus", "memory", "units", "mib", "why"),
    [
        (1, gib(2), 1024, 2048, ""),
        (2, None, 2048, 4096, ""),
        (1, gib(2.5), 1024, 3072, "3 GB instead of 2.5 (the next size there is)"),
        (1, gib(20), 4096, 20480, "4 vCPU instead of 1 (20 GB need them)"),
        (4, gib(1), 4096, 8192, "8 GB instead of 1 (the least with 4 vCPU)"),
        (3, gib(10), 4096, 10240, "4 vCPU instead of 3 (the next size there is)"),
        (8, gib(17), 8192, 20480, "20 GB instead of 17 (the next size there is)"),
        (16, gib(120), 16384, 122880, ""),
    ],
)
def test_a_fargate_task_is_the_smallest_that_exists_and_says_why_it_is_larger(
    cpus: int, memory: Memory | None, units: int, mib: int, why: str
) -> None:
    size = fargate_size(cpus, memory)
    assert (size.units, size.mib, size.why) == (units, mib, why)
    assert mib in FARGATE[units]


@pytest.mark.parametrize(("cpus", "memory"), [(17, None), (1, gib(121)), (32, gib(8))])
def test_a_worker_that_no_fargate_task_holds_is_refused_with_the_largest(cpus: int, memory: Memory | None) -> None:
    with pytest.raises(CapacityError, match=r"the largest has 16 vCPU, 120 GB; .*cluster_type: ec2"):
        fargate_size(cpus, memory)


def test_the_least_size_a_target_names_is_kept() -> None:
    size = fargate_size(1, gib(1), least_units=2048, least_mib=8192)
    assert (size.units, size.mib) == (2048, 8192)


def test_fargate_is_charged_by_vcpu_and_gb_as_the_list_says() -> None:
    one = charge(fargate(), 2, gib(8))
    assert one.hourly.currency == "USD"
    assert one.hourly.amount == Decimal("0.04656") * 2 + Decimal("0.00511") * 8
    assert one.source == "public list as of 2025-06"


def test_what_is_rounded_up_is_paid_and_explained() -> None:
    asked, got = charge(fargate(), 1, gib(9)), charge(fargate(), 2, gib(9))
    assert asked.hourly == got.hourly
    assert asked.why == "2 vCPU instead of 1 (9 GB need them)"


def test_ones_own_prices_come_first_and_in_their_currency() -> None:
    own = Charges(vcpu=Price.parse("0.05 EUR/h"), gb=Price.parse("0.01 EUR/h"))
    one = charge(fargate(region="mars-1", prices=own), 2, gib(4))
    assert str(one.hourly) == "EUR 0.14"
    assert one.source == "the manifest"
    machine = charge(ec2(region="mars-1", instance_type="z9.huge", prices={"machine": "1.5 EUR/h"}), 2, gib(4))
    assert (str(machine.hourly), machine.what) == ("EUR 1.50", "z9.huge")


def test_spot_is_counted_at_the_usual_price_until_the_manifest_says_its_part() -> None:
    usual = charge(fargate(), 2, gib(8)).hourly
    assert charge(fargate(spot=True), 2, gib(8)).hourly == usual
    part = charge(fargate(spot=True, prices={"spot": "40%"}), 2, gib(8)).hourly
    assert float(part.amount) == pytest.approx(0.4 * float(usual.amount))
    assert charge(fargate(prices={"spot": "40%"}), 2, gib(8)).hourly == usual, "not asked for spot"


@pytest.mark.parametrize(
    ("target", "known", "remedy"),
    [
        (fargate(region="mars-1"), "eu-central-1", "prices: {vcpu: 0.04 USD/h, gb: 0.004 USD/h}"),
        (ec2(region="mars-1", instance_type="m5.large"), "us-east-1", "prices: {machine: 0.10 USD/h}"),
        (ec2(instance_type="z9.huge"), "us-east-1", "prices: {machine: 0.10 USD/h}"),
        (gcp(zone="mars-1-a", machine_type="e2-standard-2"), "us-central1", "prices: {machine: 0.10 USD/h}"),
    ],
)
def test_a_price_nobody_knows_is_refused_with_those_that_are_known_and_what_to_write(
    target: AwsTarget | GcpTarget, known: str, remedy: str
) -> None:
    with pytest.raises(PriceUnknownError) as error:
        charge(target, 1, gib(2))
    assert known in str(error.value)
    assert remedy in str(error.value)


def test_a_machine_price_on_fargate_is_refused() -> None:
    with pytest.raises(PriceUnknownError, match="Fargate charges no machines"):
        charge(fargate(prices={"machine": "1 USD/h"}), 1, None)


@pytest.mark.parametrize(
    "wrong", [{"vcpu": "1 USD/h"}, {"gb": "1 USD/h"}, {"machine": "1 USD/h", "vcpu": "1 USD/h", "gb": "1 USD/h"}]
)
def test_prices_that_do_not_go_together_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="write"):
        Charges.model_validate(wrong)


@pytest.mark.parametrize(
    ("target", "cpus", "memory", "name"),
    [
        (ec2(), 2, gib(3), "c5.large"),
        (ec2(), 2, gib(7), "m5.large"),
        (ec2(), 2, gib(7.5), "r5.large"),  # the system keeps some of the 8 GiB
        (ec2(), 1, gib(14), "r5.large"),
        (ec2(instance_type="m5.4xlarge"), 2, gib(7), "m5.4xlarge"),
        (gcp(), 2, gib(6), "e2-standard-2"),
        (gcp(), 4, gib(3), "e2-highcpu-4"),
        (gcp(machine_type="n2-standard-4"), 1, None, "n2-standard-4"),
    ],
)
def test_the_cheapest_machine_that_holds_the_worker_is_taken(
    target: AwsTarget | GcpTarget, cpus: int, memory: Memory, name: str
) -> None:
    assert machine_for(target, cpus, memory).name == name


def test_a_named_machine_that_is_too_small_is_refused() -> None:
    with pytest.raises(CapacityError, match=r"m5.large \(2 vCPU, 8 GiB\) cannot hold .* name a larger type"):
        machine_for(ec2(instance_type="m5.large"), 2, gib(8))


def test_machines_cost_what_the_list_says() -> None:
    assert float(charge(ec2(instance_type="m5.xlarge"), 4, None).hourly.amount) == pytest.approx(0.192)
    assert float(charge(ec2(instance_type="r5.2xlarge"), 4, None).hourly.amount) == pytest.approx(0.504)
    assert float(charge(gcp(machine_type="e2-standard-4"), 4, None).hourly.amount) == pytest.approx(0.134, abs=1e-4)
    assert float(charge(gcp(machine_type="n2-standard-4"), 4, None).hourly.amount) == pytest.approx(0.1942, abs=1e-4)


def test_an_estimate_has_a_line_for_each_kind_and_adds_up() -> None:
    found = estimate(fargate(), {"small": Wanted(3, 1, gib(2)), "large": Wanted(1, 4, gib(30))})
    assert found.provider == "aws"
    assert found.region == "eu-central-1"
    assert found.total_hourly == pytest.approx(sum(line["hourly"] for line in found.line_items))
    assert found.total_monthly == pytest.approx(730 * found.total_hourly)
    assert [line["what"] for line in found.line_items] == [
        "3 × small, Fargate, 1 vCPU, 2 GB each",
        "1 × large, Fargate, 4 vCPU, 30 GB each",
    ]
    assert found.metadata["prices"] == ["public list as of 2025-06"]


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_every_figure_of_the_lists_is_dated_and_belongs_to_something_known(cloud: str) -> None:
    prices = price_list(cloud)
    families = {one.family.split("-")[0] if cloud == "gcp" else one.family for one in machine_types(cloud)}
    for kind in {"fargate", "machines", "parts"} & set(prices):
        for region, facts in prices[kind].items():
            assert re.fullmatch(r"20\d\d-[01]\d", facts["as_of"]), region
            named = set(facts) - {"as_of", "vcpu", "gb"}
            assert named <= families, region
    assert known_machine(cloud, {"aws": "m5.2xlarge", "gcp": "e2-highmem-8"}[cloud]) is not None
    assert known_machine(cloud, "no such type") is None


def test_errors_about_prices_are_errors_of_the_package() -> None:
    assert issubclass(PriceUnknownError, ScalableError)
    assert issubclass(CapacityError, ScalableError)
    assert Share.parse("40%") == 0.4

"""The manifest's section on alerts: secrets by reference, thresholds in their own units, and what is wrong is named."""

from __future__ import annotations

import pytest

from scalable.manifest import ManifestError
from scalable.manifest.load import load_text
from scalable.manifest.models import Manifest

URL = "https://hooks.example.com/services/T0/B0/hidden"


def loaded(alerts: str) -> Manifest:
    text = f"version: 1\nproject: {{name: p}}\ntargets: {{here: {{provider: local}}}}\nalerts:\n{alerts}"
    return load_text(text, env={"SLACK_WEBHOOK": URL, "EMPTY": "", "NONSENSE": "hidden"}).manifest


def test_without_a_section_alerts_are_sent_nowhere_and_keep_their_thresholds() -> None:
    alerts = load_text("version: 1\nproject: {name: p}\n", env={}).manifest.alerts
    assert alerts.webhook is None
    assert alerts.thresholds == {}


def test_the_webhook_is_a_secret_that_a_variable_holds() -> None:
    alerts = loaded("  webhook: ${SLACK_WEBHOOK}\n").alerts
    assert alerts.webhook is not None
    assert alerts.webhook.get_secret_value() == URL
    assert "hidden" not in repr(alerts)
    assert "hidden" not in str(alerts.model_dump())


def test_an_empty_variable_means_no_webhook() -> None:
    assert loaded("  webhook: ${EMPTY:-}\n").alerts.webhook is None


def test_thresholds_are_written_as_people_write_them() -> None:
    found = loaded("  thresholds: {WorkerMemory: 90%, NodeCpu: 0.95, RunLong: 30m, PendingWork: 10, Stuck: off}\n")
    wanted = {"WorkerMemory": 0.9, "NodeCpu": 0.95, "RunLong": 1800.0, "PendingWork": 10.0, "Stuck": None}
    assert found.alerts.thresholds == wanted


@pytest.mark.parametrize(
    ("alerts", "place", "message", "remedy"),
    [
        (
            f"  webhook: {URL}\n",
            "alerts.webhook",
            "alerts.webhook is a secret and stands in the manifest",
            "export ALERTS_WEBHOOK=… and write webhook: ${ALERTS_WEBHOOK}",
        ),
        ("  webhook: ${NONSENSE}\n", "alerts.webhook", "webhook is no web address", "export SLACK_WEBHOOK=https://…"),
        (
            "  thresholds: {WorkerMemry: 90%}\n",
            "alerts.thresholds.WorkerMemry",
            "alert 'WorkerMemry' is not defined",
            "write WorkerMemory",
        ),
        (
            "  thresholds: {WorkerMemory: much}\n",
            "alerts.thresholds.WorkerMemory",
            "WorkerMemory: 'much' is not a share",
            "write e.g. 40%",
        ),
        ("  thresholds: {RunLong: soon}\n", "alerts.thresholds.RunLong", "RunLong: 'soon'", "write"),
        (
            "  thresholds: {PendingWork: -1}\n",
            "alerts.thresholds.PendingWork",
            "PendingWork: -1 is no threshold",
            "off",
        ),
        ("  thresholds: 5\n", "alerts.thresholds", "5 is not a mapping", "write keys"),
        ("  email: me\n", "alerts.email", "unknown key 'email'", "known here: webhook, thresholds"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_to_write(
    alerts: str, place: str, message: str, remedy: str
) -> None:
    with pytest.raises(ManifestError) as refused:
        loaded(alerts)
    (issue,) = refused.value.report.errors
    assert issue.path == place
    assert message in issue.message
    assert remedy in issue.remedy
    assert issue.place is not None
    assert issue.place.line == 5
    assert "hidden" not in issue.message

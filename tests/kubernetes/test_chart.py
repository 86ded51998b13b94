"""The Helm chart: what it renders is kept in ``everything.yaml`` and read here.

``CHART=1`` writes that file anew (`make chart`).
"""

from __future__ import annotations

import importlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from approvals.management.commands.write_docs import FOR_ALL
from approvals.processes import COURIER, PROCESSES, SWEEPER, WORKER

ROOT = Path(settings.BASE_DIR)
CHART = ROOT / "examples/kubernetes/assent"
KEPT = Path(__file__).with_name("everything.yaml")
VALUES = yaml.safe_load(Path(__file__).with_name("values.yaml").read_text())


def tool(name: str) -> Any:
    """A module of the group ``release``, without which CI fails and nobody else."""
    return importlib.import_module(name) if os.environ.get("CI") else pytest.importorskip(name)


def rendered(values: dict[str, Any]) -> str:
    with tool("helm_python.chart").Chart.load(CHART) as chart:
        manifests = chart.render(values, name="assent", namespace="desk", is_install=True)
    texts = [manifests[name] for name in sorted(manifests) if name.endswith(".yaml")]
    lines = "\n---\n".join(texts).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip()) + "\n"


def kept() -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(KEPT.read_text()) if each]


def pods() -> dict[str, dict[str, Any]]:
    """The specification of each pod, by the name of its process."""
    templates = [
        each["spec"]["template"] for each in kept() if each["kind"] in {"Deployment", "Job"}
    ]
    return {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]
        for each in templates
    }


def test_the_chart_renders_what_is_kept():
    text = rendered(VALUES)
    if os.environ.get("CHART"):
        KEPT.write_text(text)

    assert text == KEPT.read_text(), "run `make chart` and look at the difference"


def test_a_pod_of_each_process_gets_its_own_secrets_and_no_other():
    for process in PROCESSES:
        [container] = pods()[process.name]["containers"]
        references = {
            variable["name"]: variable["valueFrom"]["secretKeyRef"]
            for variable in container["env"]
            if "valueFrom" in variable
        }
        plain = {variable["name"] for variable in container["env"] if "value" in variable}

        assert container["args"][:3] == ["assent", "run", process.name]
        assert set(references) == process.secrets | set(FOR_ALL)
        assert [key for key, reference in references.items() if reference["key"] != key] == []
        told = {"ASSENT_HAS_SLACK", "ASSENT_HAS_MAIL"} & plain
        assert ("ASSENT_HAS_SLACK" in told) == ("ASSENT_SLACK_BOT_TOKEN" not in process.secrets)
        assert ("ASSENT_HAS_MAIL" in told) == ("ASSENT_EMAIL_URL" not in process.secrets)
    assert set(pods()) == {process.name for process in PROCESSES}


def test_no_pod_is_root_writes_its_own_files_or_speaks_to_kubernetes():
    for name, pod in pods().items():
        [container] = pod["containers"]

        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)


def test_what_carries_out_calls_may_end_them_and_web_says_how_it_is():
    patient = {name for name, pod in pods().items() if pod["terminationGracePeriodSeconds"] == 610}
    image = re.search(r"^CMD (.*)$", (ROOT / "Dockerfile").read_text(), re.M)
    [web] = pods()["web"]["containers"]

    assert patient == {WORKER.name, COURIER.name, SWEEPER.name}
    assert image
    assert web["args"] == json.loads(image[1])
    assert web["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert web["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_budget_of_database_sessions_is_reckoned_with_what_runs():
    replicas = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]["replicas"]
        for each in kept()
        if each["kind"] == "Deployment"
    }
    for name, pod in pods().items():
        said = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        for kind in ("web", "worker", "courier", "bus"):
            assert said[f"ASSENT_{kind.upper()}_PROCESSES"] == str(replicas[kind]), name


def test_only_the_ingress_controller_reaches_a_pod_and_no_pod_the_metadata_of_its_machine():
    policies = {
        each["metadata"]["name"]: each["spec"] for each in kept() if each["kind"] == "NetworkPolicy"
    }
    [outside] = policies["assent-outside"]["egress"]

    assert policies["assent-all"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policies["assent-all"]
    [allowed] = policies["assent-web"]["ingress"]
    assert allowed["from"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}
    ]
    assert outside["to"][0]["ipBlock"]["except"] == ["169.254.0.0/16"]
    assert policies["assent-outside"]["podSelector"]["matchExpressions"][0]["values"] == ["migrate"]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_kubernetes_takes_every_object(version):
    validate = tool("kubernetes_validate").validate
    objects = kept()

    assert len(objects) > 15
    for each in objects:
        assert validate(each, version, strict=True)


def test_the_chart_is_without_fault_by_helms_own_rules():
    report = tool("helm_python.chart").lint(CHART, VALUES, strict=True, kube_version="v1.30.0")

    assert [each for each in report["messages"] if each["severity"] > 1] == []
    assert report["errors"] == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"image": ""}, "Set image"),
        ({"settings": {"ASSENT_AUDIT_KEY": "00"}}, "is a secret"),
        ({"settings": {"DATABASE_URL_FILE": "/x"}}, "is a secret"),
        ({"publicUrl": "http://assent.example"}, "publicUrl"),
        ({"wrker": 2}, "wrker"),
        ({"networkPolicy": {"ingressFrom": []}}, "ingressFrom"),
    ],
)
def test_values_that_would_be_unsafe_or_are_misspelt_are_refused(values, said):
    with pytest.raises(tool("helm_python").HelmError, match=said):
        rendered(VALUES | values)


def test_prometheus_gets_the_alarms_of_the_documentation_and_scrapes_the_public_address():
    monitoring = {"enabled": True, "labels": {"release": "prometheus"}}
    rendering = rendered(VALUES | {"monitoring": monitoring})
    objects = {each["kind"]: each for each in yaml.safe_load_all(rendering) if each}
    rules, scrape = objects["PrometheusRule"], objects["ScrapeConfig"]

    assert rules["spec"] == yaml.safe_load((ROOT / "docs/assent.rules.yaml").read_text())
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    assert scrape["spec"]["jobName"] == "assent", "as the alarms have it"
    assert scrape["spec"]["staticConfigs"] == [{"targets": ["assent.example:8443"]}]


def test_without_extras_there_are_no_objects_for_them():
    objects = list(yaml.safe_load_all(rendered({"image": "assent"})))
    kinds = {each["kind"] for each in objects if each}

    assert kinds == {"Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "Service"}

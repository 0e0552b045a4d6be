"""A software bill of materials. In: a directory of installed Python packages. Out: CycloneDX 1.5 JSON, printed.

    python packaging/bom.py DIRECTORY

What the installed metadata says, and nothing else; no time but SOURCE_DATE_EPOCH, so that the same packages give the
same bytes.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions

OURS = "pal-slurm"
LONGEST = 60  # characters of a licence's name


def licences(one: Distribution) -> list[dict[str, object]]:
    if expression := one.metadata.get("License-Expression"):
        return [{"expression": expression}]
    named = [c.rpartition(" :: ")[2] for c in one.metadata.get_all("Classifier", []) if c.startswith("License ::")]
    told = one.metadata.get("License", "")  # older packages put the whole text there
    return [{"license": {"name": name}} for name in named or [told] if name and len(name) <= LONGEST]


def component(one: Distribution) -> dict[str, object]:
    name, kind = one.name.lower().replace("_", "-"), "application" if one.name == OURS else "library"
    found: dict[str, object] = {
        "type": kind, "bom-ref": f"pkg:pypi/{name}@{one.version}", "name": name, "version": one.version,
        "purl": f"pkg:pypi/{name}@{one.version}",
    }  # fmt: skip
    return found | ({"licenses": told} if (told := licences(one)) else {})


def bom(directory: str) -> dict[str, object]:
    found = sorted(distributions(path=[directory]), key=lambda one: one.name.lower())
    parts = [component(one) for one in found]
    [ours] = [part for part in parts if part["name"] == OURS]
    when = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(parts))}",
        "version": 1,
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": ours},
        "components": [part for part in parts if part is not ours],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bom(sys.argv[1]), indent=2) + "\n")

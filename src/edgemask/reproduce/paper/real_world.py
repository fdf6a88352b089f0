"""Tables 5 and 6: WebVision-mini and Clothing1M."""

from __future__ import annotations

from collections.abc import Iterator

from edgemask.reproduce.paper.systems import cited, system
from edgemask.reproduce.spec import Claim, Column, Experiment, numbers

__all__ = ["experiments"]


def experiments() -> Iterator[Experiment]:
    """Make the tables."""
    yield _table5()
    yield _table6()


def _table5() -> Experiment:
    columns = tuple(
        Column(
            key=key,
            title=title,
            dataset="webvision-mini",
            protocol="paper",
            metric=metric,
            settings={"eval": {"top5": True}},
        )
        for key, title, metric in (
            ("webvision-top1", "WebVision top-1", "test/accuracy"),
            ("webvision-top5", "WebVision top-5", "test/top5"),
            ("ilsvrc12-top1", "ILSVRC12 top-1", "test.ilsvrc12/accuracy"),
            ("ilsvrc12-top5", "ILSVRC12 top-5", "test.ilsvrc12/top5"),
        )
    )
    return Experiment(
        name="table5",
        title="Table 5: WebVision-mini",
        rows=(
            system("dividemix", "DivideMix", method="dividemix"),
            system("unicon", "UNICON", method="unicon"),
            cited("nce", "NCE (neighbourhood)"),
            cited("disc", "DISC"),
            cited("clipcleaner", "CLIPCleaner"),
            system("jal", "JAL", loss="jal"),
            system("josnc", "Jo-SNC", method="josnc"),
            system("jal-sem", "JAL-SEM", loss="jal", head="sem"),
            system("josnc-sem", "Jo-SNC-SEM", method="josnc", head="sem"),
        ),
        columns=columns,
        paper=numbers(
            [column.key for column in columns],
            {
                "dividemix": "77.32 91.64 75.2 90.84",
                "unicon": "77.60 93.44 75.29 93.72",
                "nce": "79.50 93.80 76.30 94.10",
                "disc": "80.28 92.28 77.44 92.28",
                "clipcleaner": "81.56 93.26 77.8 92.08",
                "jal": "69.88 86.60 66.20 86.16",
                "josnc": "82.60 94.32 80.08 93.84",
                "jal-sem": "71.04 87.36 67.59 87.52",
                "josnc-sem": "84.52 94.68 82.12 94.40",
            },
        ),
        claims=(Claim("jal-sem", "jal"), Claim("josnc-sem", "josnc")),
    )


def _table6() -> Experiment:
    column = Column(key="accuracy", title="accuracy", dataset="clothing1m", protocol="paper")
    return Experiment(
        name="table6",
        title="Table 6: Clothing1M",
        rows=(
            system("dividemix", "DivideMix", method="dividemix"),
            cited("sop", "SOP"),
            cited("ssr", "SSR"),
            cited("elr+", "ELR+"),
            cited("promix", "ProMix"),
            cited("disc", "DISC"),
            cited("clipcleaner", "CLIPCleaner"),
            system("jal", "JAL", loss="jal"),
            system("jal-sem", "JAL-SEM", loss="jal", head="sem"),
            system("dividemix-sem", "DivideMix-SEM", method="dividemix", head="sem"),
        ),
        columns=(column,),
        paper=numbers(
            ["accuracy"],
            {
                "dividemix": "74.76",
                "sop": "73.5",
                "ssr": "74.83",
                "elr+": "74.81",
                "promix": "74.94",
                "disc": "73.72",
                "clipcleaner": "74.87",
                "jal": "70.31",
                "jal-sem": "71.66",
                "dividemix-sem": "75.48",
            },
        ),
        claims=(Claim("jal-sem", "jal"), Claim("dividemix-sem", "dividemix")),
    )

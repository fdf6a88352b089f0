"""`make advisories` reads the pages of releases, and says which it could not."""

from __future__ import annotations

from guarantees import advisories


def test_advisories_are_those_of_the_installed_release(monkeypatch, capsys):
    flaw = {"id": "PYSEC-1", "fixed_in": ["1.1"], "summary": "reads  too\nmuch"}
    old = {"id": "PYSEC-0", "withdrawn": "2026-01-01"}
    pages = {
        "sound/2.0": {"info": {"version": "2.0"}, "vulnerabilities": [old]},
        "newest": {"info": {"version": "1.0"}, "vulnerabilities": [flaw]},
        "older": {"info": {"version": "3.0"}, "vulnerabilities": []},  # installed is 2.0
        "silent": {"info": {"version": "1.0"}},
    }
    monkeypatch.setattr(advisories, "page", pages.get)
    assert advisories.advisories("sound", "2.0+cpu") == []
    assert advisories.advisories("newest", "1.0") == [flaw]
    for name, version in (("older", "2.0"), ("silent", "1.0"), ("unknown", "1.0")):
        assert advisories.advisories(name, version) is None

    class Package:
        def __init__(self, name: str, version: str):
            self.metadata, self.version = {"Name": name}, version

    packages = [Package("newest", "1.0"), Package("older", "2.0"), Package("Sound", "2.0")]
    monkeypatch.setattr(advisories.importlib.metadata, "distributions", lambda: packages)
    assert advisories.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "newest 1.0: PYSEC-1 (fixed in 1.1) reads too much",
        "not checked, no page of this release: older 2.0",
        "2 of 3 packages checked, 1 with advisories",
    ]

"""Tests; a package, so that helpers are imported by one name everywhere."""

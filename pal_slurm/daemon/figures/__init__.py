"""Figures for Prometheus. In: cycle reports. Out: HTTP answers on one address."""

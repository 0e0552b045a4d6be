"""Setting a site up for exact pins: one GRES type per device. In: gres.conf, node records. Out: lines, findings."""

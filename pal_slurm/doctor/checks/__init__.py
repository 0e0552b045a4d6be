"""The checks of `palctl doctor`, one per file, found by name. In: a Site. Out: advice."""

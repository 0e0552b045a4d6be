"""One file per command of palctl; each holds a click command named `command`."""

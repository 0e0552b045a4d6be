"""The programs: parse, call, print. `palctl` (one file per command in `commands/`), `pald`, `pal-probe`."""

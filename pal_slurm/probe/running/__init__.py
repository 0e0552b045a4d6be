"""The program pal-run: a command that can save, made a job that can move. In: signals. Out: saves, and one requeue."""

"""Who may pass a job that does not fit; one file per rule."""

"""What stored runs and samples teach: scores, base times, classes. Out: what is known of GPUs and apps."""

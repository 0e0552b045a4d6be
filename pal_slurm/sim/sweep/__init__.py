"""Many runs of the simulator: a grid of policies, loads, seeds and clusters."""

"""Work in a thread beside the cycle, which it must not hold up. In: the time. Out: scores learned, old rows removed."""

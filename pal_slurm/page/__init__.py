"""The live page: who holds which GPU, who waits and why. In: the store, what pald sees. Out: HTML, events."""

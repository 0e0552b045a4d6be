"""Who runs, then in which pool: one assignment for all claims, with the cost of a move in it. In: claims. Out: pools.

A pool is the GPUs of one model in one partition. Which GPUs inside it is asked afterwards, by scores and spans.
"""

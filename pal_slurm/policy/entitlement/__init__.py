"""How much of each pool each job is owed: objectives as linear programs, a file each. In: a Division. Out: Shares.

An entitlement says what is fair or cheap over hours; who runs where at a moment follows from it elsewhere.
"""

"""Edits and what became of them, alike for every backend. In: Edit, Job. Out: what is written, EditResult."""

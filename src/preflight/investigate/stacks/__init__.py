"""Stacks of all ranks side by side: who does the same, and who does something else.

``grouping.votes_of_stacks`` is what others call.
"""

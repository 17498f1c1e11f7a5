"""What Flight Recorder dumps say of a hang: who is waited for, who called something else.

``votes.votes_of_flights`` is what others call.
"""

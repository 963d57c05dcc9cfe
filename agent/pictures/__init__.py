"""Plots at a terminal that can draw them.

A picture is read and scaled inside the sandbox, and only its pixels come out: no decoder of this machine, and
none of the terminal's, gets bytes that the agent has made. What is sent is written here, from those pixels.
"""

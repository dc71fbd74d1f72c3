"""A campaign against the package: real processes that are killed, fed damaged files, wrong flags and bad environments.

    python -m campaign --minutes 10 --seed 0

Every attempt has a number and random choices of its own, so that one that went wrong can be repeated:

    python -m campaign --seed 0 --family damage --number 137 --keep
"""

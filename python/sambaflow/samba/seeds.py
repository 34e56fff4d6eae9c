# SPDX-License-Identifier: Apache-2.0
"""Which seed the random numbers of a device start from, masks of dropout among them: that of setup, of a command line or of
utils.set_seed; without these it is torch's, so that torch.manual_seed does on the device what it does on the host. A program that
seeds nothing has 0, and so have replicas, whose programs often seed torch with their rank.

>>> import sambaflow.samba as samba
>>> session, state = samba.SambaSession(), torch.get_rng_state()
>>> _ = torch.manual_seed(3)
>>> follow(session)
>>> session.seed
3
>>> _ = torch.set_rng_state(state)
"""

import torch

from sambaflow import launch
from sambaflow.samba import _state

_UNSEEDED = 67280421310721  # torch's own seed where a program has given none
_ours = _state.until_reset(set())  # the seed that set_seed has given torch last, for one session and not for all

initial_seed = torch.default_generator.initial_seed


def start():
    """(a session's seed, torch's seed that it knows of, what it had from there) where nothing is said."""
    return 0, _UNSEEDED, 0


def choose(session, seed):
    """Has a session's random numbers start from a seed that a program gives it, whatever torch's is."""
    session.seed, session._torch_seed = seed, None
    _ours.clear()
    _ours.add(seed)
    if session._device is not None:
        session._device.reset_random(seed)


def follow(session):
    """Has them start from torch's seed where that is another one than when they did last, and the session was given none."""
    now, known = initial_seed(), session._torch_seed
    if known is None or now == known:
        return
    session._torch_seed = now
    if now in _ours or launch.told().size > 1:
        return
    if session.seed != session._followed:  # the program has set it
        session._torch_seed = None
        return
    session.seed = session._followed = 0 if now == _UNSEEDED else now
    if session._device is not None:
        session._device.reset_random(session.seed)

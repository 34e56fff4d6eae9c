# SPDX-License-Identifier: Apache-2.0
"""Which seed the random numbers of a device start from, masks of dropout among them: that of setup, of a command line or of
utils.set_seed; without these it is torch's, so that torch.manual_seed does on the device what it does on the host. A program that
seeds nothing has 0, and so have replicas, whose programs often seed torch with their rank.

A run looks at the state of torch's generator. Where it is one that the device has started from, or one right behind manual_seed,
they start over; a draw then takes the generator on, as a dropout on the host would, so that the same seed is seen to be given
again. Between two runs a program may draw what it likes. Where it goes back to a seed that it had before, by leaving
torch.random.fork_rng for one, there are new numbers of that seed.

>>> import sambaflow.samba as samba
>>> session, state = samba.SambaSession(), torch.get_rng_state()
>>> _ = torch.manual_seed(3)
>>> session._follows.begin(session)
>>> session.seed
3
>>> torch.set_rng_state(state)
"""

import hashlib

import torch

from sambaflow import launch
from sambaflow.samba import _state

_UNSEEDED = 67280421310721  # torch's own seed where a program has given none
_MOST = 256  # states that are known
_LEFT = slice(8, 24)  # of a state: three numbers of the generator's progress, behind its seed
_ours = _state.until_reset(set())  # the seed that set_seed has given torch last, for one session and not for all
_get_state, _initial_seed = torch.default_generator.get_state, torch.default_generator.initial_seed


def _fresh_bytes():
    state = torch.Generator().manual_seed(1).get_state()
    return state.numpy()[_LEFT].tobytes()


_FRESH = _fresh_bytes()


class Follows:
    """How a session follows torch's seed."""

    def __init__(self):
        self.own = False  # the program has given the session a seed, whatever torch's is
        self._known, self._given = _UNSEEDED, 0  # torch's seed, and the one that the session has for it
        self._last = None  # torch's state as the last run has left it
        self._starts = {}  # a state's digest -> the seed that the device had from there
        self._returns = {}  # torch's seed -> how often it came without a start

    def _is_own(self, session):
        self.own = self.own or session.seed != self._given  # which a program has set
        return self.own or launch.told().size > 1

    def begin(self, session):
        """A PEF is loaded: its device starts from torch's seed."""
        seed = _initial_seed()
        if not self._is_own(session) and seed != self._known and seed not in _ours:
            session.seed = self._given = 0 if seed == _UNSEEDED else seed
            self._returns.setdefault(seed, 0)
        self._known = seed

    def follow(self, session):
        """Before a run: has the device's numbers start over, where torch's do."""
        seed = _initial_seed()
        if (seed == _UNSEEDED and self._known == _UNSEEDED) or self._is_own(session):
            return
        state = _get_state()
        if self._last is not None and torch.equal(state, self._last):
            return
        held, before = state.numpy(), self._known
        self._last, self._known = state, seed
        if seed in _ours:
            return
        digest, fresh = hashlib.blake2b(held.tobytes(), digest_size=16).digest(), held[_LEFT].tobytes() == _FRESH
        if digest in self._starts:
            self._start(session, self._starts[digest], digest)
        elif fresh or (seed != before and seed not in self._returns):
            self._returns.setdefault(seed, 0)
            self._start(session, 0 if seed == _UNSEEDED else seed, digest)
        elif seed != before:  # a state from somewhere in the middle
            self._returns[seed] += 1
            self._start(session, _mixed(seed, self._returns[seed]), digest)

    def _start(self, session, seed, digest):
        session.seed = self._given = seed
        if len(self._starts) >= _MOST:
            del self._starts[next(iter(self._starts))]
        self._starts[digest] = seed
        torch.rand(())
        self._last = _get_state()
        if session._device is not None:
            session._device.reset_random(seed)

    def resume(self, session, seed):
        """A checkpoint has given the session its seed and its device's numbers, and torch's generator its state."""
        session.seed = self._given = seed
        self._known, self._last = _initial_seed(), _get_state()
        self._returns.setdefault(self._known, 0)

    def give(self, session, seed):
        """The session has a seed of its own from here on."""
        session.seed, self.own = seed, True


def _mixed(seed, count):
    return int.from_bytes(hashlib.blake2b(f"{seed} {count}".encode(), digest_size=7).digest(), "little")


def choose(session, seed):
    """Has a session's random numbers start from a seed that a program gives it."""
    session._follows.give(session, seed)
    _ours.clear()
    _ours.add(seed)
    if session._device is not None:
        session._device.reset_random(seed)

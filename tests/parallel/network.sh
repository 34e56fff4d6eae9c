#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# network.sh RATE PLUGINS PROGRAM [ARGUMENT...]: two replicas, each in a network of its own, joined by a cable that carries RATE
# (as tc says it: 1gbit) in each direction. As root; Open MPI.
#
# A real cable sends by a clock of its own. This one sends when the kernel finds the time, so what it may send at once has to last
# for as long as busy cores keep it waiting: with 256 KiB (2 ms) a link of 125 MB/s carried 88, with 1 MiB 119.
set -eu
rate=$1 plugins=$2
shift 2
one=sambaflow-one-$$ two=sambaflow-two-$$
agent=$(mktemp)
clean() {
    ip netns del "$one" 2>/dev/null || true
    ip netns del "$two" 2>/dev/null || true
    rm -f "$agent"
}
trap clean EXIT
ip netns add "$one"
ip netns add "$two"
ip link add cable1 netns "$one" type veth peer name cable2 netns "$two"
for end in "$one cable1 10.77.0.1" "$two cable2 10.77.0.2"; do
    set -- $end "$@"
    ip -n "$1" addr add "$3/24" dev "$2"
    ip -n "$1" link set "$2" up
    ip -n "$1" link set lo up
    tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 1mb latency 50ms
    shift 3
done
# What Open MPI starts on a machine is started in the other network.
printf '#!/bin/sh\nshift\nexec ip netns exec %s sh -c "$*"\n' "$two" >"$agent"
chmod +x "$agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 SAMBAFLOW_PLUGINS=$plugins
ip netns exec "$one" "$(command -v mpirun.openmpi || command -v mpirun)" -n 2 --host 10.77.0.1:1,10.77.0.2:1 --bind-to none \
    --mca plm_rsh_agent "$agent" --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
    -x SAMBAFLOW_PLUGINS "$@"

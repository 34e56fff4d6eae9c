#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What keeps a process to an instruction set, as a processor without the better ones would: variables of the environment,
# NAME=VALUE, one a line, of SambaFlow, libxsmm, PyTorch, oneDNN, MKL, NumPy and XLA. No variable of ONNX Runtime is known. XLA's
# YNNPACK asks the processor alone, so XLA is told to do without it.
# Usage: tools/isa-variables.sh generic|avx2|avx512|amx|neon
set -eu
case ${1:-} in
generic)
    limits='LIBXSMM_TARGET=generic
ATEN_CPU_CAPABILITY=default
ONEDNN_MAX_CPU_ISA=SSE41
MKL_ENABLE_INSTRUCTIONS=SSE4_2
NPY_DISABLE_CPU_FEATURES=X86_V3 X86_V4 AVX512_ICL AVX512_SPR
XLA_FLAGS=--xla_cpu_max_isa=SSE4_2 --xla_cpu_experimental_ynn_fusion_type='
    ;;
avx2)
    limits='LIBXSMM_TARGET=hsw
ATEN_CPU_CAPABILITY=avx2
ONEDNN_MAX_CPU_ISA=AVX2
MKL_ENABLE_INSTRUCTIONS=AVX2
NPY_DISABLE_CPU_FEATURES=X86_V4 AVX512_ICL AVX512_SPR
XLA_FLAGS=--xla_cpu_max_isa=AVX2 --xla_cpu_experimental_ynn_fusion_type='
    ;;
neon)
    limits='ATEN_CPU_CAPABILITY=default
ONEDNN_MAX_CPU_ISA=ADVANCED_SIMD'
    ;;
avx512) # without AMX
    limits='ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16
MKL_ENABLE_INSTRUCTIONS=AVX512_E3
XLA_FLAGS=--xla_cpu_max_isa=AVX512_BF16'
    ;;
amx) limits= ;; # the best that any of them uses here
*)
    echo "isa-variables: how other programs are kept to '${1:-}' is not known here" >&2
    exit 2
    ;;
esac
echo "SAMBAFLOW_ISA=$1"
[ -z "$limits" ] || echo "$limits"

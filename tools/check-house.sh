#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The rules of the house that a script can see: include directions, file heads, file sizes, order of evaluation, headers
# that compile alone.
set -u
cd "$(dirname "$0")/.."
bad=0
complain() { echo "house: $*" >&2; bad=1; }

# Who may include whom: a folder's own headers and those named here. docs/architecture.md draws it.
declare -A allowed=(
    [base]="" [tensor]="base" [plan]="base tensor" [pef]="base tensor plan" [device]="base tensor plan" [data]="base tensor"
    [parallel]="base tensor" [runtime]="base tensor plan device pef data parallel"
    [train]="base tensor plan data runtime"
    [graph]="base tensor" [ops]="base tensor graph" [trace]="base tensor graph ops"
    [autodiff]="base tensor graph ops" [compiler]="base tensor graph ops autodiff plan pef"
    [function]="base tensor graph ops autodiff plan pef runtime compiler"
    [onnx]="base tensor graph ops data"
    [gguf]="base tensor"
    [lm]="base tensor graph data gguf"
    [text]="base gguf"
    [prepare]="base data gguf text"
    [report]="base tensor plan device parallel runtime"
    [app]="base tensor graph ops autodiff plan device pef data runtime train compiler report"
    [serve]="base tensor"
    [cli]="base tensor graph plan device pef data parallel runtime app report serve"
)
# Rooms in a room, ROOT/*/: what each may include of the others. FREE headers of the root stand above them all.
includes() { # PREFIX FOLDER: FILE:HEADER of each header whose path begins so, without the prefix
    grep -rHoE "^#include \"$1[^\"]+\"" "$2" --include='*.c' --include='*.h' | sed -E "s|:#include \"$1([^\"]+)\"|:\1|"
}
check_rooms() { # ROOT FREE..., with `rooms`
    local root=$1 room file included to
    shift
    for room in "src/$root"/*/; do
        room=$(basename "$room")
        [ -n "${rooms[$room]+there}" ] || complain "src/$root/$room is no room that tools/check-house.sh knows"
        while IFS=: read -r file included; do
            to=${included%%/*}
            [[ " $* " == *" $included "* || "$to" == "$room" || " ${rooms[$room]} " == *" $to "* ]] ||
                complain "$file includes \"$root/$included\":" \
                    "$root/$room may only include ${*:-nothing} and from: ${rooms[$room]:-nothing}"
        done < <(includes "$root/" "src/$root/$room")
    done
}
declare -A rooms=(
    [isa]="" [product]="isa" [tile]="isa product" [pool]="isa tile" [line]="isa tile" [gather]="isa" [fourier]="isa tile"
    [attention]="isa product tile" [matrix]="isa tile"
)
check_rooms device/cpu kernel.h machine.h fetch.h
rooms=([graph]="" [fuse]="" [lower]="" [memory]="") # passes meet in compiler.h alone: what one gives the next is there
check_rooms compiler compiler.h
for folder in "${!allowed[@]}"; do
    while IFS=: read -r file included; do
        to=${included%%/*}
        case "$included" in
        */*.def|*.def) continue ;; # tokens only: any layer may expand them
        */*) ;;
        *) continue ;;
        esac
        [ "$to" = "$folder" ] && continue
        [[ " ${allowed[$folder]} " == *" $to "* ]] || 
            complain "$file includes \"$included\": src/$folder may only include from: ${allowed[$folder]:-nothing}"
    done < <(includes "" "src/$folder")
done

# What differs between machines and instruction sets stands in one place each: sizes of caches and costs in figures.def, the
# instruction set's words in isa/. cpu.c and reuse.c bound what a file may ask for; random numbers and kernels of
# pooling have blocks of their own.
while IFS= read -r line; do
    complain "$line: sizes and costs of machines are rows of src/device/cpu/figures.def"
done < <(cd src/device/cpu && grep -rnE '\b[0-9]+ ?<< ?(1[0-9]|2[0-9])\b|#define +[A-Z_]*(COST|FLOPS|BYTES|RATE) +[0-9.]+' . \
    --include='*.c' --include='*.h' |
    grep -vE '^\./(machine\.c|cpu\.c|reuse\.c|isa/|pool/pool_max\.h)')
while IFS= read -r line; do
    complain "$line: what depends on the instruction set stands in src/device/cpu/isa"
done < <(cd src/device/cpu && grep -rnE \
    '__AVX|__FMA__|__SSE|__F16C__|__ARM_|SAMBA_NEON|arm_neon|SAMBA_ISA_(generic|avx)|_mm[0-9]*_|__(x86_|aarch)64__' . \
    --include='*.c' --include='*.h' |
    grep -vE '^\./(isa/|barrier\.h|product/(xsmm|micro_kernel|dense)\.)')

while read -r file; do
    head -1 "$file" | grep -q 'SPDX-License-Identifier' || head -2 "$file" | grep -q 'SPDX-License-Identifier' ||
        complain "$file does not begin with its SPDX line"
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || complain "$file has $lines lines; 800 is the limit: split it along its ideas"
done < <(find include src python tests bench examples tools -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.py' \
    -o -name '*.sh' |
    grep -vE '_(values|table).h$')

if grep -rnE '^\s*#if 0' --include='*.c' --include='*.h' include src tests bench examples >&2; then complain "#if 0 above"; fi

python3 tools/check_layers.py || bad=1
python3 tools/onnx_page.py || bad=1
python3 tools/stubs.py || bad=1
python3 tools/check_links.py || bad=1
python3 tests/python/mistakes.py || bad=1
python3 tools/check_order.py include src tests bench examples python --values src/ops src/autodiff src/compiler src/trace \
    src/onnx examples tests/arm >&2 ||
    complain "what these lines do depends on the compiler: make two statements of each"

made=$(mktemp -d) # the headers that the build makes
trap 'rm -rf "$made"' EXIT
# It finds what it is for: by operators, by a file's own functions and macros, in a call and in a list.
mkdir "$made/apart"
cat >"$made/apart/example.c" <<'EXAMPLE'
#define TWICE(x) samba_add(x, x)
static int count_of(samba_value x) { return samba_exp(x).index; }
samba_value a(samba_value x) { return samba_mul(samba_exp(x), samba_neg(x)); }
samba_value b(samba_value x) { return samba_mul(TWICE(x), samba_neg(x)); }
int c(samba_value x) { int both[] = {count_of(x), TWICE(x).index}; return both[0]; }
samba_value fine(samba_value x) { samba_value y = samba_neg(x); return samba_mul(samba_exp(x), y); }
EXAMPLE
told=$(python3 tools/check_order.py --values "$made/apart" | cut -d: -f2 | tr '\n' ' ') || true
[ "$told" = "3 4 5 " ] || complain "check_order.py: what it must tell of are lines 3, 4 and 5 of an example, it tells of $told"
mkdir "$made/sambaflow"
python3 tools/make_operators.py src/ops.def "$made/sambaflow/operators.h"
python3 tools/make_optimizers.py src/optimizers.def "$made/sambaflow/optimizers.h"
for header in include/sambaflow/*.h "$made"/sambaflow/*.h; do
    for language in "c -std=c11" "c++ -std=c++17"; do
        set -- $language
        echo "#include <sambaflow/$(basename "$header")>" |
            gcc -x "$1" "$2" -Wall -Wextra -Wpedantic -Werror -Iinclude "-I$made" -fsyntax-only - ||
            complain "$header does not compile alone as $2"
    done
done
[ $bad = 0 ] && echo "house: include directions, file heads and sizes, order of evaluation, public headers: fine"
exit $bad

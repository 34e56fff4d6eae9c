#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the libraries show of themselves is samba_* alone, so a program's own BLAS stays its own: in every order on the linker's
# line, shared and static, dgemm_ is that of the BLAS, and a PEF loads. The BLAS here is a small one of this test. Usage:
# link.sh BUILD SOURCE
set -euo pipefail
build=$1 source=$2
if nm -D "$build/libsambaflow.so" | grep ' __asan_init' >/dev/null; then
    echo "built with a sanitizer, whose names are everywhere"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "link.sh: $*" >&2; exit 1; }

# ---- names ----
shown() { nm -g --defined-only "$@" | awk 'NF == 3 { print $3 }'; }
only_ours() {
    others=$(grep -v '^samba_' | sort -u | head -20 | tr '\n' ' ' || true)
    [ -z "$others" ] || fail "$1 defines $others"
}
shown -D "$build/libsambaflow.so" | only_ours libsambaflow.so
for archive in libsambaflow.a libsambaflow-run.a; do
    shown "$build/$archive" 2>"$work/notes" | only_ours $archive
done
! nm -D --undefined-only "$build/libsambaflow.so" | grep -E ' [sd]gem[mv]_' || fail "libsambaflow.so wants a BLAS"
for header in "$source"/include/sambaflow/*.h; do # and all that headers promise is there
    sed -n 's/^SAMBA_API [^(]*[ *]\(samba_[a-z0-9_]*\)(.*/\1/p' "$header"
done | sort -u >"$work/promised"
[ "$(wc -l <"$work/promised")" -gt 300 ] || fail "found only $(wc -l <"$work/promised") functions in the headers"
shown -D "$build/libsambaflow.so" | sort -u | comm -23 "$work/promised" - >"$work/lacking"
[ ! -s "$work/lacking" ] || fail "libsambaflow.so has no $(tr '\n' ' ' <"$work/lacking")"

# ---- products ----
cat >"$work/blas.c" <<'END'
void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha, const double *a,
            const int *lda, const double *b, const int *ldb, const double *beta, double *c, const int *ldc)
{
    (void)ta, (void)tb;
    for (int j = 0; j < *n; j++)
        for (int i = 0; i < *m; i++) {
            double sum = 0;
            for (int l = 0; l < *k; l++)
                sum += a[i + l * *lda] * b[l + j * *ldb];
            c[i + j * *ldc] = *alpha * sum + *beta * c[i + j * *ldc];
        }
}
END
cat >"$work/program.c" <<'END'
#include <sambaflow/data.h>
#include <sambaflow/session.h>
#include <stdio.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);

int main(int count, char **arguments)
{
    samba_context *context;
    samba_session *session;
    samba_session_options options = samba_session_defaults();
    options.threads = 1;
    if (count != 2 || samba_context_new(NULL, &context) != SAMBA_OK)
        return 2;
    if (samba_session_new(context, arguments[1], &options, &session) != SAMBA_OK)
        return fprintf(stderr, "%s\n", samba_error_message(context)), 3;
    samba_session_free(session);
    samba_context_free(context);
    double a[] = {1, 3, 2, 4}, b[] = {5, 7, 6, 8}, c[] = {-1, -1, -1, -1}, one = 1, zero = 0; /* columns of 1 2, 3 4 and 5 6, 7 \
        8 */
    int two = 2;
    dgemm_("N", "N", &two, &two, &two, &one, a, &two, b, &two, &zero, c, &two);
    printf("%g %g %g %g\n", c[0], c[2], c[1], c[3]);
    return 0;
}
END
"$build/examples/logreg" compile -p "$work/logreg.pef" >/dev/null
cd "$work"
flags="-I$source/include -I$build/include"
gcc -O1 -fPIC -c blas.c && gcc -shared -o libblas.so blas.o && mkdir static && ar rc static/libblas.a blas.o
gcc -O1 $flags -c program.c
paths="-L$build -Wl,-rpath,$build -L$work -Wl,-rpath,$work"
rest="-fopenmp -lxxhash -lprotobuf-c -lz -ljansson -lm" # as README.md says
tried=0
for blas in "-L$work -lblas" "-L$work/static -l:libblas.a"; do
    for ours in "-lsambaflow" "-l:libsambaflow.a $rest" "-lsambaflow-run $rest" \
        "-Wl,--whole-archive -l:libsambaflow-run.a -Wl,--no-whole-archive $rest"; do
        for libraries in "$ours $blas" "$blas $ours"; do
            gcc -o program program.o $paths $libraries 2>errors || { cat errors >&2; fail "does not link with $libraries"; }
            given=$(./program logreg.pef 2>&1) || fail "with $libraries the program ends with status $?: $given"
            [ "$given" = "19 22 43 50" ] || fail "with $libraries the product is $given, 19 22 43 50 was expected"
            tried=$((tried + 1))
        done
    done
done
echo "$tried ways to link: each product is right; no name but samba_* is shown"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tools/install-packages.sh takes for missing, with a dpkg and an apt-get of this test: a package that is there is not
# installed again because another architecture has it too, and one that only another architecture has is missing. Usage:
# packages.sh SOURCE_FOLDER
set -eu
script=$1/tools/install-packages.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
program() { cat >"$folder/$1" && chmod +x "$folder/$1"; }
program dpkg <<END
#!/bin/sh
case \$1 in
--print-architecture) echo amd64 ;;
--print-foreign-architectures) cat "$folder/foreign" ;;
--add-architecture) echo "\$2" >>"$folder/foreign" ;;
esac
END
program apt-get <<END
#!/bin/sh
echo "\$@" >>"$folder/asked"
END
program sudo <<'END'
#!/bin/sh
exec "$@"
END
# dpkg-query -W -f=FORMAT PACKAGE, with the lines of "states" that begin with the package's name: PACKAGE ARCHITECTURE STATE; all
# others are there once.
program dpkg-query <<END
#!/bin/sh
case \$3 in
*:*) own=\${3#*:} ;;
*) own=amd64 ;;
esac
grep -q "^\$3 " "$folder/states" || echo "\$3 \$own installed" >>"$folder/states"
! grep -q "^\$3 - " "$folder/states" || exit 1
grep "^\$3 " "$folder/states" | while read -r _ architecture state; do
    printf "\$(printf %s "\$2" | sed "s/^-f=//; s/[$]{Architecture}/\$architecture/; s/[$]{db:Status-Status}/\$state/")"
done
END

failed=0
: >"$folder/foreign"
installs() { # WHAT PACKAGES [TARGET [SAID_BEFORE]]: from the states on stdin
    cat >"$folder/states"
    : >"$folder/asked"
    : >"$folder/said"
    PATH=$folder:$PATH "$script" "${3:-build}" >"$folder/said"
    asked=$(sed -n 's/.*--no-install-recommends//p' "$folder/asked")
    [ "$asked" = "${2:+ $2}" ] || { echo "FAIL $1: installs '$asked', expected '${2:+ $2}'"; failed=1; }
    [ "$(cat "$folder/said")" = "${2:+sambaflow: installing Debian packages: $2}${4:+
$4}" ] ||
        { echo "FAIL $1: says '$(cat "$folder/said")'"; failed=1; }
}
installs "all are there" "" </dev/null
installs "another architecture's too" "" <<'END'
libc6-dev amd64 installed
libc6-dev arm64 installed
zlib1g-dev arm64 installed
zlib1g-dev amd64 installed
END
installs "of every architecture" "" <<'END'
meson all installed
END
installs "only another architecture's" "libc6-dev" <<'END'
libc6-dev arm64 installed
END
installs "not there, half there, removed" "gcc meson zlib1g-dev" <<'END'
gcc -
gcc - -
meson all half-installed
zlib1g-dev amd64 config-files
END
installs "for another architecture: all are there" "" arm </dev/null
installs "for another architecture, which dpkg does not know" "libcmocka-dev:arm64" arm \
    "sambaflow: telling dpkg of packages for arm64" <<'END'
libcmocka-dev:arm64 amd64 installed
END
[ "$(cat "$folder/foreign")" = arm64 ] || { echo "FAIL dpkg knows of '$(cat "$folder/foreign")'"; failed=1; }
installs "for another architecture, which dpkg knows" "zlib1g-dev:arm64" arm <<'END'
zlib1g-dev:arm64 -
END
exit $failed

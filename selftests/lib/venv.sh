#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes a virtual environment of Python with the packages of a requirements.txt.
#
#   selftests/lib/venv.sh VENV REQUIREMENTS
#
# With it there, and made of the same requirements, it does nothing.
set -eu

venv=$1 wants=$2

die()
{
	printf 'venv: %s\n' "$1" >&2
	exit 1
}

# Groups of tests that run at once take turns.
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
cmp -s "$wants" "$venv/made-of" && exit
printf '  VENV    %s\n' "$venv"
rm -rf "$venv"
python3 -m venv "$venv" ||
	die "python3 -m venv failed; 'tools/setup.sh serve' installs what it needs"
"$venv/bin/python" -m pip -q --disable-pip-version-check --no-input install \
	-r "$wants" >"$venv.log" 2>&1 || {
	tail -n 3 "$venv.log" | cut -c 1-300 >&2
	die "the packages of $wants could not be installed; connect
     once and run this again (the log is $venv.log)"
}
cp "$wants" "$venv/made-of"

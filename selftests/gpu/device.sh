#!/bin/sh
# SPDX-License-Identifier: MIT
# Is there a GPU to test on? If not, says so as a skip, and fails.
#
#   selftests/gpu/device.sh BUILD GOAL
set -u

why=$("$1/bin/rlx" info | awk '$1 == "cuda" { $1 = ""; print; exit }')
case $why in
*none:*|'')
	echo "$2: 0 passed, 0 failed, all skipped: no GPU here (${why# none: })"
	exit 1 ;;
esac
echo "device:$why"

#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a test program on the second GPU; the emulator has another chip there.
#
#   selftests/gpu/second.sh NAME [TEST ...]
set -eu

BUILD=${BUILD:-build}
name=$1
shift
export RLX_EMU_DEVICES=2 RLX_EMU_ARCH=90,80
if "$BUILD/test/gpu/devices" both_compute | grep 'SKIP'; then
	echo 1..1
	exit
fi
export RLX_TEST_GPU=cuda:1
exec "$BUILD/test/gpu/$name" "$@"

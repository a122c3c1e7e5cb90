#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a test program on the backend for AMD's GPUs, over the HIP of selftests/gpu/hip.
#
#   selftests/gpu/rocm.sh NAME [TEST ...]
set -eu

BUILD=${BUILD:-build}
name=$1
shift
export RLX_TEST_GPU=rocm
export LD_LIBRARY_PATH="$BUILD/test/hip${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$BUILD/test/gpu/$name" "$@"

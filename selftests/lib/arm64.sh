#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a test program of $BUILD/arm64, with the libraries that Debian has for cross compilers.
#
#   selftests/lib/arm64.sh kernels/gemm [TEST ...]
program=${BUILD:-build}/arm64/test/$1
shift
exec qemu-aarch64-static -L /usr/aarch64-linux-gnu "$program" "$@"

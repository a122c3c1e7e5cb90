#!/bin/sh
# SPDX-License-Identifier: MIT
# How many seconds of processors the children of a shell took, by what its "times" wrote.
#
#   selftests/lib/cpu.sh FILE
awk 'FNR == 2 {
	gsub(/s/, "")
	for (i = 1; i <= 2; i++) {
		split($i, t, "m")
		cpu += 60 * t[1] + t[2]
	}
	printf "%.2f\n", cpu
}' "$1"

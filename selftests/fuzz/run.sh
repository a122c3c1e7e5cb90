#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs each fuzzer for RLX_FUZZ_SECONDS (10) and prints TAP. Seeds stand in
# selftests/fuzz/corpus/NAME (those with zero bytes as base64, NAME.b64), what it
# finds in $BUILD/clang/fuzz/NAME.found.
set -u

here=$(dirname "$0")
seconds=${RLX_FUZZ_SECONDS:-10}
n=0 rc=0
for src in "$here"/*.c; do
	n=$((n + 1)) name=$(basename "$src" .c)
	bin=${BUILD:-build}/clang/fuzz/$name
	found=$bin.found corpus=$bin.corpus
	mkdir -p "$found" "$corpus"
	seeds=$here/corpus/$name
	for coded in "$seeds"/*.b64; do
		[ -f "$coded" ] && base64 -d "$coded" >"$corpus/$(basename "$coded" .b64)"
	done
	[ -d "$seeds" ] || seeds=
	if "$bin" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=3000 \
	     -print_final_stats=1 -artifact_prefix="$found/" \
	     "$corpus" $seeds >"$bin.log" 2>&1; then
		grep -h 'number_of_executed' "$bin.log" | sed 's/^/# /'
		echo "ok $n $name"
	else
		grep -hE 'ERROR|runtime error|Test unit|^    #[0-9]' "$bin.log" |
			head -n 20 | sed 's/^/# /'
		echo "not ok $n $name"
		rc=1
	fi
done
echo "1..$n"
exit $rc

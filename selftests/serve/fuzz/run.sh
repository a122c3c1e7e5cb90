#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the fuzzers of rlxd for RLX_FUZZ_SECONDS each (10) and prints TAP.
set -u

BUILD=${BUILD:-build}
seconds=${RLX_FUZZ_SECONDS:-10}
n=0 rc=0

# Seeds: requests and configurations that are almost right.
seed()
{
	rm -rf "$BUILD/fuzz-serve/$1"
	mkdir -p "$BUILD/fuzz-serve/$1"
	case $1 in
	http)
		h='HTTP/1.1\r\nHost: localhost\r\n'
		printf 'GET /v2?a=b %bX-Request-Id: 1\r\n\r\n' "$h" >"$BUILD/fuzz-serve/http/a"
		printf 'POST / %bTransfer-Encoding: chunked\r\n\r\n%b' "$h" \
			'5;e=1\r\nhello\r\n0\r\nT: x\r\n\r\nGET' >"$BUILD/fuzz-serve/http/b"
		printf 'POST / %bContent-Length: 5\r\nAuthorization: Bearer x\r\n\r\nhello' "$h" \
			>"$BUILD/fuzz-serve/http/c"
		printf 'GET HTTP://[::1]:8/v2?a HTTP/1.0\r\nOrigin: b\r\n\r\n' \
			>"$BUILD/fuzz-serve/http/d"
		printf 'OPTIONS * %bContent-Type: a/b+json;c\r\n\r\n' "$h" \
			>"$BUILD/fuzz-serve/http/e" ;;
	conf)
		cp tools/rlxd/rlxd.conf.example "$BUILD/fuzz-serve/conf/a"
		printf '%s\n' '[server]' 'listen = 127.0.0.1:1 tls:0.0.0.0:2' \
			'  [::1]:1' 'max_body = 1M' \
			'[model a]' 'path = x' 'buckets = 1 2' '[key k]' \
			'secret_file = y' 'models = a' >"$BUILD/fuzz-serve/conf/b" ;;
	esac
}

for f in http conf; do
	n=$((n + 1))
	seed $f
	if "$BUILD/clang/fuzz-serve/$f" -max_total_time="$seconds" -max_len=4096 -timeout=10 \
	   -rss_limit_mb=2048 -artifact_prefix="$BUILD/fuzz-serve/$f-" "$BUILD/fuzz-serve/$f" \
	   >"$BUILD/fuzz-serve/$f.log" 2>&1; then
		echo "# $f: $(tail -n 1 "$BUILD/fuzz-serve/$f.log")"
		echo "ok $n $f"
	else
		grep -E 'ERROR|SUMMARY|    #[0-9]|Test unit' "$BUILD/fuzz-serve/$f.log" |
			head -n 20 | sed 's/^/# /'
		echo "not ok $n $f"
		rc=1
	fi
done
echo 1..$n
exit $rc

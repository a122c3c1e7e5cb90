#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the examples of channels as their readers would, and has one serve the
# other: over a socket file, twice, with the service killed in between.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
pid=''
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null; rm -rf "$tmp"' EXIT

compile()
{
	# shellcheck disable=SC2086 # a list of options
	$CC -O2 -Wall -Wextra -Wno-unused-parameter -Werror ${SAN-} \
		-Ilibuser/include -I"$BUILD/gen" "examples/channel_$1.c" \
		-L"$BUILD/lib" -lrlx -luring -lm -Wl,-rpath,"$PWD/$BUILD/lib" \
		-o "$tmp/$1"
}

# What the one before said is gone before it can be taken for what this one says.
start()
{
	: >"$tmp/service.out"
	"$tmp/service" "$tmp/sock" >>"$tmp/service.out" 2>&1 &
	pid=$!
	i=0
	until grep -q listening "$tmp/service.out"; do
		i=$((i + 1))
		[ $i -lt 300 ] || { cat "$tmp/service.out"; return 1; }
		sleep 0.1
	done
}

ask()
{
	"$tmp/client" "$tmp/sock" 500 && "$tmp/client" "$tmp/sock" 7
}

start_again()
{
	kill -9 "$pid" && wait "$pid" 2>/dev/null
	start
}

# It ends by itself and says what it did.
stop()
{
	kill "$pid" && wait "$pid" && pid='' || return 1
	cat "$tmp/service.out"
	grep -q '^507 requests of 2 clients, 0 bytes copied$' "$tmp/service.out" &&
		[ ! -e "$tmp/sock" ]
}

alone()
{
	! "$tmp/client" "$tmp/sock" 1 >"$tmp/alone" 2>&1 &&
		cat "$tmp/alone" && grep -q RLX_ENOTCONN "$tmp/alone"
}

check service-compiles compile service
check client-compiles compile client
check starts start
check serves ask
check starts-over-a-dead-one start_again
check serves-again ask
check stops stop
check nobody-listens alone
finish

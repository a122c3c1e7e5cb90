#!/bin/sh
# SPDX-License-Identifier: MIT
# A program built against an older header works with this library: there, some
# ops were missing and some had fewer arguments. One built against a newer header
# works too, until it uses what this library lacks.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh

# headers DIR SED-SCRIPT: our headers, with a list of ops made over
headers()
{
	mkdir -p "$1/rlx" && cp libuser/include/rlx/*.h "$1/rlx/" &&
		sed "$2" "$BUILD/gen/rlx/ops.list.h" >"$1/rlx/ops.list.h"
}

# build DIR PROGRAM FLAGS ...
build()
{
	dir=$1 prog=$2
	shift 2
	# shellcheck disable=SC2086 # it may be called by another: ccache gcc
	$CC -std=gnu11 -O2 -Wall -Werror "$@" -I"$dir" "$tmp/prog.c" -L"$BUILD/lib" \
		-lrlx -Wl,-rpath,"$PWD/$BUILD/lib" -o "$tmp/$prog"
}

cat >"$tmp/prog.c" <<'PROG'
#include <stdio.h>
#include <string.h>
#include "rlx/run.h"

#define WANT(c)								\
	do {								\
		if (!(c)) {						\
			printf("line %d: %s: %s\n", __LINE__, #c,	\
			       rlx_graph_error(g)->text);		\
			return 1;					\
		}							\
	} while (0)

/* What a stack holds before: anything but zeros. */
static __attribute__((noinline)) void dirty(void)
{
	volatile unsigned char b[8192];

	memset((void *)b, 0xa5, sizeof(b));
}

int main(void)
{
	struct rlx_graph *g = rlx_graph_new("old");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3)), y, z;
	const float in[6] = { 1, 5, 2, 4, 4, 3 };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	float out[2];
	int64_t at[2];

	dirty();
	y = rlx_emit(g, reduce, .x = x, .axes = RLX_INTS(1), .kind = RLX_REDUCE_MAX);
	dirty();
	z = rlx_emit(g, arg_reduce, .x = x, .axis = 1, .min = false);
	rlx_output(g, "y", y);
	rlx_output(g, "z", z);
#ifdef NEWER
	rlx_emit(g, neg, .x = x);	/* the new field is absent: fine */
	WANT(!rlx_graph_error(g)->status);
	rlx_emit(g, neg, .x = x, .brand_new = 3);
	WANT(rlx_graph_error(g)->status == RLX_ENOSUP);
	WANT(strstr(rlx_graph_error(g)->text, "neg"));
	rlx_graph_put(g);
	return 0;
#endif
	WANT(!rlx_graph_finish(g));
	WANT(rlx_type_of(g, y)->rank == 1);
	WANT(!rlx_compile(g, NULL, &p, &err));
	WANT(!rlx_session_new(p, NULL, &s, &err));
	WANT(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2, 3), in));
	WANT(!rlx_session_run(s));
	WANT(!rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 2), out));
	WANT(!rlx_session_get(s, RLX_IO_OUTPUT, "z", rlx_type(RLX_I64, 2), at));
	WANT(out[0] == 5 && out[1] == 4 && at[0] == 1 && at[1] == 0);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	return 0;
}
PROG

# reduce had no keep_dims, arg_reduce neither that nor last_index; ops were missing
older='/^RLX_OP(\(abs\|attention\|scan\|while\),/d
/^RLX_OP(reduce,/s/ ATTR(bool, keep_dims)//
/^RLX_OP(arg_reduce,/s/ ATTR(bool, keep_dims) ATTR(bool, last_index)//'
newer='/^RLX_OP(neg,/s/IN(x)/IN(x) ATTR(i64, brand_new)/'

lists_differ()
{
	[ "$(diff "$tmp/same/rlx/ops.list.h" "$1/rlx/ops.list.h" | grep -c '^<')" = "$2" ]
}

headers "$tmp/same" '' || rc=1
headers "$tmp/older" "$older" || rc=1
headers "$tmp/newer" "$newer" || rc=1
check 'the older list lacks ops and arguments' lists_differ "$tmp/older" 6
check 'the newer list has one more' lists_differ "$tmp/newer" 1
check 'building against this header' build "$tmp/same" bin_same
check 'running that' "$tmp/bin_same"
check 'building against an older header' build "$tmp/older" bin_older
check 'running that with this library' "$tmp/bin_older"
check 'building against a newer header' build "$tmp/newer" bin_newer -DNEWER
check 'running that with this library' "$tmp/bin_newer"
finish

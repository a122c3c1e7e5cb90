#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header alone, in C and C++; the examples that begin them; and a C++ program that
# builds a graph and runs it.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
CXX=${CXX:-g++}
flags="-Wall -Wextra -Wpedantic -Werror -Ilibuser/include -Iuapi -I$BUILD/gen"

# alone COMPILER STANDARD LANGUAGE
alone()
{
	for h in libuser/include/rlx/*.h; do
		printf '#include "rlx/%s"\n' "$(basename "$h")" |
		# shellcheck disable=SC2086 # flags are words
		$1 -std="$2" $flags -x "$3" -fsyntax-only - || { echo "$h"; bad=1; }
	done
	[ -z "${bad:-}" ]
}

cat >"$tmp/prog.cc" <<'END'
/* Names that programs like to have themselves. */
#define IN	1
#define OPT	2
#define INS	3
#define ATTR	4
#define REQ	5
#define DEF	6
#define ATTR_NZ	7
#include <cstdio>
#include <cstring>
#include <rlx/blocks.h>
#include <rlx/run.h>
#include "absent.h"
static_assert(IN == 1 && OPT == 2 && INS == 3 && ATTR == 4 && REQ == 5 && DEF == 6 &&
	      ATTR_NZ == 7, "a header changed them");

int main()
{
	rlx_graph *g = rlx_graph_new("c++");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	rlx_value c = rlx_emit(g, concat, .axis = 1,
			       .xs = RLX_VALUES(x, rlx_emit(g, neg, .x = x)));
	rlx_value y = rlx_emit(g, reduce, .x = rlx_emit(g, exp, .x = c),
			       .axes = RLX_INTS(1), .kind = RLX_REDUCE_SUM);
	const float in[6] = { 0, 0, 0, 0, 0, 0 };
	rlx_ffn_block f = {};
	f.size = sizeof(f);
	f.up.w = f.down.w = rlx_param(g, "w", rlx_type(RLX_F32, 2, 2));
	f.up.act = RLX_ACT_SIGMOID;	/* down: a half of each row's sum of 1 and 1 */
	const float w[4] = { 1, 1, 1, 1 };
	float out[2] = { -1, -1 }, block[2] = { -1, -1 };
	rlx_error err = {};
	rlx_program *p = nullptr;
	rlx_session *s = nullptr;

	rlx_output(g, "y", y);
	rlx_output(g, "block", rlx_block_ffn(g, rlx_emit(g, slice, .x = x, .starts = RLX_INTS(0, 0),
							 .ends = RLX_INTS(1, 2)), &f, RLX_NONE));
	if (rlx_graph_finish(g) || rlx_compile(g, nullptr, &p, &err) ||
	    rlx_session_new(p, nullptr, &s, &err) ||
	    rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2, 3), in) ||
	    rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, 2, 2), w) ||
	    rlx_session_run(s) ||
	    rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 2), out) ||
	    rlx_session_get(s, RLX_IO_OUTPUT, "block", rlx_type(RLX_F32, 1, 2), block))
		std::printf("%s %s\n", err.text, s ? rlx_session_error(s)->text : "");
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	return !(out[0] == 6 && out[1] == 6 && block[0] == 1 && block[1] == 1 && absent());
}
END

# Not given is told from 0, and overriding it is no slip that a compiler warns of.
cat >"$tmp/absent.h" <<'END'
#include <stdio.h>
#include <string.h>
#include <rlx/run.h>

static int absent(void)
{
	struct rlx_graph *g = rlx_graph_new("given"), *h = rlx_graph_new("not given");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	rlx_value y = rlx_input(h, "x", rlx_type(RLX_F32, 2, 3));
	int ok;

	x = rlx_emit(g, softmax, .x = rlx_emit(g, rms_norm, .x = x, .axis = 0, .eps = 0),
		     .axis = 0);
	rlx_emit(h, softmax, .x = y);
	ok = x.id && strstr(rlx_graph_error(h)->text, "softmax: attribute 'axis' is missing");
	if (!ok)
		printf("%s, %s\n", rlx_graph_error(g)->text, rlx_graph_error(h)->text);
	rlx_graph_put(g);
	rlx_graph_put(h);
	return ok;
}
END
{ cat "$tmp/absent.h"; echo 'int main(void) { return !absent(); }'; } >"$tmp/prog.c"

# A training step, built and run in C++.
cat >"$tmp/step.cc" <<'END'
#include <cstdio>
#include <rlx/train.h>

int main()
{
	rlx_graph *g = rlx_graph_new("step");
	rlx_vars *v = rlx_vars_new();
	rlx_value w = rlx_var(g, v, "w", rlx_type(RLX_F32, 3), RLX_NORMAL(1), RLX_VAR_NO_DECAY);
	rlx_value lr = rlx_scalar_const(g, RLX_F32, 0.5);
	rlx_optimizer how = {};
	rlx_session_opts so = {};
	rlx_error err = {};
	rlx_program *p = nullptr;
	rlx_session *s = nullptr;

	how.size = sizeof(how);
	how.kind = RLX_SGD;
	so.size = sizeof(so);
	rlx_train_step(g, v, rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = w, .b = w)), lr,
		       nullptr, &how);
	if (rlx_graph_finish(g) || rlx_compile(g, nullptr, &p, &err) ||
	    rlx_states_new(p, nullptr, &so.states, &err) ||
	    rlx_states_init(so.states, v, 1, &err) || rlx_session_new(p, &so, &s, &err) ||
	    rlx_session_run(s)) {
		std::printf("%s %s\n", err.text, rlx_graph_error(g)->text);
		return 1;
	}
	const float *now = static_cast<const float *>(
		rlx_buf_ptr(rlx_session_bound(s, RLX_IO_STATE, "w")));
	bool ok = now[0] == 0 && now[1] == 0 && now[2] == 0;
	rlx_session_free(s);
	rlx_states_put(so.states);
	rlx_program_put(p);
	rlx_vars_free(v);
	rlx_graph_put(g);
	return !ok;
}
END

# The example in a header's first comment, as a function's body. What it leaves to its reader to
# declare stands here; headers whose examples are in part prose do not.
examples()
{
	bad=
	# shellcheck disable=SC2162 # a line may go on behind a backslash
	while read h vars; do
		{
			printf '#include <rlx/run.h>\n#include <rlx/%s.h>\n' "$h"
			echo 'void example(struct rlx_graph *g, struct rlx_error err) {'
			printf '%s\n{\n' "$vars"
			awk '/^\/\*/ { n++ } n == 2 && sub(/^ \*\t/, "") {
				sub(/;\t+[a-z].*/, ";")	# words on what it does
				print
			}' "libuser/include/rlx/$h.h" >"$tmp/example"
			cat "$tmp/example"
			echo '}}'
		} >"$tmp/example.c"
		[ -s "$tmp/example" ] || { echo "$h.h: no example"; bad=1; }
		# shellcheck disable=SC2086 # flags are words
		$CC -std=c11 $flags -Wno-unused -Wno-unused-parameter -Wno-unused-result \
			-Wno-missing-field-initializers -fsyntax-only "$tmp/example.c" ||
			{ echo "$h.h"; bad=1; }
	done <<-'END'
	aot struct rlx_program *program; struct rlx_session *session;
	bert struct rlx_bert *b;
	blocks rlx_value x = { 0 }, wq = x, wk = x, wv = x, wo = x, wg = x, wu = x, wd = x; \
		rlx_value g1 = x, g2 = x;
	device_buffer struct rlx_device_buffer *h; int bytes = 64; \
		struct rlx_session *encoder = 0, *decoder = 0;
	devices struct rlx_graph *graph = g; struct rlx_policy *policy; struct rlx_devices *ds; \
		struct rlx_devices_io io = { 0 }; struct rlx_attempts tries = { 0 };
	dims
	graph enum rlx_status st;
	reflect rlx_value x = { 0 }, y;
	resident struct rlx_arena *arena = 0; struct rlx_resident *r; \
		int bytes = 64, fd, arena_fd = 0;
	store struct rlx_arena *arena; struct rlx_store *store; struct rlx_program *program; \
		int model_bytes = 64, fd = 0;
	tokenizer struct rlx_tokenizer *t; struct rlx_tokenizer_scratch *s; \
		const char *text = ""; int len = 0; struct rlx_encoding enc = { 0 };
	train struct rlx_optimizer adamw = { 0 };
	END
	[ -z "$bad" ]
}

# step STANDARD
step()
{
	$CXX -std="$1" -Wall -Wextra -Werror -Wno-missing-field-initializers -Ilibuser/include \
		-I"$BUILD/gen" "$tmp/step.cc" -L"$BUILD/lib" -lrlx-train -lrlx -o "$tmp/step" &&
	LD_LIBRARY_PATH=$BUILD/lib "$tmp/step"
}

# program STANDARD
program()
{
	# shellcheck disable=SC2086 # flags are words
	$CXX -std="$1" -Wall -Wextra -Werror -Wno-missing-field-initializers \
		-Ilibuser/include -Iuapi -I"$BUILD/gen" -I"$tmp" "$tmp/prog.cc" \
		-L"$BUILD/lib" -lrlx -o "$tmp/prog" &&
	LD_LIBRARY_PATH=$BUILD/lib "$tmp/prog"
}

# c_program COMPILER STANDARD
c_program()
{
	# shellcheck disable=SC2086 # flags are words, and the compiler may be two
	$1 -std="$2" $flags -Woverride-init "$tmp/prog.c" -L"$BUILD/lib" -lrlx -o "$tmp/prog" &&
	LD_LIBRARY_PATH=$BUILD/lib "$tmp/prog"
}

# points STANDARD: the points of the API, in C++
points()
{
	$CXX -std="$1" -x c++ -Wall -Wextra -Werror -Wno-missing-field-initializers \
		-Ilibuser/include -I"$BUILD/gen" selftests/libuser/api_points.c \
		-L"$BUILD/lib" -lrlx -o "$tmp/points" &&
	LD_LIBRARY_PATH=$BUILD/lib "$tmp/points"
}

check c11 alone "$CC" c11 c
check c23 alone "$CC" c2x c
check c++17 alone "$CXX" c++17 c++
check c++20 alone "$CXX" c++20 c++
check examples examples
check program-c11 c_program "$CC" c11
check program-c++17 program gnu++17
check program-c++20 program c++20
check points-c++17 points gnu++17
check points-c++20 points gnu++20
check step-c++17 step gnu++17
check step-c++20 step c++20
finish

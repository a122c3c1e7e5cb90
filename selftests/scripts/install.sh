#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs into an empty folder and builds programs against what lies there.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
dest=$tmp/dest lib=/opt/rlx/lib/arch

# The kernels for GPUs are compiled to see that all of the list can be, which takes half as
# long as to have them fast; in a folder where no build looks for them.
kernels=$BUILD/test/install/gpu

install_it()
{
	${MAKE:-make} -s BUILD="$BUILD" DESTDIR="$dest" PREFIX=/opt/rlx \
		LIBDIR=$lib KERNELS="$kernels" PREBUILD_FLAGS="-q${RLX_TEST_SEED:-}" install
}

# What was compiled is installed, each file the same; none where there is no compiler.
kernels_are_there()
{
	mkdir -p "$dest$lib/rlx/gpu" && echo "$(find "$kernels" -name '*.bin' | wc -l) kernels" &&
	diff -r -x .made "$kernels" "$dest$lib/rlx/gpu"
}

# Everything that must be there, and nothing outside the prefix.
files_are_there()
{
	for f in include/rlx/status.h include/rlx/ops.list.h include/linux/rlx.h lib/arch/librlx.a \
		 lib/arch/librlx.so lib/arch/librlx.so.1 lib/arch/librlx-gpu.so.1 \
		 lib/arch/librlx-vulkan.so.1 \
		 lib/arch/librlx-train.so lib/arch/librlx-train.so.1 \
		 bin/rlx lib/arch/pkgconfig/rlx.pc lib/arch/pkgconfig/rlx-train.pc \
		 lib/arch/cmake/rlx/rlxConfig.cmake; do
		[ -s "$dest/opt/rlx/$f" ] || { echo "$f is missing"; return 1; }
	done
	for h in libuser/include/rlx/*.h; do
		cmp "$h" "$dest/opt/rlx/include/rlx/$(basename "$h")" || return 1
	done
	[ "$(cd "$dest" && echo *)/$(cd "$dest/opt" && echo *)" = opt/rlx ]
}

pc()
{
	PKG_CONFIG_SYSROOT_DIR=$dest PKG_CONFIG_LIBDIR=$dest$lib/pkgconfig \
		pkg-config "$@" rlx
}

cat >"$tmp/prog.c" <<'EOF'
#include <stdio.h>
#include <string.h>
#include <rlx/arena.h>
#include <rlx/graph.h>

int main(void)
{
	struct rlx_arena_opts opts = { .size = 4096 };
	struct rlx_error err = { 0 };
	struct rlx_arena *a = NULL;

	if (rlx_arena_new(&opts, &a, &err)) {
		puts(err.text);
		return 1;
	}
	rlx_arena_put(a);
	return strcmp(rlx_status_name(RLX_ESHAPE), "RLX_ESHAPE");
}
EOF

# shellcheck disable=SC2046 # flags are words
shared_program()
{
	$CC -Wall -Werror "$tmp/prog.c" $(pc --cflags --libs) -o "$tmp/prog" &&
	LD_LIBRARY_PATH=$dest$lib "$tmp/prog" &&
	ldd "$tmp/prog" | grep -q 'librlx\.so\.1 '
}

static_program()
{
	static_link prog && ! ldd "$tmp/prog.static" | grep librlx
}

# Every global name of what is installed has our prefix, and each library has some; of
# the archive's, none is outside the map.
names_are_ours()
{
	sed -n '/^local:/q; s/^\t\(rlx_[a-z0-9_]*\);/\1/p' libuser/librlx.map | sort \
		>"$tmp/public"
	for f in librlx.so librlx-gpu.so librlx-vulkan.so librlx-train.so librlx.a; do
		flags=-D
		[ $f != librlx.a ] || flags=-g
		nm $flags --defined-only "$dest$lib/$f" | awk 'NF == 3 && $2 != "A" {
			sub(/@.*/, "", $3); print $3 }' | sort >"$tmp/$f.names"
		grep -q '^rlx_' "$tmp/$f.names" || fail "$f has no names" || return
		! grep -v '^rlx_' "$tmp/$f.names" || fail "$f has these" || return
	done
	grep -v '^rlx_op_' "$tmp/librlx.a.names" | diff "$tmp/public" - &&
	! find "$dest" -name 'librlx*internal*' | grep .
}

# Names that a program may well have, and that we have inside.
cat >"$tmp/own.c" <<'EOF'
#include <rlx/run.h>

int el_get(void);
int gpu_init(void);
int lower_call(void);

int el_get(void) { return 1; }
int gpu_init(void) { return 2; }
int lower_call(void) { return 4; }

int main(void)
{
	struct rlx_graph *g = rlx_graph_new("own");
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	const float in[2] = { 1, 5 };
	float out[2] = { 0 };
	struct rlx_type t = rlx_type(RLX_F32, 2);
	rlx_value x = rlx_input(g, "x", t);

	rlx_output(g, "y", rlx_emit(g, neg, .x = x));
	if (rlx_graph_finish(g) || rlx_compile(g, NULL, &p, &err) ||
	    rlx_session_new(p, NULL, &s, &err) ||
	    rlx_session_set(s, RLX_IO_INPUT, "x", t, in) || rlx_session_run(s) ||
	    rlx_session_get(s, RLX_IO_OUTPUT, "y", t, out))
		return 1;
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	return !(out[1] == -5 && el_get() + gpu_init() + lower_call() == 7);
}
EOF

# static_link PROGRAM FLAGS ...
# shellcheck disable=SC2046
static_link()
{
	prog=$1
	shift
	$CC -Wall -Werror "$tmp/$prog.c" "$@" $(pc --cflags) "$dest$lib/librlx.a" \
		$(pc --static --libs-only-l | sed 's/-lrlx//') -pthread -o "$tmp/$prog.static" &&
	"$tmp/$prog.static"
}

# A program's own names: linked statically, and not lent to the shared libraries.
# shellcheck disable=SC2046
own_names()
{
	static_link own &&
	$CC -Wall -Werror "$tmp/own.c" $(pc --cflags --libs) -o "$tmp/own" &&
	LD_LIBRARY_PATH=$dest$lib "$tmp/own" &&
	! nm -D --defined-only "$tmp/own" | grep -E 'el_get|gpu_init|lower_call'
}

# What a program does not call it need not carry: without ops it is a fiftieth.
unused_sections()
{
	static_link own -Wl,--gc-sections -s && whole=$(stat -c %s "$tmp/own.static") &&
	static_link prog -Wl,--gc-sections -s && part=$(stat -c %s "$tmp/prog.static") &&
	echo "$part of $whole bytes" && [ "$part" -lt $((whole / 20)) ]
}

# The tutorial's program prints what the tutorial says.
# shellcheck disable=SC2046
tutorial()
{
	awk '/^```c/ { on = 1; next } /^```/ { on = 0 } on' docs/tutorial.md \
		>"$tmp/first.c"
	awk '/^It prints/ { p = 1 } p && /^```/ { n++; next } n == 1' \
		docs/tutorial.md >"$tmp/want"
	$CC -Wall -Wextra -Werror "$tmp/first.c" $(pc --cflags --libs) \
		-o "$tmp/first" &&
	LD_LIBRARY_PATH=$dest$lib "$tmp/first" >"$tmp/got" &&
	[ -s "$tmp/want" ] && diff "$tmp/want" "$tmp/got"
}

# A step is trained by a program of the installed library for it.
# shellcheck disable=SC2046
train_program()
{
	cat >"$tmp/step.c" <<'EOF'
#include <stdio.h>
#include <rlx/train.h>

int main(void)
{
	struct rlx_optimizer sgd = { .size = sizeof(sgd), .kind = RLX_SGD };
	struct rlx_graph *g = rlx_graph_new("step");
	struct rlx_vars *v = rlx_vars_new();
	rlx_value w = rlx_var(g, v, "w", rlx_type(RLX_F32, 2), RLX_ONES, 0), loss;
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	float *now;

	loss = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = w, .b = w));
	rlx_train_step(g, v, loss, rlx_scalar_const(g, RLX_F32, 0.25), NULL, &sgd);
	if (rlx_graph_finish(g) || rlx_compile(g, NULL, &p, &err) ||
	    rlx_states_new(p, NULL, &so.states, &err) ||
	    rlx_states_init(so.states, v, 1, &err) || rlx_session_new(p, &so, &s, &err) ||
	    rlx_session_run(s)) {
		puts(rlx_graph_error(g)->status ? rlx_graph_error(g)->text : err.text);
		return 1;
	}
	now = rlx_buf_ptr(rlx_session_bound(s, RLX_IO_STATE, "w"));
	return !(now[0] == 0.5f && now[1] == 0.5f);
}
EOF
	flags=$(PKG_CONFIG_SYSROOT_DIR=$dest PKG_CONFIG_LIBDIR=$dest$lib/pkgconfig \
		pkg-config --cflags --libs rlx-train) &&
	$CC -Wall -Werror "$tmp/step.c" $flags -o "$tmp/step" &&
	LD_LIBRARY_PATH=$dest$lib "$tmp/step"
}

# Each header by itself, in the language "$1" of the standard "$2".
headers_alone()
{
	for h in "$dest"/opt/rlx/include/rlx/*.h; do
		case $h in *.list.h) continue ;; esac
		$CC -x "$1" -std="$2" -Wall -Wextra -Werror -fsyntax-only \
			-I"$dest/opt/rlx/include" - <<EOF || return 1
#include <rlx/$(basename "$h")>
EOF
	done
}

cmake_program()
{
	mkdir -p "$tmp/cm" && cat >"$tmp/cm/CMakeLists.txt" <<'EOF' || return 1
cmake_minimum_required(VERSION 3.16)
project(prog C)
find_package(rlx 0.1 REQUIRED)
add_executable(shared ../prog.c)
target_link_libraries(shared rlx::rlx)
add_executable(static ../prog.c)
target_link_libraries(static rlx::static)
EOF
	cmake -S "$tmp/cm" -B "$tmp/cm/b" -DCMAKE_C_COMPILER="${CC##* }" \
		-Drlx_DIR="$dest$lib/cmake/rlx" &&
	cmake --build "$tmp/cm/b" && "$tmp/cm/b/shared" && "$tmp/cm/b/static"
}

# The library opens the one for GPUs beside it: what is missing then is a driver's.
# shellcheck disable=SC2046
gpu_library()
{
	cat >"$tmp/gpu.c" <<'EOF'
#include <stdio.h>
#include <rlx/device.h>

int main(void)
{
	printf("cuda: %s\n", rlx_device_why("cuda"));
	return 0;
}
EOF
	$CC -Wall -Werror "$tmp/gpu.c" $(pc --cflags --libs) -o "$tmp/gpu" &&
	LD_LIBRARY_PATH=$dest$lib "$tmp/gpu" >"$tmp/why" && cat "$tmp/why" &&
	! grep -q librlx "$tmp/why" &&
	mv "$dest$lib/librlx-gpu.so.1" "$tmp/away" &&
	LD_LIBRARY_PATH=$dest$lib "$tmp/gpu" >"$tmp/why" && cat "$tmp/why" &&
	grep -q 'librlx-gpu\.so\.1' "$tmp/why" &&
	mv "$tmp/away" "$dest$lib/librlx-gpu.so.1"
}

# So are the kernels for AVX-512, where the processor has it; without them v3's run.
# shellcheck disable=SC2046
avx512_library()
{
	cat >"$tmp/isa.c" <<'EOF'
#include <stdio.h>
#include <rlx/device.h>

int main(void)
{
	struct rlx_dev_info d;

	rlx_device_list(&d, 1);
	printf("%s: %s\n", d.backend, d.isa);
	return 0;
}
EOF
	$CC -Wall -Werror "$tmp/isa.c" $(pc --cflags --libs) -o "$tmp/isa" &&
	LD_LIBRARY_PATH=$dest$lib "$tmp/isa" >"$tmp/with" 2>&1 && cat "$tmp/with" || return 1
	[ "$(cat "$tmp/with")" = "cpu: $("$dest/opt/rlx/bin/rlx" info |
		sed -n 's/^  cpu .*kernels for \([a-z0-9_]*\),.*/\1/p')" ] || return 1
	grep -q ': v4' "$tmp/with" || return 0	# no processor for it
	mv "$dest$lib/librlx-avx512.so.1" "$tmp/away" &&
	LD_LIBRARY_PATH=$dest$lib "$tmp/isa" >"$tmp/without" 2>&1; cat "$tmp/without"
	mv "$tmp/away" "$dest$lib/librlx-avx512.so.1" &&
	grep -qx 'cpu: v3' "$tmp/without" && grep -q 'librlx-avx512\.so\.1.*No such' "$tmp/without"
}

# The promise to users of small machines: 2.6 MB without debug information.
small_enough()
{
	strip -o "$tmp/stripped.so" "$dest$lib/librlx.so" &&
	size=$(stat -c %s "$tmp/stripped.so") &&
	echo "$size bytes" && [ "$size" -lt 2600000 ]
}

# Pages of the library and the command, and one for each subcommand.
manual_pages()
{
	for p in librlx.3 librlx-train.3 rlx-ops.3 rlx.1 rlx.4 $("$dest/opt/rlx/bin/rlx" --help |
			sed -n 's/^  \([a-z]*\) .*/rlx-\1.1/p'); do
		m=$dest/opt/rlx/share/man/man${p##*.}/$p
		grep -q '^\.TH ' "$m" || { echo "$p: no page"; return 1; }
	done
	grep -q json "$dest/opt/rlx/share/man/man1/rlx-info.1"
}

# The reference of the ops says of each input and attribute what reflection says.
ops_agree()
{
	awk '/^\.SH / { op = "" }
	     /^\.SS / { op = $2; gsub(/\\/, "", op) }
	     sub(/^\\fB/, "") && op && /^[a-z]/ {
		name = what = $0
		sub(/\\fR.*/, "", name)
		sub(/^[^:]*: /, "", what)
		value = what ~ /[0-9] if not given/ ? what : ""
		sub(/^[^,]*, /, "", value)
		sub(/ if not given.*/, "", value)
		gsub(/\\[&]?/, "", value)
		gsub(/\\/, "", name)
		if (what == "input, may be missing")
			what = "optional"
		sub(/^any number of /, "", what)
		sub(/,.*/, "", what)
		print op, name, what, value
	}' "$dest/opt/rlx/share/man/man3/rlx-ops.3" | sort >"$tmp/said"
	LD_LIBRARY_PATH=$dest$lib "$dest/opt/rlx/bin/rlx" ops --fields --format csv |
	awk -F, 'NR > 1 {
		sub(/^"/, "", $4)
		print $1, $2, $3, $4 ~ /^-?[0-9]/ ? $4 : ""
	}' | sort >"$tmp/reflected"
	[ "$(wc -l <"$tmp/said")" -gt 400 ] && diff "$tmp/said" "$tmp/reflected"
}

# What bash would offer behind the words given, the last of which is begun.
offers()
{
	bash -c '
		PATH=$1:$PATH
		. "$2"
		shift 2
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_rlx rlx
		printf "%s\n" "${COMPREPLY[@]}"
	' x "$dest/opt/rlx/bin" \
		"$dest/opt/rlx/share/bash-completion/completions/rlx" "$@"
}

completion()
{
	offers rlx in | grep -qx info && offers rlx info --js | grep -qx -e --json &&
	[ "$(offers rlx info x)" = "" ]
}

check install install_it
check files files_are_there
check gpu-kernels kernels_are_there
check names names_are_ours
check gpu-library gpu_library
check avx512-library avx512_library
check size small_enough
check headers-c headers_alone c c11
if echo 'int x;' | $CC -x c++ -fsyntax-only - 2>/dev/null; then
	check headers-c++ headers_alone c++ c++17
else
	skip headers-c++ "no C++ compiler"
fi
if command -v pkg-config >/dev/null; then
	check pkg-config-shared shared_program
	check pkg-config-static static_program
	check own-names own_names
	check unused-sections unused_sections
	check tutorial tutorial
	check pkg-config-train train_program
else
	skip pkg-config-shared "no pkg-config"
	skip pkg-config-static "no pkg-config"
	skip own-names "no pkg-config"
	skip unused-sections "no pkg-config"
	skip tutorial "no pkg-config"
	skip pkg-config-train "no pkg-config"
fi
if command -v cmake >/dev/null; then
	check cmake cmake_program
else
	skip cmake "no cmake"
fi
if command -v scdoc >/dev/null; then
	check manual manual_pages
	check ops-reference ops_agree
else
	skip manual "no scdoc"
	skip ops-reference "no scdoc"
fi
check completion completion
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs into an empty folder and builds programs against what lies there.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
dest=$tmp/dest lib=/opt/rlx/lib/arch

install_it()
{
	${MAKE:-make} -s BUILD="$BUILD" DESTDIR="$dest" PREFIX=/opt/rlx \
		LIBDIR=$lib install
}

# Everything that must be there, and nothing outside the prefix.
files_are_there()
{
	for f in include/rlx/status.h include/rlx/ops.list.h include/linux/rlx.h lib/arch/librlx.a \
		 lib/arch/librlx.so lib/arch/librlx.so.1 lib/arch/librlx-gpu.so.1 \
		 bin/rlx lib/arch/pkgconfig/rlx.pc lib/arch/cmake/rlx/rlxConfig.cmake; do
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

# shellcheck disable=SC2046
static_program()
{
	$CC -Wall -Werror "$tmp/prog.c" $(pc --cflags) \
		"$dest$lib/librlx.a" $(pc --static --libs-only-l |
		sed 's/-lrlx//') -pthread -o "$tmp/prog.static" &&
	"$tmp/prog.static" && ! ldd "$tmp/prog.static" | grep librlx
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
	for p in librlx.3 rlx.1 rlx.4 $("$dest/opt/rlx/bin/rlx" --help |
			sed -n 's/^  \([a-z]*\) .*/rlx-\1.1/p'); do
		m=$dest/opt/rlx/share/man/man${p##*.}/$p
		grep -q '^\.TH ' "$m" || { echo "$p: no page"; return 1; }
	done
	grep -q json "$dest/opt/rlx/share/man/man1/rlx-info.1"
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
check gpu-library gpu_library
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
	check tutorial tutorial
else
	skip pkg-config-shared "no pkg-config"
	skip pkg-config-static "no pkg-config"
	skip tutorial "no pkg-config"
fi
if command -v cmake >/dev/null; then
	check cmake cmake_program
else
	skip cmake "no cmake"
fi
if command -v scdoc >/dev/null; then
	check manual manual_pages
else
	skip manual "no scdoc"
fi
check completion completion
finish

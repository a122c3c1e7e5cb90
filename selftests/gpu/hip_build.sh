#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles the GPU kernels for AMD's chips by the compiler behind Debian's hipcc. It
# knows gfx940, which gfx942 followed, and of the chips with warps of 32 gfx1030. Then
# by Debian's HIPRTC, as the backend does it, whose numbers of HIP are compared too.
. selftests/lib/tap.sh

libs=$(echo /usr/lib/*/amdgcn/bitcode)
cxx=$(ls /usr/bin/clang++-* 2>/dev/null | sort -V | tail -n 1)

# clang CHIP ARGUMENT ...
clang()
{
	chip=$1
	shift
	"$cxx" --offload-arch="$chip" -std=c++17 -O1 --rocm-path=/usr --hip-version=5.2.0 \
		--hip-device-lib-path="$libs" -x hip --cuda-device-only -c "$@"
}

# Reading HIP's headers takes longer than compiling most kernels, so they are read once.
read_headers()
{
	echo '#include <hip/hip_runtime.h>' >"$BUILD/hip/runtime.h"
	for chip in gfx90a gfx1030 gfx940; do
		clang $chip -emit-llvm -Xclang -emit-pch "$BUILD/hip/runtime.h" \
			-o "$BUILD/hip/$chip.pch" || return
	done
}

# by_clang OBJECT CHIP WARP FILE KERNEL [PARAMETER=VALUE ...]
by_clang()
{
	object=$1 chip=$2 warp=$3 file=$4 kernel=$5
	shift 5
	# shellcheck disable=SC2046 # words
	clang "$chip" -include-pch "$BUILD/hip/$chip.pch" -DRLX_WARP="$warp" -DRLX_ARCH=0 \
		-DRLX_KERNEL_"$kernel" $(for p; do echo "-D$p"; done) \
		-I. -Ilibuser -Ilibuser/include "kernels/gpu/$file.cu" -o "$object"
}

# one_case "by_clang|$BUILD/hip/rocm CHIP WARP KERNEL [PARAMETER=VALUE ...]" FOLDER
one_case()
{
	dir=$2
	mkdir -p "$dir"
	# shellcheck disable=SC2086 # words
	set -- $1
	how=$1
	shift
	chip=$1 warp=$2
	shift 2
	name="${how##*/} $chip $*"
	file=$(sed -n "s/^GPU_[A-Z]*($1, \([a-z_0-9]*\)[,)].*/\1/p" kernels/gpu/kernels.def)
	set -- "$chip" "$warp" "$file" "$@"
	[ "$how" != by_clang ] || set -- "$dir/kernel.o" "$@"
	if "$how" "$@" >"$dir/log" 2>&1; then
		echo "ok N $name" >"$dir/tap"
	else
		{ grep -A 3 error: "$dir/log" | sed 's/^/# /' | head -n 20
		  echo "not ok N $name"; } >"$dir/tap"
	fi
	rm -f "$dir/kernel.o"
}

# What the backend says of HIP, and the program that also compiles as it does.
make_program()
{
	awk -f selftests/gpu/hip/shapes.awk backends/gpu/api.def \
		>"$tmp/shapes.cc" &&
	"$cxx" -std=c++17 -w -I. -fsyntax-only "$tmp/shapes.cc" &&
	mkdir -p "$BUILD/hip" || return
	# shellcheck disable=SC2086 # CC may be words
	$CC -std=gnu11 -D_GNU_SOURCE -I. -Ilibuser -Ilibuser/include -I"$BUILD/gen" \
		selftests/gpu/hip/rocm.c "$BUILD/lib/librlx-internal.a" -luring -lm -ldl -pthread \
		-o "$BUILD/hip/rocm"
}

if [ "${1-}" = --case ]; then
	one_case "$2" "$3"
	exit 0
fi

need "$libs/ockl.bc" kernels "no device libraries of ROCm"
check "shapes of HIP's calls" make_program
check "numbers and names of HIP" "$BUILD/hip/rocm"
check "headers of HIP" read_headers
for how in "by_clang gfx90a 64" "by_clang gfx1030 32" "$BUILD/hip/rocm gfx90a 64"; do
	sed -n "s:^\([a-z].*\) hip$:$how \1:p" selftests/gpu/variants.txt
done >"$tmp/cases"
# of the newer chip what has instructions of its own
sed -n 's/^\(\(gemm_[a-z]*\|attention[a-z_]*\).*\) hip$/by_clang gfx940 64 \1/p' \
	selftests/gpu/variants.txt >>"$tmp/cases"
run_cases selftests/gpu/hip_build.sh "$BUILD/hip" <"$tmp/cases"
finish

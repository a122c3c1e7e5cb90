#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles the GPU kernels for AMD's chips by the compiler behind Debian's hipcc. It
# knows gfx940, which gfx942 followed, and of the chips with waves of 32 gfx1030.
. selftests/lib/tap.sh

libs=$(echo /usr/lib/*/amdgcn/bitcode)
cxx=$(ls /usr/bin/clang++-* 2>/dev/null | sort -V | tail -n 1)

# one_case "ARCH WAVE FILE K0 K1 K2 K3" FOLDER
one_case()
{
	mkdir -p "$2"
	# shellcheck disable=SC2086 # words
	set -- "$2" $1
	name="$2 $4 $5 $6 $7 $8"
	if "$cxx" --offload-arch="$2" -DRLX_WAVE="$3" -DRLX_ARCH=0 -DRLX_K0="$5" \
		-DRLX_K1="$6" -DRLX_K2="$7" -DRLX_K3="$8" -std=c++17 -O1 -I. \
		--rocm-path=/usr --hip-version=5.2.0 --hip-device-lib-path="$libs" \
		-x hip --cuda-device-only -c "kernels/gpu/$4.cu" -o "$1/kernel.o" \
		>"$1/log" 2>&1; then
		echo "ok N $name" >"$1/tap"
	else
		{ grep -A 3 error: "$1/log" | sed 's/^/# /' | head -n 20
		  echo "not ok N $name"; } >"$1/tap"
	fi
	rm -f "$1/kernel.o"
}

if [ "${1-}" = --case ]; then
	one_case "$2" "$3"
	exit 0
fi

need "$libs/ockl.bc" kernels "no device libraries of ROCm"
for chip in "gfx90a 64" "gfx1030 32"; do
	sed -n "s/^\([a-z][a-z_0-9 ]*\) hip$/$chip \1/p" selftests/gpu/variants.txt
done >"$tmp/cases"
# of the newer chip what has instructions of its own
sed -n 's/^\(\(gemm_mma\|attention\) [0-9 ]*\) hip$/gfx940 64 \1/p' \
	selftests/gpu/variants.txt >>"$tmp/cases"
run_cases selftests/gpu/hip_build.sh "$BUILD/hip" <"$tmp/cases"
finish

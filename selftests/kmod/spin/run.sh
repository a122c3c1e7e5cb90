#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks the models of this folder exhaustively, and prints TAP.
#
#   selftests/kmod/spin/run.sh [MODEL ...]
#
# The head of a model lists its cases: "right: WORDS" must hold in every execution;
# "wrong: WORDS", with the words defined, is the model with a mistake in it, which
# must be found. Work and trails are kept in $BUILD/spin/CASE.
cd "$(dirname "$0")/../../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh

# One case: "MODEL|right or wrong|WORDS"; its verdict is left in FOLDER/tap.
run_case()
{
	IFS='|' read -r model want words <<END
$1
END
	dir=$2
	set --
	for w in $words; do
		set -- "$@" "-D$w"
	done
	mkdir -p "$dir"
	cd "$dir" || return 1
	name="$(basename "$model" .pml) $want${words:+ $words}"
	for w in $words; do	# a word the model does not know would prove nothing
		grep -q "^#.*def.*\<$w\>" "$model" && continue
		printf '# %s is not in the model\nnot ok N %s\n' "$w" "$name" >tap
		return
	done
	# Mistakes show within few states: not worth the compiler's time.
	opt=-O0
	[ "$want" = wrong ] || opt=-O1
	if ! { spin "$@" -a "$model" &&
	       $CC $opt -w -DSAFETY -DCOLLAPSE -o pan pan.c &&
	       ./pan -m500000; } >log 2>&1; then
		: # the log says it
	fi
	states=$(sed -n 's/^ *\([0-9e.+]*\) states, stored.*/\1/p' log)
	errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' log)
	why=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' log)
	verdict="not ok"
	if [ "$want" = right ] && [ "$errors" = 0 ] &&
	   ! grep -q 'max search depth\|not completed\|out of memory' log; then
		verdict=ok
	elif [ "$want" = wrong ] && [ "${errors:-0}" != 0 ]; then
		case $why in
		"assertion violated"*|"invalid end state"*) verdict=ok ;;
		esac
	fi
	{
		[ "$verdict" = ok ] || tail -n 20 log | sed 's/^/# /'
		echo "# ${states:-no} states${why:+; $why}"
		echo "$verdict N $name"
	} >tap
	rm -f pan pan.?
}

if [ "${1-}" = --case ]; then
	run_case "$2" "$3"
	exit
fi

[ $# != 0 ] || set -- selftests/kmod/spin/*.pml

# Words are in capitals; what follows them explains.
for model; do
	model=$(realpath "$model")
	sed -n 's/^ \* \(right\|wrong\):[ \t]*\(\([A-Z_0-9]\+ \?\)*\)\([ \t].*\)\?$/\1|\2/p' \
		"$model" | sed "s|^|$model\||; s/[ \t]*$//"
done >"$tmp/cases"
run_cases selftests/kmod/spin/run.sh "$BUILD/spin" <"$tmp/cases"
finish

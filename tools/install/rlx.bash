# SPDX-License-Identifier: MIT
# Bash completion for rlx. What there is to complete is asked of rlx itself, so it
# follows the installed version: commands of "rlx --help", options of
# "rlx COMMAND --help", and the words of a value written a|b|c there.

_rlx()
{
	local tool=$1 cur=${COMP_WORDS[COMP_CWORD]} words
	local prev=${COMP_WORDS[COMP_CWORD - 1]} cmd=${COMP_WORDS[1]}

	COMPREPLY=()
	if [[ $COMP_CWORD -eq 1 ]]; then
		words=$("$tool" --help 2>/dev/null |
			sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')
		words+=" help --help --version"
	elif [[ $cmd == help ]]; then
		words=$("$tool" --help 2>/dev/null |
			sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')
	elif [[ $cur == -* ]]; then
		words=$("$tool" "$cmd" --help 2>/dev/null |
			sed -n 's/^  \(--[a-z][a-z0-9-]*\).*/\1/p')
	elif [[ $prev == --* ]]; then
		words=$("$tool" "$cmd" --help 2>/dev/null |
			sed -n "s/^  $prev \([a-z0-9_-]*|[^ ]*\).*/\1/p" | tr '|' ' ')
	fi
	# Without words the shell completes file names.
	[[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -o bashdefault -o default -F _rlx rlx

# SPDX-License-Identifier: MIT
# Copies rlx.4.scd with the errors of uapi/linux/rlx.h where a comment line names
# that header, so that each is described in one place:
#   awk -f tools/errno2scd.awk uapi/linux/rlx.h docs/rlx.4.scd

function esc(s)
{
	gsub(/[\\_*#<>~`]/, "\\\\&", s)
	return s
}

function put() { if (names != "") table = table "*" names "*\n\t" text "\n\n" }

# Lines as " *	EPERM		text", and " *			more of it".
FNR == NR && /^ \* Errors:$/ { on = 1; next }
FNR == NR && on && /^ \*\// { on = 0; put() }
FNR == NR && on && /^ \*\tE/ {
	put()
	line = substr($0, 4)
	match(line, /\t+/)
	names = substr(line, 1, RSTART - 1)
	text = esc(substr(line, RSTART + RLENGTH))
	nr++
	next
}
FNR == NR && on { sub(/^ \*\t+/, ""); text = text "\n\t" esc($0) }
FNR == NR { next }

/^; errors of uapi\/linux\/rlx\.h$/ {
	if (!nr)
		exit 1
	printf "%s", table
	done = 1
	next
}
{ print }

END {
	if (!done) {
		print "errno2scd: no errors, or no place for them" > "/dev/stderr"
		exit 1
	}
}

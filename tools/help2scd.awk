# SPDX-License-Identifier: MIT
# Turns "rlx NAME --help" into the scdoc source of rlx-NAME(1), so that options are
# described in one place. Variables: name, about (its line in "rlx --help").

function esc(s)
{
	gsub(/[\\_*#<>~`]/, "\\\\&", s)
	sub(/^[-.|[\]]/, "\\\\&", s)	# no list, macro or table begins here
	return s
}

function heading(s) { print "\n# " s "\n" }

NR == 1 {
	print "rlx-" name "(1) \"\" \"RLX commands\""
	heading("NAME")
	print "rlx-" name " - " esc(about)
	heading("SYNOPSIS")
	sub(/^usage: rlx [^ ]+ ?/, "")
	print "*rlx " name "* " esc($0)
	part = "synopsis"
	next
}
part == "synopsis" && /^$/ {
	heading("DESCRIPTION")
	part = "about"
	next
}
part == "synopsis" {		# a synopsis of several lines
	sub(/^[ \t]+/, "")
	print esc($0)
	next
}

# "  --option VALUE      text", or the text on the lines that follow.
/^  --?[a-z]/ {
	if (part != "options")
		heading("OPTIONS")
	part = "options"
	text = $0
	sub(/^  /, "", text)
	rest = ""
	if (match(text, /   *[^ ]/)) {
		rest = substr(text, RSTART + RLENGTH - 1)
		text = substr(text, 1, RSTART - 1)
	}
	print "*" esc(text) "*"
	if (rest != "")
		print "\t" esc(rest)
	next
}
part == "options" && /^   / {
	sub(/^ +/, "")
	print "\t" esc($0)
	next
}
/^Exit status: / {
	heading("EXIT STATUS")
	sub(/^Exit status: /, "")
	n = split($0, code, /, */)
	for (i = 1; i <= n; i++) {
		at = index(code[i], " ")
		print "*" substr(code[i], 1, at - 1) "*"
		print "\t" esc(substr(code[i], at + 1)) "\n"
	}
	next
}
part == "options" && /^$/ { print ""; next }
part == "options" { heading("NOTES"); part = "notes" }
{ print esc($0) }

END {
	heading("SEE ALSO")
	print "*rlx*(1)"
}

# SPDX-License-Identifier: MIT
# The rules of tools/check-style: prints "RULE file:line: what" for each breach.

function report(rule, what) { print rule, FILENAME ":" FNR ": " what }

# Columns as an editor shows them with tabs of eight; UTF-8 tails take none.
function columns(s,	t, n, at)
{
	gsub(/[\200-\277]/, "", s)
	while ((at = index(s, "\t"))) {
		t = substr(s, 1, at - 1)
		n = 8 - length(t) % 8
		s = t sprintf("%" n "s", "") substr(s, at + 1)
	}
	return length(s)
}

# Blanks strings, characters and one-line comments, so that words in them are
# not taken for code.
function code_of(s)
{
	gsub(/\\./, "", s)
	gsub(/"[^"]*"/, "\"\"", s)
	gsub(/'[^']*'/, "0", s)
	gsub(/\/\*.*\*\//, "", s)
	sub(/\/\/.*/, "", s)
	sub(/\/\*.*/, "", s)
	if (s ~ /^[ \t]*\*([ \t\/]|$)/)
		s = ""
	return s
}

# Parameters of the definition whose text up to its brace is s.
function parameters(s,	i, c, depth, n)
{
	if (s !~ /\)[ \t]*$/ || s ~ /^[ \t]*(struct|enum|union|static const)[^(]*=/)
		return 0
	n = 1
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (c == "(" && !depth++)
			n = 1
		else if (c == ")")
			depth--
		else if (c == "," && depth == 1)
			n++
	}
	return n
}

function wanted_licence()
{
	if (FILENAME ~ /^Kbuild$|^kmod\/|^selftests\/kmod\/(bad|kunit)\//)
		return "GPL-2.0-only"
	if (FILENAME ~ /^uapi\//)
		return "GPL-2.0-only WITH Linux-syscall-note OR MIT"
	return "MIT"
}

BEGIN {
	heap = "(^|[^A-Za-z0-9_.>])(malloc|calloc|realloc|free|strn?dup|" \
		"asprintf|posix_memalign|aligned_alloc)\\("
}

FNR == 1 {
	prose = FILENAME ~ /\.(md|txt|scd)$|(^|\/)(README|\.gitignore)$|\.clang-format$/
	plain = FILENAME ~ /(^|\/)(README|\.gitignore)$|\.(md|json|scd)$/
	# Files whose every line means something to Debian's tools.
	if (FILENAME ~ /^debian\/(changelog|copyright|source\/format|.*\.dkms)$/)
		prose = plain = 1
	c_file = FILENAME ~ /\.(c|h|cu|comp)$/
	table = FILENAME ~ /\.(def|txt)$/
	library = FILENAME ~ /^(libuser|backends|kernels)\// && c_file
	spdx_line = sentence_line = body = 0
	head = ""
}

FNR == 1 && /^#!/ { spdx_line = 1 }
FNR == 1 + spdx_line && !plain {
	text = $0
	sub(/^.*SPDX-License-Identifier: /, "", text)
	sub(/[ \t]*\*\/$/, "", text)
	if ($0 !~ /SPDX-License-Identifier: /)
		report("spdx", "the first line has no SPDX licence")
	else if (text != wanted_licence())
		report("spdx", "the licence here is " wanted_licence())
	if (FILENAME ~ /\.c$/ && $0 !~ /^\/\/ SPDX/)
		report("spdx", "in a .c file this is a // comment")
	if (FILENAME ~ /\.h$/ && $0 !~ /^\/\* SPDX/)
		report("spdx", "in a .h file this is a /* comment")
}
FNR == 2 + spdx_line && !plain && FILENAME !~ /clang-format$/ {
	if ($0 !~ (c_file ? "^/[*/]" : "^(/[*/]|#|\"\"\")"))
		report("sentence", "say here in one sentence what lives in this file")
}

FNR == 1201 && !table && !prose {
	report("file-length", "more than 1200 lines")
}
!prose && !table && length($0) > 80 && columns($0) > 100 {
	report("columns", columns($0) " columns, at most 100")
}
/[ \t]+$/ && !prose { report("whitespace", "blanks at the end of the line") }
/\r$/ { report("whitespace", "a carriage return") }
c_file && /^        / { report("indent", "indented by spaces, not tabs") }

# The words are spelled in classes so that this file does not contain them.
/(^|[^A-Za-z])(T[O]DO|F[I]XME|X[X]X)([^A-Za-z]|$)/ {
	report("unfinished", "unfinished work belongs in the tracker")
}
# An XML namespace only looks like a host.
!prose && /h[t]tps?:\/\/[a-z0-9]/ && !/xmlns/ {
	report("hosts", "names a host; package tools know theirs")
}
/(^|[^A-Za-z0-9_.~\/-])\/(w[o]rk|h[o]me|r[o]ot)\// {
	report("paths", "a path of one machine")
}

FILENAME ~ /^kmod\// && /GFP_KERNEL([^_]|$)|xa_init\(|XA_FLAGS_ALLOC1?\)/ {
	report("allocator", "who asks for memory pays for it: GFP_KERNEL_ACCOUNT, " \
	       "XA_FLAGS_ACCOUNT")
}

library {
	code = code_of($0)
	# What open_memstream() made is libc's to free; the line must say so.
	if (FILENAME !~ /base\/alloc\.[ch]$/ && code ~ heap &&
	    $0 !~ /\/\*.*open_memstream/)
		report("allocator", "heap memory comes from base/alloc.h")
	if (code ~ /(^|[^A-Za-z0-9_])(abort|assert|exit|_exit)\(/)
		report("exits", "the library returns a status, it never ends a process")
	if (FILENAME !~ /base\/log\.c$/ &&
	    code ~ /(^|[^A-Za-z0-9_])(printf|puts|perror|vprintf)\(|fprintf\(stderr/)
		report("output", "the library speaks through base/log.h only")
}

# Functions: from the brace in column one to its partner.
c_file && /^\{/ {
	body = FNR
	if (parameters(head) > 6)
		report("parameters", parameters(head) " parameters, at most 6")
	head = ""
}
c_file && /^\}/ {
	if (body && FNR - body > 101)
		report("function-length", FNR - body - 1 " lines, at most 100")
	body = 0
	head = ""
	next
}
c_file && !body {
	code = code_of($0)
	if (code ~ /^#/ || code ~ /[;}][ \t]*$/ || code ~ /^[ \t]*$/)
		head = ""
	else
		head = head code " "
}

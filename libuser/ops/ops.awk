# SPDX-License-Identifier: MIT
# Harvest every RLX_OP(...) block of the op files, and every EW1/EW2/EW3 row of
# elementwise.def, as one RLX_OP line each, and what rlx_emit() starts from: the
# attributes whose zero is not "not given". With fields=1 the lines are RLX_FIELDS(...)
# instead, in which each field names its op as well: constant tables are made of them.
function row(blk)
{
	match(blk, /^RLX_OP\([a-z0-9_]+/)
	if (fields) {
		gsub(/ (IN|OPT|INS|ATTR|ATTR_NZ|DEF|REQ)\(/, "&" substr(blk, 8, RLENGTH - 7) ", ",
		     blk)
		sub(/^RLX_OP/, "RLX_FIELDS", blk)
		print blk
		return
	}
	print blk
	init(blk)
}
function init(blk,	s, part)
{
	match(blk, /^RLX_OP\([a-z0-9_]+/)
	s = "#define RLX_INIT_" substr(blk, 8, RLENGTH - 7)
	while (match(blk, / (REQ|DEF)\([a-z0-9]+, [a-z0-9_]+/)) {
		split(substr(blk, RSTART + 5, RLENGTH - 5), part, ", ")
		if (part[1] ~ /^[if][36][24]$/)
			s = s " ." part[2] " = RLX_UNSET_" part[1] ","
		blk = substr(blk, RSTART + RLENGTH)
	}
	print s
}
# Behind the letters of dtypes; a word that is no trait elementwise.c does not compile.
function traits(s,	n, i, word, t)
{
	sub(/^[^"]*"[A-Z]*"/, "", s)
	n = split(substr(s, 1, index(s, ",") - 1), word, " ")
	for (i = 1; i <= n; i++)
		t = t " | RLX_T_" word[i]
	return t
}
/^EW[123]\(/ {
	split($0, part, /[(,]/)
	n = substr($0, 3, 1)
	f = n == 1 ? "IN(x)" : n == 2 ? "IN(a) IN(b)" : "IN(cond) IN(a) IN(b)"
	t = "RLX_T_ELEMENTWISE | RLX_T_INPLACE"
	if ($0 ~ /NODIFF/)
		t = t " | RLX_T_NODIFF"
	t = t traits($0)
	row("RLX_OP(" part[2] ", \"element by element\", " f ", " t ")")
	next
}
/^RLX_OP\(/ { on = 1; blk = "" }
on {
	blk = blk " " $0
	open = gsub(/\(/, "(", blk)
	close_ = gsub(/\)/, ")", blk)
	if (open == close_) {
		gsub(/[ \t]+/, " ", blk)
		sub(/^ /, "", blk)
		row(blk)
		on = 0
	}
}

# SPDX-License-Identifier: MIT
# Harvest every RLX_OP(...) block of the op files, and every EW1/EW2/EW3 row of
# elementwise.def, as one RLX_OP line each.
/^EW[123]\(/ {
	split($0, part, /[(,]/)
	n = substr($0, 3, 1)
	f = n == 1 ? "IN(x)" : n == 2 ? "IN(a) IN(b)" : "IN(cond) IN(a) IN(b)"
	t = "RLX_T_ELEMENTWISE | RLX_T_INPLACE"
	if ($0 ~ /NODIFF/)
		t = t " | RLX_T_NODIFF"
	print "RLX_OP(" part[2] ", \"element by element\", " f ", " t ")"
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
		print blk
		on = 0
	}
}

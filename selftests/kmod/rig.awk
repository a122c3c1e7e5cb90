# SPDX-License-Identifier: MIT
# Makes TAP of what one guest left: its results (init.c) and its kernel's log.
#
#   awk -v names='A B ...' -v ended=STATUS -f rig.awk LOG RESULTS
#
# Each test of program A becomes "A/TEST". Each program has one more, "A/clean":
# it ended as it said, the kernel's log holds no finding of its time, and nothing
# leaked. "guest/clean" is the same for the time outside all programs, and
# "guest/end" says that the guest came to its end. Names that never began fail.
# A data race is a finding where one of its functions is ours; the kernel has its own.

# What a sound kernel never says, in two parts for the sake of length.
function is_finding(line)
{
	# A page fault that was made to find no memory, on purpose, is tried again.
	if (line ~ /VM_FAULT_OOM leaked out to the #PF handler/)
		return 0
	return line ~ /WARNING:|BUG[: ]|K[AC]SAN|KFENCE|UBSAN|ODEBUG|DMA-API/ ||
	       line ~ /possible (circular|recursive)|inconsistent (lock|{)/ ||
	       line ~ /suspicious RCU|[Ll]eaked|refcount_t|list_(add|del) corr/ ||
	       line ~ /general protection|[Oo]ops|[Kk]ernel panic|unable to handle/ ||
	       line ~ /unreferenced object|hung task|blocked for more than/ ||
	       line ~ /soft lockup|rcu.*(stall|detected)|sleeping function/ ||
	       line ~ /Call Trace|Bad (page|rss)|DEBUG_LOCKS/
}

function add_log(owner, text)
{
	if (owner == "")
		guest_log = guest_log text
	else
		log_of[owner] = log_of[owner] text
}

# A report of KCSAN is over, or the log is.
function end_race()
{
	if (race ~ /\[rlx(_bad)?\]/) {
		if (races_of[owner]++ < 20)
			add_log(owner, race)
	} else if (race != "") {
		foreign_races++
	}
	race = ""
}

function result(ok, name, note)
{
	if (note != "")
		printf "%s", note
	printf "%sok %d %s\n", ok ? "" : "not ", ++total, name
	bad += !ok
}

# The program's own lines are over: its plan, its status, the log of its time.
function finish(name, status, ms,	note)
{
	note = ""
	if (!planned && kunit != 1)
		note = note "# no plan: it ended early, with status " status "\n"
	else if (plan != seen)
		note = note sprintf("# planned %d tests, ran %d\n", plan, seen)
	else if (status && !failed && !(status == 4 && skipped == seen))
		note = note sprintf("# ended with status %d\n", status)
	note = note leak_note log_of[name]
	result(note == "", name "/clean", note)
	printf "# time: %s %.1f s\n", name, ms / 1000
	done[name] = 1
	current = ""
}

function begin(name)
{
	current = name
	planned = plan = seen = failed = skipped = kunit = leak_lines = 0
	leak_note = ""
}

# The kernel's log: findings and the lines after each go to who was running.
FNR == NR {
	sub(/\r$/, "")
	if (/BUG: KCSAN: /) {
		end_race()
		race = "# " $0 "\n"
		next
	}
	if (race != "") {
		race = race "# " $0 "\n"
		if (/=============$/)
			end_race()
		next
	}
	if (/rig: begin /) {
		owner = $NF
		left = 0
	} else if (/rig: end /) {
		owner = ""
		left = 0
	}
	if (/\] (R[A-D]X|RBP|R10|R13|[FC]S|CR2|PKRU|Code|Hardware name|Tainted):/)
		next		# registers tell a reader of TAP nothing
	# The trace of one that runs its own group out of memory on purpose, by its name.
	if (/rig_may_oom invoked oom-killer/) {
		told = 1
	} else if (told && /Call Trace/) {
		told = 0
		next
	}
	if (is_finding($0))
		left = 24
	if (left > 0 && lines_of[owner]++ < 80)
		add_log(owner, "# " $0 "\n")
	left--
	next
}

{ sub(/\r$/, "") }

$1 == "#rig" {
	if ($2 == "begin") {
		begin($3)
	} else if ($2 == "end") {
		if ($3 == "kmemleak") {
			if ($4)
				leak_note = leak_note "# could not be read\n"
			result(leak_note == "", "guest/kmemleak", leak_note)
			printf "# time: kmemleak %.1f s\n", $5 / 1000
			current = ""
		} else {
			finish($3, $4, $5)
		}
	} else if ($2 == "leak" || $2 == "timeout") {
		sub(/^#rig /, "# ")
		if (current == "")
			guest_log = guest_log $0 "\n"
		else if (++leak_lines < 200)
			leak_note = leak_note $0 "\n"
	} else if ($2 == "alive") {
		next
	} else if ($2 == "done") {
		came_to_end = 1
		printf "# time: guest %.1f s\n", $3
	} else {
		print "# " substr($0, 6)
	}
	next
}

# KUnit's KTAP nests by indentation; the suite's own line only repeats.
$1 == "#kunit" {
	sub(/^#kunit /, "")
	kunit = 1
	if (/^ +# Subtest: /) {
		suite = $NF
	} else if (/^ +(not )?ok [0-9]+ /) {
		line = $0
		sub(/^ */, "", line)
		isbad = line ~ /^not /
		sub(/^(not )?ok [0-9]+ (- )?/, "", line)
		match($0, /^ */)
		if (RLENGTH == 4) {
			result(!isbad, current "/" suite "/" line, knote)
			knote = ""
			seen++
			plan++
		}
	} else if (/^ *#/) {
		line = $0
		sub(/^ */, "", line)
		knote = knote line "\n"
	}
	next
}

/^(not )?ok [0-9]+/ {
	isbad = $1 == "not"
	line = $0
	sub(/^(not )?ok [0-9]+ *(- )?/, "", line)
	seen++
	failed += isbad
	skipped += / # SKIP/
	result(!isbad, current "/" line)
	next
}

/^1\.\.[0-9]+/ {
	planned = 1
	plan = substr($1, 4) + 0
	next
}

/^K?TAP version/ { next }

{ print /^#/ ? $0 : "# " $0 }

END {
	end_race()
	if (foreign_races)
		print "# data races of the kernel alone: " foreign_races
	if (current != "" && current != "kmemleak")
		finish(current, "none: the guest stopped", 0)
	n = split(names, list, " ")
	for (i = 1; i <= n; i++)
		if (!done[list[i]])
			result(0, list[i] "/clean", "# it never ran\n")
	result(guest_log == "", "guest/clean", guest_log)
	result(came_to_end, "guest/end",
	       came_to_end ? "" : "# the guest did not come to its end" \
	       (ended == 124 ? ": out of time, or silent" : "") "\n" )
	printf "1..%d\n", total
	exit bad > 0
}

#!/bin/sh
# SPDX-License-Identifier: MIT
# Puts mistakes into the slot machine, one at a time, and sees that its tests fail.
#
#   selftests/slot/mutants.sh
#
# A mistake is a sed expression that must change kmod/slot.c. Prints TAP; copies
# and logs are kept in $BUILD/mutants. The seed is fixed: what is found stays found.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh

# NAME|EXPRESSION
mistakes()
{
	cat <<'END'
claim leaves the pointer|/^void \*rlx_slot_claim_cmd/,/^}/s/s->cmd = NULL;//
leases are not returned|s/rlx_slot_lease(s, -1);/;/
leases are not taken|s/rlx_slot_lease(s, 1);/;/
the wait object stays|/HOLDS_WAIT) {/,/}/s/s->wait = NULL;//
the copy stays|s/s->copy = NULL;$/;/
the copy is nobody's|s/out->acts |= RLX_ACT_COPY;/out->acts |= 0;/
the heap keeps what left|s/rlx_heap_remove(q, s);/;/
the heap forgets nothing|/^static void rlx_heap_remove/,/^}/s/s->heap = 0;//
the heap does not sift what fills a hole|s/rlx_heap_sift(q, at, last);/rlx_heap_put(q, at, last);/
the heap takes the first child|s/^\t\t\tkid++;$/\t\t\t;/
the heap never moves up|s/while (at && rlx_heap_key(q, (at - 1) \/ 2) > key)/while (0)/
the timer is never said to be earlier|s/acts |= RLX_ACT_TIMER;/;/
the generation of a slot stands still|s/^\t\ts->seq++;/\t\t;/
any generation of a slot will do|s/return s->seq == seq ? s : NULL;/return s;/
a tag is not bounded|s/if (tag >= q->depth)/if (0)/
commit: by the dead|/^int rlx_slots_commit/,/^}/s/if (!q->live || gen != q->gen)/if (gen != q->gen)/
commit: by an older one|/^int rlx_slots_commit/,/^}/s/if (!q->live || gen != q->gen)/if (!q->live)/
commit: no aux|s/out\[i\].aux = in\[i\].aux;/;/
commit: no aux to reap|s/s->aux = in\[i\].aux;/;/
fetch: by the dead|/^int rlx_slots_fetch/,/^}/s/if (!q->live || gen != q->gen)/if (gen != q->gen)/
fetch: by an older one|/^int rlx_slots_fetch/,/^}/s/if (!q->live || gen != q->gen)/if (!q->live)/
fetch: to nobody|s/^\t\ts->gen = gen;//
fetch: one lane for ever|s/list_move_tail(&lane->turn, &q->turns);/;/
fetch: turns of one|s/lane->left = lane->quantum;/lane->left = 1;/g
undeliver: by the dead|s/if (!s || !q->live || gen != q->gen)/if (!s || gen != q->gen)/
undeliver: by an older one|s/if (!s || !q->live || gen != q->gen)/if (!s || !q->live)/
undeliver: first first|s/while (n--) {.*/for (u32 k = n, i = 0; i < k; i++) { n = i;/
undeliver: to the tail|/RLX_EV_UNDELIVER\]/s/HEAD, RLX_SLOT_READY/MOVE, RLX_SLOT_READY/
requeue: to the tail|s/RLX_EV_EXEC_GONE_REQUEUE\]\t= { HEAD,/RLX_EV_EXEC_GONE_REQUEUE] = { MOVE,/
requeue: first first|s/list_last_entry/list_first_entry/
bury: while it lives|s/if (q->live || rlx_slots_settled(q))/if (rlx_slots_settled(q))/
bury: one too many|s/if (\*n == max)/if (*n > max)/
attach: over the unburied|s/if (q->live || !rlx_slots_settled(q))/if (q->live)/
attach: a second one|s/if (q->live || !rlx_slots_settled(q))/if (!rlx_slots_settled(q))/
attach: the same again|s/if (gen <= q->gen)/if (gen < q->gen)/
attach: after the end|/^int rlx_slots_attach/,/^}/s/if (q->gone)/if (0)/
cancel: of another channel|s/if (!s || s->lane != lane)/if (!s)/
abandon: of another command|s/if (!s || !cmd || s->cmd != cmd)/if (!s || !s->cmd)/
points: met for nobody|s/if (!err && (q->gone || (!q->live && !q->requeue)))/if (0)/
points: always met|s/err ? RLX_EV_POINTS_FAIL : RLX_EV_POINTS_MET/RLX_EV_POINTS_MET/
take: after the end|s/if (lane->shut || q->gone)/if (lane->shut)/
take: of a shut lane|s/if (lane->shut || q->gone)/if (q->gone)/
take: before the first|s/return -ENOTCONN;/;/
take: while nobody serves|s/return q->live || q->requeue ? 0 : -EPIPE;/return 0;/
open: more than there is|s/if (depth > q->nr_pool)/if (0 \&\& depth > q->nr_pool)/
open: nothing|s/if (!depth || !quantum)/if (!quantum)/
close: the lane stays open|s/^\tlane->shut = true;//
close: one too many|s/if (work++ == max)/if (work++ > max)/
close: told twice|s/out\[(\*n)++\].acts &= ~RLX_ACT_DRAINED;/(*n)++;/
close: drained by another|s/^\tif (lane->drained)$/\tif (0)/
close: never drained|s/^\tlane->drained = true;$//
reap: of a shut lane|/^u32 rlx_lane_reap/,/^}/s/if (lane->shut)/if (0)/
reap: another's data|s/res->user_data = s->user_data;/res->user_data = s->seq;/
reap: last first|s/s = list_first_entry(done,/s = list_last_entry(done,/
expire: too late|s/rlx_slots_next_deadline(q) <= now/rlx_slots_next_deadline(q) < now/
told: never again|s/lane->told = 0;/;/
told: each time|s/acts &= ~lane->told;/;/
a lane keeps its turn|s/^\t\tlist_del_init(&lane->turn);/\t\t;/
a slot is not counted in|s/rlx_lane_count(lane, next, 1);/;/
a slot of a shut lane stays|s/if (next == RLX_SLOT_FREE && unlikely(lane->shut))/if (0)/
ring: of a shut lane too|s/ \&\& !out->lane->shut)/)/
ring: the result is not told|s/out->acts |= RLX_ACT_RESULT;/;/
ring: nobody is woken|s/out->acts = RLX_ACT_REAP;/;/
submit: for the dead|/^int rlx_slots_submit/,/^}/s/return err;/;/
submit: the first alone|/^int rlx_slots_submit/,/^}/s/i < n/i < 1/
submit: what waits tells nothing|s/out->acts |= waits.acts;/;/
drop: keeps the command|/^void rlx_slot_drop/,/^}/s/s->cmd = NULL;//
drop: keeps the points|/^void rlx_slot_drop/,/^}/s/s->wait = NULL;//
take: more than asked for|s/n < max \&\& !list_empty(free)/!list_empty(free)/
leases of the first word alone|/^static void rlx_slot_lease/,/^}/s/words &= words - 1/words = 0/
every list is a stack|s/head ? list->next : list;/list->next;/;s/head ? list : list->prev;/list;/
no lock is asked for|s/lockdep_assert_held(.*);/;/
END
}

# "NAME|EXPRESSION", and the folder; the verdict is left in FOLDER/tap.
run_case()
{
	IFS='|' read -r name expr <<END
$1
END
	dir=$2
	mkdir -p "$dir/kmod"
	cp kmod/slot*.[ch] kmod/pure.h kmod/testing.h "$dir/kmod/"
	sed "$expr" kmod/slot.c >"$dir/kmod/slot.c"
	if cmp -s kmod/slot.c "$dir/kmod/slot.c"; then
		echo "not ok N $name: the expression changes nothing" >"$dir/tap"
		return
	fi
	# Sanitizers take most of the time, and few mistakes need them to be found.
	for san in '' '-g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined'; do
		# shellcheck disable=SC2086 # options
		if ! $CC -std=gnu11 -O0 -w -D_GNU_SOURCE -pthread -I"$dir" -I. $san \
		     selftests/slot/machine.c selftests/lib/rlx_test.c \
		     -o "$dir/test" -lm >"$dir/log" 2>&1; then
			echo "not ok N $name: does not compile" >"$dir/tap"
			return
		fi
		RLX_TEST_SEED=1 timeout 60 "$dir/test" >"$dir/log" 2>&1
		rm -f "$dir/test"
		found=$(sed -n 's/^not ok [0-9]* //p' "$dir/log" | tr '\n' ' ')
		[ -z "$found" ] || break
	done
	if [ -n "$found" ]; then
		printf '# by %s\nok N %s\n' "$found" "$name" >"$dir/tap"
	else
		printf '# not found\nnot ok N %s\n' "$name" >"$dir/tap"
	fi
}

if [ "${1-}" = --case ]; then
	run_case "$2" "$3"
	exit
fi
mistakes >"$tmp/mistakes"
run_cases selftests/slot/mutants.sh "$BUILD/mutants" <"$tmp/mistakes"
finish

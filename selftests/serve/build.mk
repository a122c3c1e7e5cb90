# SPDX-License-Identifier: MIT
# The tests of rlxd: with real clients and hostile ones, each in its own process.
SERVE_RUN := selftests/serve/run.sh
SERVE_PY  := hostile clients ops

check-serve:
	$(Q)tools/setup.sh serve
	$(Q)+$(SUBMAKE) $(BUILD)/bin/rlx $(BUILD)/bin/rlxd
	$(Q)tools/fetch-models.sh minilm
	$(Q)+$(SUBMAKE) $(BUILD)/models/minilm.onnx
	$(Q)selftests/serve/venv.sh
	$(Q)$(RUN) -g $@ $(SERVE_PY:%='$(SERVE_RUN) %')

# The same with the daemon under the address and undefined behaviour sanitizers.
asan-serve: export ASAN_OPTIONS := allocator_may_return_null=1
asan-serve:
	$(Q)tools/setup.sh serve
	$(Q)+$(SUBMAKE) BUILD=build/asan-serve SAN='$(SAN_asan)' \
		KERNEL_OPT='-O1 -g1 -ffp-contract=fast -fno-sanitize=all' \
		build/asan-serve/bin/rlxd
	$(Q)tools/fetch-models.sh minilm
	$(Q)+$(SUBMAKE) $(BUILD)/models/minilm.onnx
	$(Q)selftests/serve/venv.sh
	$(Q)RLXD=build/asan-serve/bin/rlxd $(RUN) -g $@ $(SERVE_PY:%='$(SERVE_RUN) %')

.PHONY: check-serve asan-serve

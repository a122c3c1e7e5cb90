# SPDX-License-Identifier: MIT
# The Debian packages: built, looked into, installed, upgraded and removed.
#
# They lie in $(BUILD)/deb afterwards. The headers that DKMS builds against are
# those of "make kernels"; a series that cannot be had is skipped.
deb:
	$(Q)tools/setup.sh deb
	$(Q)tools/fetch-kernels.sh -H 6.1 6.12 6.12-cloud 7 || :
	$(Q)$(RUN) -g $@ -t 1800 selftests/deb/packages.sh \
		'selftests/deb/dkms.sh 6.1 6.12 6.12-cloud 7' selftests/deb/install.sh

.PHONY: deb

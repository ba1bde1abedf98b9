# SPDX-License-Identifier: GPL-2.0
#
# The commands for users. Kbuild beside this file is for the kernel's build.

# Neither make nor the kernel's build can name such a file.
$(if $(word 2,$(CURDIR)),$(error oxe: the path of this checkout has a blank, which the kernel's \
	build does not take: move it. It is $(CURDIR)))

KDIR ?=
# One of the kernels in scripts/common.sh; the scripts see it, too.
KERNEL ?=
export KERNEL
# Where install puts things; KVER= is the kernel it is for.
export KVER DESTDIR prefix bindir moduledir unitdir mandir docdir datadir completiondir
scripts := $(CURDIR)/scripts

# With KDIR= the module is built by this machine's own tools against that prepared kernel tree;
# without it, in the build root, against Debian's kernel: the newest of those it is made for, or
# KERNEL=.
all:
	@$(scripts)/build $(if $(KDIR),--kdir $(KDIR))

demo:
	@$(scripts)/demo

test:
	@$(scripts)/test

test-debug:
	@$(scripts)/test --debug $(if $(RECORD),--record)

test-fit:
	@$(scripts)/test-fit $(if $(RECORD),--record)

test-nightly:
	@$(scripts)/test-nightly $(PARTS)

test-soak:
	@$(scripts)/build
	@$(scripts)/run-selftests --repeat $(or $(REPEAT),5) --load $(ONLY)

test-arm64:
	@KERNEL=arm64 $(scripts)/build
	@KERNEL=arm64 $(scripts)/run-selftests link verbs-rc verbs-uc verbs-ud ops kernel srq

check:
	@$(scripts)/check

test-host:
	@$(scripts)/test-host '$(T)' $(P)

fix:
	@$(scripts)/fix

rules:
	@$(scripts)/tidy --rules

doc:
	@$(scripts)/doc

docs:
	@$(scripts)/docs

bench:
	@$(scripts)/bench \
		$(if $(PROFILE),--profile,$(if $(REAL),--real,$(if $(TABLE),--table,$(if \
		$(TRACED),--traced)))) '$(ONLY)'

bench-compare:
	@$(scripts)/bench --compare '$(ONLY)'

lab:
	@$(scripts)/lab $(if $(BASE),--base '$(BASE)') \
		$(if $(filter command,$(firstword $(origin CC))),--controller '$(CC)') '$(SCENARIO)'

shell:
	@$(scripts)/build
	@$(scripts)/build-command
	@$(scripts)/vm --shell

install:
	@$(scripts)/install

uninstall:
	@$(scripts)/install --remove

deb:
	@$(scripts)/deb

bundle:
	@$(scripts)/bundle $(KIND)

bundle-sources:
	@$(scripts)/bundle-sources $(KIND)

test-bundle:
	@$(scripts)/test-bundle

test-deb:
	@$(scripts)/deb --check
	@$(scripts)/test-packages
	@$(scripts)/test-dkms

check-kernels:
	@$(scripts)/check-kernels

setup:
	@$(scripts)/setup

clean:
	@$(scripts)/build --clean

distclean: clean
	@$(scripts)/setup --remove

help:
	@echo 'all (default)  oxe.ko for the Debian kernel; KDIR=<prepared tree> for another'
	@echo 'demo           everything from nothing: boot the stock kernel, run RDMA programs' \
		'over oxe'
	@echo 'test           the tests: checks, host tests, tests in virtual machines'
	@echo 'test-debug     the tests in the virtual machine, on a kernel with KASAN, lockdep' \
		'and the like'
	@echo 'test-soak      the tests in the virtual machine five times (REPEAT=) beside a load' \
		'of two CPUs; ONLY=<names> for some'
	@echo 'test-fit       does the module fit a kernel (KERNEL=)? The tests that show it'
	@echo 'test-nightly   all that takes long, for hours; goes on where it was interrupted;' \
		'PARTS=<names> for some'
	@echo 'test-arm64     the module for Debian'"'"'s arm64 kernel, and a few tests on an' \
		'emulated machine of that kind'
	@echo 'check          format, clippy, host tests, layering rules'
	@echo 'test-host      the host tests of the protocol core; T=<part of a name> for some,' \
		'P=sim for the simulator'"'"'s'
	@echo 'fix            mends the format of Rust code and what is made of the sources'
	@echo 'rules          the rules of the specification that the protocol cites, and the' \
		'tests of each'
	@echo 'doc            the documentation in the Rust sources as HTML, in build/doc'
	@echo 'docs           Documentation as HTML, in build/docs; a warning is an error'
	@echo 'bench          rxe, siw, oxe, TCP and memcpy measured in one boot; ONLY=<part of a' \
		'name> for some rows;'
	@echo '               PROFILE=1 ONLY=<row> tells by function where the instructions of' \
		'that row go, DRIVER=siw or rxe for those;'
	@echo '               REAL=1 compares oxe with rxe on two CPUs in real time;'
	@echo '               TRACED=1 has each trace event enabled, beside the table;'
	@echo '               TABLE=1 writes the table of costs, tools/perf/table.json'
	@echo 'bench-compare  the instructions of a message beside the table; fails if a row is' \
		'more than 1 % worse'
	@echo 'lab            oxe, rxe and TCP on a wire that is narrow, long, or loses packets;' \
		'SCENARIO=bottleneck,'
	@echo '               crowd, fairness, incast, lossy, reorder, own, long, or one row of' \
		'these;'
	@echo '               CC=cubic, dcqcn or delay chooses the controller;' \
		'BASE=<commit> also oxe as of then'
	@echo 'shell          a prompt in the virtual machine with oxe loaded'
	@echo 'install        oxe for the running kernel of this machine, or for KVER=<version>;' \
		'DESTDIR=, prefix='
	@echo 'uninstall      remove that again'
	@echo 'deb            the Debian packages, in build/deb'
	@echo 'test-deb       these built twice, judged by lintian, and tested: installed, used,' \
		'removed'
	@echo 'bundle         what machines with oxe need, as one file to download, and oxe-run,' \
		'which runs programs in'
	@echo '               them anywhere; in build/bundle. KIND=full has MPI and storage too'
	@echo 'bundle-sources the sources of all that is in that bundle, in build/bundle/sources'
	@echo 'test-bundle    the bundle in roots of Debian 12, 13 and sid, as a user without root'
	@echo 'check-kernels  which kernels has the archive today: those that oxe knows, newer' \
		'ones?'
	@echo 'setup          only fetch and prepare what the others need (kept outside the' \
		'checkout)'
	@echo 'clean          remove what was built in the checkout'
	@echo 'distclean      that, and what setup keeps outside the checkout'
	@echo 'variables      KERNEL=<version> the kernel, by its first numbers (7.2) or in full,' \
		'or cloud, arm64, testing, sid;'
	@echo '               by default the first in scripts/common.sh; test: that one alone'
	@echo '               OXE_STRICT=1 takes no other kernel where the archive has lost it'
	@echo '               JOBS=<tests in virtual machines at a time>  OXE_CACHE=<directory> ' \
		'OXE_MIRROR=<Debian mirror>  V=1'
	@echo '               OXE_ACCEL=tcg or kvm: how virtual machines run (KVM where it is' \
		'usable)'
	@echo 'your program   scripts/run-in-vm runs it between two hosts with oxe:' \
		'scripts/run-in-vm --help'

.PHONY: all demo test test-debug test-fit test-nightly test-soak test-arm64 test-host check fix \
	lab rules doc docs bench bench-compare shell install uninstall deb bundle bundle-sources \
	test-bundle test-deb check-kernels setup clean distclean help

# barkerd: build, test, install what is missing. `make help` lists the targets.
#
# Sources are found by wildcard: a new file in a room of core/ or server/, in models/, clients/cli/ or tests/*/ needs no edit here.
# A build lives in B; the sanitizer and coverage builds are the same rules with another B and SAN.

B      ?= build/release
ifeq ($(origin CC),default)
CC     := gcc
endif
# V=1 shows the commands.
Q      := $(if $(V),,@)
OPT    ?= -O2
SAN    ?=
JOBS   ?= $(shell nproc)

WARN    = -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-psabi $(if $(SAN),-Werror=implicit-function-declaration,-Werror) # sanitizers confuse gcc's flow analysis
# No -ffast-math and no contraction: the same seed gives the same draws wherever multiply-adds are fused. Nothing here reads errno
# of libm or traps, which lets the compiler vectorise plain loops without changing a value.
FLOAT  := -ffp-contract=off -fno-math-errno -fno-trapping-math
HARDEN := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
CFLAGS  = -std=gnu17 $(OPT) -g $(WARN) $(FLOAT) $(if $(SAN),$(SAN),$(HARDEN)) -pthread -I. -D_GNU_SOURCE
LDFLAGS = $(SAN) $(if $(SAN),,-pie -Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now) -pthread
comma  := ,

SERVER_LIBS := -lmicrohttpd -ljansson -lsqlite3 -lgnutls -lxxhash -lz
CLI_LIBS    := -lcurl -ljansson

obj   = $(patsubst %.c,$(B)/%.o,$(1))
find  = $(sort $(shell find $(1) -name '*.c' 2>/dev/null))
# core/kernels/kernels.c is compiled once per instruction set. Fused multiply-adds are where the source has them, and all that have them give
# the same bits: AVX2, AVX-512 and, on any x86_64, the emulated ones, which are for that and for the tests, not for speed.
# Under sanitizers they take minutes at -O3, and what the two omitted checks find, AddressSanitizer finds too.
KERNEL_OPT  := $(if $(SAN),-O1 -fno-sanitize=null$(comma)object-size,-O3)
KERNEL_ISAS := portable $(if $(filter x86_64,$(shell uname -m)),emulated avx2 avx512)
ISA_emulated := -DEMULATE_FUSED $(if $(SAN),,-O2)
ISA_avx2    := -mavx2 -mfma
ISA_avx512  := -mfma -mavx512f -mavx512dq -mavx512vl -mavx512bw -mprefer-vector-width=512
CORE   := $(call obj,$(filter-out core/kernels/kernels.c,$(call find,core))) $(KERNEL_ISAS:%=$(B)/core/kernels/kernels-%.o)
MODELS := $(call obj,$(wildcard models/*.c))
SERVER := $(call obj,$(filter-out server/main.c,$(call find,server)))
CLI    := $(call obj,$(wildcard clients/cli/*.c))
SUITES := $(sort $(foreach f,$(call find,tests),$(word 2,$(subst /, ,$(f)))))
SUITES := $(filter-out tsan bench crash support,$(SUITES))

.PHONY: all help openapi deps demo test truth paper asan tsan coverage lint format bench bench-server bench-bigdata bench-efficiency profile crash mutants clean
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

all: $(B)/barkerd $(B)/barker

help:
	@echo 'make            builds build/release/barkerd and build/release/barker'
	@echo 'make demo       installs what is missing, builds, runs an example on a private daemon'
	@echo 'make test       installs what is missing, builds, runs every test'
	@echo 'make paper      every experiment of the paper with its claims, as build/paper/report.html; PAPER_DATA=FOLDER, ONLY="sepsis ica"'
	@echo 'make truth      jobs on posteriors with independent answers, five seeds each: none may be wrong and confident'
	@echo 'make asan       the tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make tsan       the threaded tests under ThreadSanitizer'
	@echo 'make mutants    plants bugs in the numerics one by one and sees that the tests catch each'
	@echo 'make coverage   line coverage of the tests per file and folder, and which functions they miss'
	@echo 'make lint       format, static analysis, layering, no forbidden calls'
	@echo 'make crash      kills the daemon again and again and looks for anything lost'
	@echo 'make bench      speed of the sampling loop next to plain C, NumPy, PyTorch and R; QUICK=1, JSON=FILE, INSTRUCTIONS=1'
	@echo 'make profile    where the time of an iteration goes, function by function; ONLY="W2 W4"'
	@echo 'make bench-efficiency  how good an answer is after so many seconds, and what an effective draw costs; QUICK=1, JSON=FILE, ONLY=PART,PART'
	@echo 'make bench-bigdata  what data larger than a cache, or than memory, cost; QUICK=1'
	@echo 'make bench-server   speed of the daemon next to its building blocks; QUICK=1, JSON=FILE, ONLY=PART,PART'
	@echo 'make format     formats all C files, new ones included'
	@echo 'make openapi    writes what follows from the tables of the program into schema/openapi.json'
	@echo 'make deps       installs the Debian packages that are missing'
	@echo 'make clean      removes build/'

deps:
	@tests/deps

$(B)/libcore.a: $(CORE)
$(B)/libmodels.a: $(MODELS)
$(B)/libserver.a: $(SERVER)
$(B)/lib%.a:
	@rm -f $@
	$(Q)ar qcs $@ $^ # q, not r: rooms may have files of the same name

$(B)/barkerd: $(B)/server/main.o $(B)/libserver.a $(B)/libmodels.a $(B)/libcore.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS) -lm

$(B)/barker: $(CLI)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(CLI_LIBS) -lm

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/server/base/assets.o: $(wildcard schema/*.json schema/*/*.sql)

# The dashboard: bundled by esbuild, compiled in by server/api/web.c. Builds side by side share the packages.
WEB := clients/web/index.html clients/web/icon.png clients/web/build.mjs $(shell find clients/web/src -type f 2>/dev/null)

%/node_modules/.ready: %/package-lock.json
	@flock $< sh -c '[ $@ -nt $< ] || clients/web/fetch $*'

$(B)/web/list.h: $(WEB) clients/web/node_modules/.ready
	@node clients/web/build.mjs $(B)/web

$(B)/server/api/web.o: $(B)/web/list.h
$(B)/server/api/web.o: CFLAGS += -I$(B) -DWEB_FOLDER='"$(B)/web"'

$(KERNEL_ISAS:%=$(B)/core/kernels/kernels-%.o): $(B)/core/kernels/kernels-%.o: core/kernels/kernels.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(KERNEL_OPT) -fno-var-tracking $(ISA_$*) -DKERNELS=kernels_$* -DKERNELS_ISA='"$*"' -MMD -MP -c -o $@ $<

# One Criterion binary per folder of tests that holds C files.
define suite
$(B)/test-$(1): $(call obj,$(call find,tests/$(1))) $(B)/libserver.a $(B)/libmodels.a $(B)/libcore.a
	$(Q)$$(CC) $$(LDFLAGS) -o $$@ $$^ -lcriterion $$(SERVER_LIBS) -lm
endef
$(foreach s,$(SUITES),$(eval $(call suite,$(s))))

# Plain programs: crash-NAME (killed and restarted by tests/crash), tsan-NAME (Criterion does not work under
# ThreadSanitizer), bench-NAME.
define program
$(B)/$(1)-$(2): $(B)/tests/$(1)/$(2).o $(B)/libserver.a $(B)/libmodels.a $(B)/libcore.a
	$(Q)$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(SERVER_LIBS) -lm
endef
programs = $(patsubst tests/$(1)/%.c,%,$(wildcard tests/$(1)/*.c))
$(foreach k,crash tsan bench,$(foreach n,$(filter-out ours plain rows gibbs,$(call programs,$(k))),$(eval $(call program,$(k),$(n)))))
CRASH := $(patsubst %,$(B)/crash-%,$(call programs,crash))
TSAN  := $(patsubst %,$(B)/tsan-%,$(call programs,tsan))
BENCH := $(B)/bench-ours $(B)/bench-plain $(B)/bench-rows $(B)/bench-metrics $(B)/bench-gibbs
BENCH_SERVER := $(patsubst %,$(B)/bench-%,server_load server_blocks store bare table)

$(B)/bench-ours: $(B)/tests/bench/ours.o $(B)/libmodels.a $(B)/libcore.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm

# The yardsticks: what a user's own program would be compiled with.
$(B)/bench-plain $(B)/bench-rows $(B)/bench-gibbs: $(B)/bench-%: tests/bench/%.c tests/bench/worker.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -O2 -I. -o $@ $< -lm

.PHONY: build-tests
build-tests: all $(SUITES:%=$(B)/test-%) $(CRASH) $(BENCH) $(BENCH_SERVER) tests/browser/node_modules/.ready

test: deps
	@$(MAKE) --no-print-directory -j$(JOBS) build-tests
	@B=$(B) tests/run

truth: deps
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@B=$(B) SEEDS=5 LARGE=1 tests/truth/run

# PAPER_DATA=FOLDER: where the data are. ONLY="sepsis ica": some experiments.
paper: deps
	@$(MAKE) --no-print-directory -j$(JOBS) all $(B)/bench-gibbs
	@B=$(B) tests/paper/paper $(ONLY)

asan: deps
	@$(MAKE) --no-print-directory -j$(JOBS) B=build/asan OPT=-O1 SAN="-fsanitize=address,undefined -fno-omit-frame-pointer" build-tests
	@B=build/asan ASAN_OPTIONS=detect_stack_use_after_return=1 tests/run

# Uninstrumented libraries synchronise in ways that ThreadSanitizer cannot see, so the programs are our own storms.
tsan: deps
	@$(MAKE) --no-print-directory -j$(JOBS) B=build/tsan OPT=-O1 SAN="-fsanitize=thread" tsan-programs
	@B=build/tsan tests/tsan/run-all

.PHONY: tsan-programs
tsan-programs: $(TSAN)

coverage: deps
	@$(MAKE) --no-print-directory -j$(JOBS) B=build/coverage OPT=-O0 SAN="--coverage" build-tests
	-@B=build/coverage tests/run
	@tests/lint/coverage build/coverage

mutants: deps
	@tests/mutants/mutants

# QUICK=1: a short look. JSON=FILE: every number. INSTRUCTIONS=1: counted by valgrind, too.
bench-server: all $(BENCH_SERVER)
	@B=$(B) QUICK=$(QUICK) JSON=$(JSON) ONLY=$(ONLY) tests/bench/server

bench-efficiency: all $(B)/bench-scaling
	@B=$(B) QUICK=$(QUICK) JSON=$(JSON) ONLY=$(ONLY) tests/bench/efficiency

profile: $(B)/bench-ours
	@B=$(B) tests/bench/profile $(ONLY)

bench-bigdata: $(B)/bench-bigdata
	@B=$(B) tests/bench/bigdata $(if $(QUICK),--quick)

bench: $(BENCH)
	@B=$(B) tests/bench/sampling $(if $(QUICK),--quick) $(if $(JSON),--json $(JSON)) $(if $(INSTRUCTIONS),--instructions)

crash: all $(CRASH)
	@B=$(B) tests/crash/kill9

lint: deps
	@tests/lint/run
	@tests/lint/style

# Job fields and formats of draws, from the tables of the program.
openapi: all
	@B=$(B) schema/refresh

format:
	@clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h')

demo: deps
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@B=$(B) clients/cli/demo

clean:
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)

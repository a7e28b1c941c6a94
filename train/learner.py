"""An encoder that is being trained: adapters, loss, optimiser, how ranks share an update, the moving average."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
from peft import PeftModel
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError
from tilewright.train.adapters import MovementCheck, add_adapters, count_by_group, is_of_vision, trainable
from tilewright.train.batch import Batch
from tilewright.train.batch_plan import digest_of
from tilewright.train.contrastive_step import ContrastiveStep
from tilewright.train.ema import Ema
from tilewright.train.embedder_config import Config
from tilewright.train.encoder import Encoder
from tilewright.train.launch import launched_as
from tilewright.train.objective import Objective
from tilewright.train.optimizer import exercised, make_optimizer, peak_rates
from tilewright.train.parallel import choose_parallel, load_saved_state, saved_state
from tilewright.train.schedule import learning_rates, rate_share
from tilewright.train.step_inputs import StepInputs

Saved = dict[str, dict[str, Tensor]]
"""{`weights`, `optimizer`, `average` (if there is one): {name: tensor}}; an optimiser's are called WEIGHT/VALUE."""


class Learner:
    """What a training run updates and searches with. Its methods are to be called on every rank, in the same order."""

    def __init__(self, config: Config, encoder: Encoder, rank: int) -> None:
        self._config, self._encoder, self._rank = config, encoder, rank
        if launched_as() == "fsdp2" and not encoder.family.SHARDED:
            raise InputError(f"a model of family {encoder.family.NAME} isn't sharded by FSDP: launch it without")
        largest = max(config.loss.matryoshka, default=0)
        if largest > encoder.dimension:
            raise InputError(
                f"loss.matryoshka: wanted at most {encoder.dimension}, the dimension of the model, found {largest}"
            )
        if config.trainable == "full" and isinstance(encoder.model, PeftModel):
            raise InputError(
                "trainable: full: wanted a model without adapters, found one with them: export it as merged"
            )
        if config.trainable == "adapters":
            encoder.model = add_adapters(
                encoder.model,
                config.adapters,
                seed=config.seed,
                use_dora=config.use_dora,
                use_rslora=config.use_rslora,
            )
        if config.gradient_checkpointing:
            encoder.model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
        if config.text_steps and not config.loss.learn_temperature and all(map(is_of_vision, trainable(encoder.model))):
            raise InputError(
                f"text_steps: wanted 0, found {config.text_steps}: texts reach nothing that is trained in a model of"
                f" family {encoder.family.NAME}"
            )
        self.parameters_by_group = count_by_group(encoder.model)
        self._objective = Objective(config.loss).to(encoder.device)
        self._training = choose_parallel(
            encoder,
            self._objective,
            lambda weights: make_optimizer(weights, config.adapters, weight_decay=config.weight_decay),
            config.max_grad_norm,
            self._embed,
        )
        self._parallel = self._training.parallel
        self._peaks = peak_rates(
            self._parallel.optimizer, config.adapters, config.learning_rate, config.temperature_learning_rate
        )
        self._movement = MovementCheck(config.adapters, [f"encoder.{name}" for name in trainable(encoder.model)])
        self._average = Ema(trainable(encoder.model), config.ema_decay) if config.ema_decay else None
        self._step = ContrastiveStep(
            encoder.model,
            self._training.embed,
            self._training.objective,
            encoder.dimension,
            chunking=config.chunking,
            backward=self._parallel.backward,
            equal_passes=self._parallel.equal_passes,
        )

    def _embed(self, batch: Batch) -> Tensor:
        """[B, D] float32 vectors with gradient, in the run's precision."""
        wanted = self._config.precision == "bfloat16"
        with torch.autocast(self._encoder.device.type, torch.bfloat16, enabled=wanted):
            return self._encoder.forward(batch)

    def update(self, step: int, inputs: StepInputs) -> dict[str, float]:
        """One update of the weights, number ``step`` from 0: loss, rate, norm before clipping, figures of the loss.

        Raises StageError if loss or gradients aren't finite, AdapterError for a group that doesn't learn.
        """
        config = self._config
        torch.manual_seed(digest_of(config.seed, "step", step, self._rank) % 2**63)
        shape = (config.warmup_steps, config.final_share, config.schedule)
        rates = exercised(
            learning_rates(step, config.steps, self._peaks, *shape),
            inputs.with_images,
        )
        self._encoder.model.train()
        loss, stats = self._step(inputs)
        norm = self._parallel.update(rates)
        if not torch.isfinite(loss) or not torch.isfinite(norm):
            raise StageError(
                f"step {step + 1}: loss {loss.item()}, gradient norm {norm.item()}: wanted finite ones; lower"
                " learning_rate or max_grad_norm"
            )
        if not stats["valid_negatives"] > 0:
            raise StageError(
                f"step {step + 1}: no query of {inputs.examples} has a negative, so there is nothing to learn: raise"
                " batch_size, hard_negatives or random_tiles, or loss.margin"
            )
        self._objective.clamp()
        if self._average is not None:
            self._average.update()
        if self._movement.waiting:
            self._movement.after_update(self._parallel.weights(), rates)
        rate = config.learning_rate * rate_share(step, config.steps, *shape)
        figures = {"loss": loss.item(), "learning_rate": rate, "grad_norm": norm.item()}
        return figures | {name: value.item() for name, value in stats.items()}

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Within, the encoder has whole weights on this rank, the averaged ones if there are: to search and to save."""
        with ExitStack() as stack:
            stack.enter_context(self._parallel.whole())
            if self._average is not None:
                stack.enter_context(self._average.averaged())
            yield

    def weights(self) -> dict[str, Tensor]:
        """{name: whole trained weight}: what ``searching`` has in place, the averaged ones if there are.

        Of the average itself, since ZeRO's weights are copies that ``averaged`` doesn't reach.
        """
        averages = {} if self._average is None else self._average.weights()
        return self._parallel.weights() | {f"encoder.{name}": value for name, value in averages.items()}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Put ``weights`` back, as they are: the moving average ends."""
        self._average = None
        self._parallel.load_weights(weights)

    def state(self) -> Saved:
        """All that ``load_state`` needs to go on."""
        average = {} if self._average is None else {"average": self._average.state()}
        return saved_state(self._parallel) | average

    def load_state(self, saved: Saved) -> None:
        """Go on from a ``state``. Raises InputError if it belongs to other weights."""
        load_saved_state(self._parallel, saved)
        if self._average is not None:
            if "average" not in saved:
                raise InputError("the resume files hold no moving average: delete the partial folder to start over")
            self._average.load(saved["average"])

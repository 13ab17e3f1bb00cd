"""One thread owns the model, and translates together what waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice

from evenglot.directions import Direction
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import Translation, TranslationWarning, Translator
from evenglot.serve.messages import Limits

log = logging.getLogger(__name__)


@dataclass
class Job:
    """A request on its way: `answer` is done when all sentences are translated, or cancelled when nobody waits."""

    sentences: Sequence[str]
    direction: Direction
    options: SearchOptions
    answer: Future[list[list[Translation]]] = field(default_factory=Future)
    translations: list[list[Translation]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, translations: list[Translation]) -> None:
        """The next sentence is translated."""
        self.translations.append(translations)
        if len(self.translations) == len(self.sentences) and self.answer.set_running_or_notify_cancel():
            self.answer.set_result(self.translations)

    def fail(self, error: Exception) -> None:
        """It cannot be translated."""
        if not self.answer.done() and self.answer.set_running_or_notify_cancel():
            self.answer.set_exception(error)


class Worker:
    """Translates what waits: the oldest request first, and together with it others of its direction and options.

    A long request is done in several batches, so that it can be given up in between and short ones join in.
    """

    def __init__(self, translator: Translator, limits: Limits) -> None:
        self._translator, self._limits = translator, limits
        self._waiting: list[Job] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="translator", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Put a request, which has sentences, in the queue."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Finish the batch that is being translated, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            try:
                self._translate(batch)
            except Exception as error:
                log.exception("a batch of %d sentences could not be translated", len(batch))
                for job, _ in batch:
                    job.fail(error)

    def _next_batch(self) -> list[tuple[Job, int]]:
        """Requests and numbers of their sentences; none when it is time to stop."""
        with self._changed:
            self._waiting = [job for job in self._waiting if not job.answer.done()]
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return [] if self._closing else list(self._fitting(self._waiting))

    def _fitting(self, jobs: list[Job]) -> Iterator[tuple[Job, int]]:
        """As many sentences as may be translated together, at least one."""
        wanted = (jobs[0].direction, jobs[0].options)
        alike = (job for job in jobs if (job.direction, job.options) == wanted)
        items = ((job, number) for job in alike for number in range(len(job.translations), len(job.sentences)))
        characters = 0
        for place, (job, number) in enumerate(islice(items, self._limits.batch_sentences)):
            characters += len(job.sentences[number])
            if place and characters > self._limits.batch_characters:
                return
            yield job, number

    def _translate(self, batch: list[tuple[Job, int]]) -> None:
        def warn(warning: TranslationWarning) -> None:  # its line is counted in the batch
            job, number = batch[warning.line - 1]
            job.warnings.append(f"sentence {number + 1}: {warning.text}")

        sentences = [job.sentences[number] for job, number in batch]
        found = self._translator.stream(sentences, batch[0][0].direction, batch[0][0].options, warn)
        for (job, _), translations in zip(batch, found, strict=True):
            job.add(translations)

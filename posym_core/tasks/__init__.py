"""Tasks of the papers: inputs with known answers."""

from posym_core.tasks.facts import Ceilings, FactsBatch, FactsTask
from posym_core.tasks.index_retrieval import IndexTask, PartialInductionTask, RetrievalTask, TaskBatch
from posym_core.tasks.number_letter import LetterTask, NumberTask
from posym_core.tasks.number_letter_programs import (
    apply_index,
    apply_reflexive,
    apply_retrieval,
    find_index_targets,
    find_retrieval_targets,
    is_valid,
    split_letters,
    walk,
)
from posym_core.tasks.number_letter_shortcuts import measure_counting_accuracy, reroute
from posym_core.tasks.sentences import DistanceTask

__all__ = [
    "Ceilings",
    "DistanceTask",
    "FactsBatch",
    "FactsTask",
    "IndexTask",
    "LetterTask",
    "NumberTask",
    "PartialInductionTask",
    "RetrievalTask",
    "TaskBatch",
    "apply_index",
    "apply_reflexive",
    "apply_retrieval",
    "find_index_targets",
    "find_retrieval_targets",
    "is_valid",
    "measure_counting_accuracy",
    "reroute",
    "split_letters",
    "walk",
]

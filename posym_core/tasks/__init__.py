"""Tasks of the papers: inputs with known answers."""

from posym_core.tasks._facts import MARKS, START, FactsBatch, FactsTask, Question
from posym_core.tasks._index_retrieval import IndexTask, PartialInductionTask, RetrievalTask, Task, TaskBatch
from posym_core.tasks._number_letter import LetterTask, MultihopBatch, NumberTask
from posym_core.tasks._number_letter_programs import (
    apply_index,
    apply_retrieval,
    find_index_targets,
    find_retrieval_targets,
    is_valid,
    split_letters,
    walk,
)
from posym_core.tasks._sentences import PADDING, TRIGGERS, CountTask, DistanceTask, SentenceBatch

__all__ = [
    "MARKS",
    "PADDING",
    "START",
    "TRIGGERS",
    "CountTask",
    "DistanceTask",
    "FactsBatch",
    "FactsTask",
    "IndexTask",
    "LetterTask",
    "MultihopBatch",
    "NumberTask",
    "PartialInductionTask",
    "Question",
    "RetrievalTask",
    "SentenceBatch",
    "Task",
    "TaskBatch",
    "apply_index",
    "apply_retrieval",
    "find_index_targets",
    "find_retrieval_targets",
    "is_valid",
    "split_letters",
    "walk",
]

"""The small models that the studies train.

retriever.py       the paper's single-head retriever, written as the definition
fast_retriever.py  the same function with a sixth of the arithmetic
set_reader.py      the retriever with any normaliser and any query
decoder.py         a small causal decoder with any normaliser; positions.py has RoPE and ALiBi
attention.py       attention as these models call it, and the weights it used
seeding.py         modules whose initial weights come from a `torch.Generator`
"""

from strop.studies.networks.decoder import Decoder, DecoderConfig
from strop.studies.networks.retriever import Retriever, RetrieverConfig
from strop.studies.networks.set_reader import SetReader, SetReaderConfig

__all__ = ["Decoder", "DecoderConfig", "Retriever", "RetrieverConfig", "SetReader", "SetReaderConfig"]


def __dir__() -> list[str]:
    return __all__

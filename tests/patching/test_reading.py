"""What the code of a class says of its attention: over transformers' own classes, and over classes of a user."""

from __future__ import annotations

import importlib
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop.patching.reading import find_way, find_way_of

CLASSES = {
    "llama LlamaAttention": "transformers",
    "longcat_flash LongcatFlashMLA": "transformers",
    "bigbird_pegasus BigBirdPegasusDecoderAttention": "transformers",
    "aimv2 Aimv2AttentionPoolingHead": "torch",
    "falcon FalconAttention": "torch",
    "granite_speech GraniteSpeechConformerAttention": "torch",
    "sam SamVisionSdpaAttention": "torch",
    "wavlm WavLMAttention": "torch",
    "git GitSelfAttention": "written out",
    "longt5 LongT5LocalAttention": "written out",
    "longt5 LongT5TransientGlobalAttention": "written out",
    "bigbird_pegasus BigBirdPegasusBlockSparseAttention": "written out",
    "pegasus_x PegasusXGlobalLocalAttention": "written out",
    "got_ocr2 GotOcr2VisionAttention": "written out",
    "deepseek_ocr2 DeepseekOcr2SamVisionAttention": "written out",
    "gemma4 Gemma4AudioAttention": "written out",
    "maskformer/maskformer_swin MaskFormerSwinSelfAttention": "written out",
    "reformer LSHSelfAttention": "written out",
    "sew_d DisentangledSelfAttention": "written out",
    "squeezebert SqueezeBertSelfAttention": "written out",
    "dinat NeighborhoodAttention": "kernel",
    "rwkv RwkvSelfAttention": "other",
    "mamba2 Mamba2Mixer": "other",
    "lfm2 Lfm2ShortConv": "other",
    "qwen3_next Qwen3NextGatedDeltaNet": "other",
    "minimax MiniMaxLightningAttention": "other",
    "deformable_detr DeformableDetrMultiscaleDeformableAttention": "other",
    "mixtral MixtralTopKRouter": None,
    "gpt_oss GptOssExperts": None,
    "doge DogeCDMoE": None,
    "glm5_next Glm5NextTextIndexer": None,
    "maskformer MaskFormerHungarianMatcher": None,
    "xlm XLMSQuADHead": None,
    "rag RagTokenForGeneration": None,
    "mamba2 MambaRMSNormGated": None,
    "wav2vec2 Wav2Vec2AttnAdapterLayer": None,
}


@pytest.mark.parametrize("name", CLASSES)
def test_transformers_own_classes(name: str) -> None:
    path, kind = name.split()
    family, _, file = path.partition("/")
    found = getattr(importlib.import_module(f"transformers.models.{family}.modeling_{file or family}"), kind, None)
    if found is None:
        pytest.skip("not in this version of transformers")
    assert find_way_of(found) == CLASSES[name]


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def attend_by_torch(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, x, x)


class Helped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return attend(x, x, x)


class HelpedByTorch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return attend_by_torch(x)


class Block(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = x.chunk(3, -1)
        return torch.einsum("ij,jd->id", torch.einsum("id,jd->ij", q, k).softmax(-1), v)


class Pool(nn.Module):
    """F.multi_head_attention_forward, as in CLIP's pooling."""

    def forward(self, x: Tensor) -> Tensor:
        return F.multi_head_attention_forward(x, x, x, 8, 2, None, None, None, None, False, 0.0, x, None)[0]


class Router(nn.Module):
    def forward(self, x: Tensor, experts: Tensor) -> Tensor:
        weights = F.linear(x, experts).softmax(-1)
        return weights @ experts


class Classifier(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)


@pytest.mark.parametrize(
    ("kind", "way"),
    [(Helped, "written out"), (HelpedByTorch, "torch"), (Block, "written out"), (Pool, "torch"), (Router, None),
     (Classifier, None), (nn.Linear, None), (nn.Softmax, None), (nn.TransformerEncoderLayer, None)],
)  # fmt: skip
def test_a_users_classes(kind: type[nn.Module], way: str | None) -> None:
    assert find_way_of(kind) == way


def test_instances_of_torch_and_timm() -> None:
    assert find_way(nn.MultiheadAttention(8, 2)) == "torch"
    timm = nn.Identity()
    timm.fused_attn = False
    assert find_way(timm) == "torch"

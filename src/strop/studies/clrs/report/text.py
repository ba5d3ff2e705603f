"""The words of the page of the CLRS-Text study."""

LEAD = (
    "The paper (arXiv 2410.01104) replaces the softmax of Gemma 2B on CLRS-Text, classical algorithms as text, in "
    "training and inference. The same question for models that two cores can train."
)
PAPER = (
    "In words, the paper reports: adaptive temperature in fine-tuning and inference is better than softmax on most of "
    "30 algorithms at larger sizes, except heapsort, Kruskal's and bubble sort; at inference alone it does not work, "
    "because numbers span several tokens. Its figures are of a model of two thousand million parameters."
)
CURVES = "Means over seeds. The dotted line is the largest size in training."
COMPARISONS = (
    "Points are percentage points of difference from softmax, means over the sizes of a region. The interval is "
    "Student's over seeds: what other seeds would give. p over seeds is a paired t-test, p over questions McNemar's "
    "exact test of the questions that only one of the two answers: what other questions would give these same models. "
    "Both have Holm's correction over the algorithms of an arm. Three seeds find only large differences: – means not "
    "told apart, not equal."
)
PLACES = (
    "Place 0 begins a value, 1 is the first digit after that, and so on. Entropy is that of the softmax of the row's "
    "logits before any temperature, β what the paper's polynomial makes of it, both of models trained with softmax: "
    "means over heads, layers and eight questions a size. A β above 1 sharpens the row."
)
ROWS = (
    "Which rows must stay as they were trained? The models trained with softmax, with the published β in some rows "
    "alone and 1 in all others."
)
METHOD = (
    "One model an arm and seed learns all algorithms at once; answers alone are learned. All arms of a seed start from "
    "the same weights and see the same questions. Of several rates one is chosen by the loss of seed 0 on fresh "
    "questions of training sizes, with fewer steps; test sizes choose nothing. Positions are consecutive; where the "
    "decoder has a spread, those of each sequence are drawn from that many places and sorted, in training and test "
    "(arXiv 2305.16843). Exact: every token of the answer is the model's "
    "first choice, which is what greedy decoding writes. Arms a>b are trained with a and tested with b; an edge is "
    "β = max(0, 1 + a + b·log(n/256)) for each head, learned with all else frozen at training sizes, or, edge-larger, "
    "at 1¼ times the largest, which is one of the sizes tested as beyond."
)

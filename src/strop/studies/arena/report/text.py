"""The words of the arena's page."""

ARENA_LEAD = (
    "Every normaliser is trained on small problems and tested on far larger ones: same problems, same initial weights, "
    "same budget, a learning rate of its own."
)
BOARD = (
    "A score is the mean accuracy over the test sizes larger than any in training. The ranking takes the tasks in "
    "which few items matter; in the controls all items matter alike, and sharpness must not win there."
)
HEAT_CAPTION = "Score in per cent. Blank: the normaliser does not fit the task, or the runs are not there yet."
CURVES_CAPTION = (
    "Accuracy against size, means over seeds. The dotted line is the largest size in training. Grey: entrants further "
    "down the board."
)
SHARPNESS = (
    "Largest weight and entropy of the rows that answer, means over heads and layers of eight problems. Entropy is "
    "left out where weights are signed or may sum to more than one."
)
TOP_CAPTION = "The largest weight of a row; of signed weights the largest magnitude."
ENTROPY_CAPTION = "Entropy of the weights in nats."
CONTROLS = (
    "Do not sharpen where every item matters: averages and counts need weight spread over all items, and plain "
    "softmax, which can be uniform, is hard to beat there."
)
METHOD = (
    "Sets go to the single-head retriever of arXiv 2410.01104, sequences to a small causal decoder. AdamW, linear "
    "warm-up, cosine to zero, gradients clipped. Every rate is tried with seed 0 and the one of least loss on fresh "
    "problems of training sizes is kept for all seeds; test sizes choose nothing. Entrants written a>b are trained "
    "with a and tested with b. `adaptive` and `hard` are such: models trained with softmax.\n\n"
    "p-values are two-sided paired t-tests over seeds against softmax with Holm's correction within a task. Few seeds "
    "find only large differences: – means not told apart, not equal."
)

"""The words of the study's page. Numbers stand in its tables and figures, which the run itself fills."""

STUDY_LEAD = (
    "A small attention model learns to name the class of the largest of up to {} items. Shown more items it fails, "
    "slowly at first. How much of that is softmax growing blunt, how much can a temperature mend, and what is left?"
)

ACCURACY = """
Every row of a table uses the same frozen weights and the same sets; only the inverse temperature β differs, which
multiplies the attention logits before softmax. `adaptive` is the paper's polynomial of the entropy, `adaptive, held`
the same without its fall back to 1 above 5.9 nats, `refit` the paper's recipe repeated on our own in-distribution
data. `train entropy` raises β until a row has the mean entropy that the model had in training, and is what we
recommend: it needs one number, measured on training sets alone. `log n`, `1 + log` and `power`, (n / {0})^γ, are
functions of the number of items; γ comes from the best constant β at {1} and {2} items. `calibrated` is the larger of
`adaptive` and `power`. `hard` lets the top logit take all.

Three rows are ceilings that no rule can know how to reach: `oracle weight` gives each set the β ≥ 1 that is best for
its maximal item, `oracle any` counts a set as right if any β on a grid, or hard attention, makes it right, and the
best single β per size is chosen with hindsight at that size.
"""
ACCURACY_CAPTION = "Mean over seeds. Crosses: the paper's numbers. Training sees at most {} items."

STRIPS = """
The paper's Figure 2, redrawn from our models. Each panel shows 32 sets as rows and, as columns, the 16 items with the
largest values, the largest at the right. The right column fades as sets grow. Adaptive temperature brings some of it
back. Holding the training entropy brings all of the sharpness back, and so shows what is left: a bright cell that is
not in the right column is a set whose top logit is not its maximal item.
"""

DISPERSION = """
Softmax must disperse (Lemma 2.1): logits of bounded spread cannot keep any weight from falling like 1/n. But here the
measured spread is so large that the lemma's envelope is empty of content at these sizes: by spread alone, one item
could hold nearly all the weight even among 16,384. What disperses this model is the crowd near the top. With values
uniform on (0, 1) and logits that rise with slope s at the top, the item of rank k lies about k/n below the maximum,
so the weights fall like exp(−s k/n): about n/s items share the weight, the entropy is 1 + log(n/s), and the top
weight s/(s + n). One measured number, the slope, draws both dashed curves. (The lemma is the paper's; this law is
ours.)
"""
DISPERSION_CAPTION = "Softmax, means over sets and seeds. Dashed: the law with the first group's measured slope."

RULES = """
By the same law a model stays as sharp at n items as it was at {0} if β grows in proportion to n, far faster than log
n. Whether that helps depends on the order of the logits near the top: sharpening a right order is a gain, sharpening
a wrong one is none. The recommended rule has the best mean accuracy on sizes up to {1}, on sets of their own; by the
largest regret there it would be `1 + log`, and both are shown. No larger size was used to fit anything.

The published polynomial peaks at β = 2.42 and switches itself off above 5.94 nats. The paper's recipe, repeated on our
models, gives a polynomial that holds only for the entropies it was fitted on.
"""
GROWTH_CAPTION = "Mean β over sets and seeds, first group. A cross at 128 stands for hard attention."
REFIT_CAPTION = (
    "First group. Each dot is a set of a training size whose maximal item did not get the top logit; β is the one that "
    "gives this item the most weight."
)

ORDER = """
A temperature never changes the order of the logits. If the top logit belongs to another item than the maximal one, no
β makes the maximal item the heaviest. Fed with the true maximum's value alone, the readout is right: nothing is lost
there. So what remains is the order.

Within a class the logit rises with the value, in all our models, so the top logit is always the largest item of its
class, and a wrong top is always of a wrong class. Between classes the curves are not quite in line: one class is a
little ahead of another, by an offset of a thousandth or so of the range of values. The two largest of n uniform
values lie about 1/n apart, so an offset of one thousandth begins to cost at some hundred items and decides almost
everything at ten thousand. The lines at the left use nothing but each model's ten curves, and foretell the measured
frequencies.

The offsets are mostly noise of the last optimiser steps: averaging the weights of the last thousand steps of the same
run, or bringing the learning rate down to zero, brings the classes into line.
"""
ORDER_CAPTION = "Left: mean over seeds. Right: each dot is the offset of one class of one model."

CERTAINTY = """
The paper's text was not at hand. Quoted by a source: task, model, Adam with learning rate 1e-3, batch 128, decay
1e-3, the adaptive polynomial, most of the published row. Recalled only: 100,000 steps, ten seeds, the published
numbers at 32, 128 and 8192 items, the recipe of the fit. Ours: decoupled decay, no division by √d, torch's
initialisation, the number of steps of `nearest` (chosen because its softmax row comes near the published one; no rule
was chosen that way), the cosine, the weight average, the slope law and the account of order.
"""
